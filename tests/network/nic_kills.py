"""Agents and notebooks of a `nic:` rig that are killed while they turn settings of a veth that outlives them.

``python -m tests.network.nic_kills notebook STATE STEP`` is the notebook's process, which turns settings to
and fro. Its agent, ``agent STATE STEP``, is the ordinary one but for this: it kills itself at the given step
of its journal, or never.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from labkit.errors import AgentLostError
from labkit.factors import Scalar
from labkit.linux.processes import owner_of
from labkit.rigs.device import DeviceRig
from tests.network.nic_host import TX, add_veth, interfaces, journals, restore_all, settings_of

ROOT = Path(__file__).resolve().parents[2]
CHANGES: tuple[dict[str, Scalar], ...] = (
    {"mtu": 1400, "gro": True, "threaded": True},
    {"qdisc": "pfifo", "txqueuelen": 7, "mtu": 1300},
)
STEPS_OF_A_ROUND = 22
NEVER, ONE_ROUND = 0, -1
PATIENCE_S = 10.0
Victim: TypeAlias = Literal["agent", "notebook", "both"]
VICTIMS: tuple[Victim, ...] = ("agent", "notebook", "both")


def agent(state: str, step: int) -> None:
    """Serve as the agent does; end at step `step` of the journal."""
    from labkit.agent import __main__ as program
    from labkit.agent import device

    steps = 0

    def on_step(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)

    device.FileJournal = functools.partial(device.FileJournal, on_step=on_step)  # type: ignore[misc,assignment]
    sys.argv[1:] = ["--state", state]
    program.main()
    (Path(state) / "steps").write_text(str(steps))


def notebook(state: str, step: int) -> None:
    """Turn settings until the agent, or this process, is killed; with step ``ONE_ROUND`` once."""
    from labkit.agent.client import AgentClient
    from labkit.agent.launch import AgentProcess
    from labkit.rigs import device

    own = [sys.executable, "-m", "tests.network.nic_kills", "agent", state, str(step)]
    command = ["env", f"PYTHONPATH={ROOT}", *own]
    device.connect_as_root = lambda **_: AgentClient(AgentProcess(command))  # type: ignore[assignment]
    with contextlib.suppress(AgentLostError), DeviceRig(TX, state=Path(state)) as rig:
        process = rig._client._process
        assert isinstance(process, AgentProcess)
        sys.stdout.write(f"{process.pid}\n")
        sys.stdout.flush()
        while True:
            with rig.applied(CHANGES[0]), rig.applied(CHANGES[1]):
                pass
            if step == ONE_ROUND:
                return


def start_notebook(state: Path, step: int) -> tuple[subprocess.Popen[str], int]:
    """Start a notebook's process; it, and the pid of its agent."""
    command = [sys.executable, "-m", "tests.network.nic_kills", "notebook", str(state), str(step)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def killed_at_step(state: Path, step: int) -> None:
    """An agent is killed at step `step` of its journal: nothing is left behind it."""

    def work() -> None:
        process, agent_pid = start_notebook(state, step)
        finish(process)
        assert process.returncode == 0
        assert processes_of(agent_pid) == []

    leaves_nothing(state, work, by_restore=step % 2 == 0)


def killed_at_random(state: Path, victim: Victim, seed: int) -> None:
    """Somebody is killed at a random moment: nothing is left behind."""
    chance = random.Random(seed)

    def work() -> None:
        process, agent_pid = start_notebook(state, NEVER)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0.0, 0.3))
        victims = {"agent": [agent_pid], "notebook": [process.pid], "both": [process.pid, agent_pid]}[victim]
        chance.shuffle(victims)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        finish(process)
        wait_until(lambda: processes_of(agent_pid) == [], f"agent {agent_pid} outlived its notebook")
        if victim == "notebook":
            assert journals(state) == []

    leaves_nothing(state, work, by_restore=chance.random() < 0.5)


def signalled(state: Path, number: signal.Signals | None) -> None:
    """A notebook's process is told to end, or ends: everything is back without another agent's help."""

    def work() -> None:
        process, agent_pid = start_notebook(state, ONE_ROUND if number is None else NEVER)
        if number is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
            process.send_signal(number)
        finish(process)
        wait_until(lambda: processes_of(agent_pid) == [], f"agent {agent_pid} outlived its notebook")
        assert journals(state) == []

    leaves_nothing(state, work, by_restore=True)


def leaves_nothing(state: Path, work: Callable[[], None], *, by_restore: bool) -> None:
    """Behind `work`, and one recovery where it needs one, the host is as before."""
    add_veth()
    (_, before), links, mounts = settings(state), interfaces(), Path("/proc/self/mountinfo").read_text()
    work()
    if by_restore:
        restore_all(state)
    notes, after = settings(state)
    assert after == before
    assert not [note for note in notes if "put back to" not in note and "as before" not in note], notes
    assert not (by_restore and notes)
    assert journals(state) == []
    assert restore_all(state) == []
    assert interfaces() == links
    assert Path("/proc/self/mountinfo").read_text() == mounts


def settings(state: Path) -> tuple[tuple[str, ...], dict[str, Scalar]]:
    """What an ordinary start of the rig finds and puts back, and everything in force then."""
    with DeviceRig(TX, state=state) as rig:
        return rig.notes, settings_of(rig)


def finish(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()


def processes_of(agent_pid: int) -> list[int]:
    """Processes of the agent's session that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                # an ended one stays until its new parent, of the machine, looks at it
                if os.getsid(int(entry.name)) == agent_pid and owner_of(int(entry.name)) is not None:
                    found.append(int(entry.name))
    return found


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


if __name__ == "__main__":
    {"agent": agent, "notebook": notebook}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
