"""Agents and notebooks of a `nic:` rig that are killed while they turn a device that outlives them.

``python -m tests.network.nic_kills notebook STATE DEVICE STEP VICTIM`` is the notebook's process, which turns
settings to and fro. Its agent, ``agent STATE DEVICE STEP VICTIM``, is the ordinary one but for this: it kills
itself, its notebook or both at the given step of its journal, or nobody ever.
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
from typing import Literal, NamedTuple, TypeAlias

from labkit.errors import AgentLostError
from labkit.factors import Scalar
from labkit.linux.processes import owner_of
from labkit.rigs.device import DeviceRig
from tests.network.nic_host import (
    TAP,
    TX,
    add_persistent_tap,
    add_veth,
    interfaces,
    journals,
    restore_all,
    settings_of,
)

ROOT = Path(__file__).resolve().parents[2]


class Device(NamedTuple):
    """What is turned: how it is made, two nested changes, and the steps of their journal there and back."""

    add: Callable[[], None]
    changes: tuple[dict[str, Scalar], dict[str, Scalar]]
    steps_of_a_round: int


VETH_CHANGES: tuple[dict[str, Scalar], dict[str, Scalar]] = (
    {"mtu": 1400, "gro": True, "threaded": True},
    {"qdisc": "pfifo", "txqueuelen": 7, "mtu": 1300},
)
TAP_CHANGES: tuple[dict[str, Scalar], dict[str, Scalar]] = (
    {"mtu": 1400, "gro": False, "rx_frames": 7},
    {"qdisc": "pfifo", "txqueuelen": 7, "mtu": 1300, "rx_frames": 9},
)
DEVICES = {TX: Device(add_veth, VETH_CHANGES, 22), TAP: Device(add_persistent_tap, TAP_CHANGES, 25)}
"""By name; the tap is a persistent one, so that like the veth it outlives agent and notebook."""
NEVER, ONE_ROUND = 0, -1
PATIENCE_S = 10.0
Victim: TypeAlias = Literal["agent", "notebook", "both"]
VICTIMS: tuple[Victim, ...] = ("agent", "notebook", "both")


def agent(state: str, step: int, victim: Victim) -> None:
    """Serve as the agent does; `victim` ends at step `step` of the journal."""
    from labkit.agent import __main__ as program
    from labkit.agent import device

    steps = 0

    def on_step(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            for pid in pids_of(victim, notebook_pid=os.getppid(), agent_pid=os.getpid()):
                os.kill(pid, signal.SIGKILL)

    device.FileJournal = functools.partial(device.FileJournal, on_step=on_step)  # type: ignore[misc,assignment]
    sys.argv[1:] = ["--state", state]
    program.main()
    (Path(state) / "steps").write_text(str(steps))


def notebook(state: str, name: str, step: int, victim: Victim) -> None:
    """Turn settings until the agent, or this process, is killed; with step ``ONE_ROUND`` once."""
    from labkit.agent.client import AgentClient
    from labkit.agent.launch import AgentProcess
    from labkit.rigs import device

    own = [sys.executable, "-m", "tests.network.nic_kills", "agent", state, name, str(step), victim]
    command = ["env", f"PYTHONPATH={ROOT}", *own]
    device.connect_as_root = lambda **_: AgentClient(AgentProcess(command))  # type: ignore[assignment]
    with contextlib.suppress(AgentLostError), DeviceRig(name, state=Path(state)) as rig:
        process = rig._client._process
        assert isinstance(process, AgentProcess)
        sys.stdout.write(f"{process.pid}\n")
        sys.stdout.flush()
        outer, inner = DEVICES[name].changes
        while True:
            with rig.applied(outer), rig.applied(inner):
                pass
            if step == ONE_ROUND:
                return


def start_notebook(
    state: Path, name: str, step: int, victim: Victim = "agent"
) -> tuple[subprocess.Popen[str], int]:
    """Start a notebook's process; it, and the pid of its agent."""
    words = ["notebook", str(state), name, str(step), victim]
    command = [sys.executable, "-m", "tests.network.nic_kills", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def killed_at_step(state: Path, step: int, victim: Victim, name: str) -> None:
    """Somebody is killed at step `step` of the journal: nothing is left behind."""

    def work() -> None:
        process, agent_pid = start_notebook(state, name, step, victim)
        finish(process)
        assert process.returncode == (0 if victim == "agent" else -signal.SIGKILL)
        nobody_is_left(state, agent_pid, victim)

    leaves_nothing(state, name, work, by_restore=step % 2 == 0)


def killed_at_random(state: Path, seed: int, victim: Victim, name: str) -> None:
    """Somebody is killed at a random moment: nothing is left behind."""
    chance = random.Random(seed)

    def work() -> None:
        process, agent_pid = start_notebook(state, name, NEVER)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0.0, 0.3))
        victims = pids_of(victim, notebook_pid=process.pid, agent_pid=agent_pid)
        chance.shuffle(victims)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        finish(process)
        nobody_is_left(state, agent_pid, victim)

    leaves_nothing(state, name, work, by_restore=chance.random() < 0.5)


def signalled(state: Path, number: signal.Signals | None, name: str = TX) -> None:
    """A notebook's process is told to end, or ends: everything is back without another agent's help."""

    def work() -> None:
        process, agent_pid = start_notebook(state, name, ONE_ROUND if number is None else NEVER)
        if number is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
            process.send_signal(number)
        finish(process)
        nobody_is_left(state, agent_pid, "notebook")

    leaves_nothing(state, name, work, by_restore=True)


def pids_of(victim: Victim, *, notebook_pid: int, agent_pid: int) -> list[int]:
    """Whom it strikes; the agent last, for it may be the one that strikes."""
    return {"agent": [agent_pid], "notebook": [notebook_pid], "both": [notebook_pid, agent_pid]}[victim]


def nobody_is_left(state: Path, agent_pid: int, victim: Victim) -> None:
    """No process of the agent's runs; an agent that outlived its notebook has put everything back."""
    wait_until(lambda: processes_of(agent_pid) == [], f"agent {agent_pid} outlived its notebook")
    if victim == "notebook":
        assert journals(state) == []


def leaves_nothing(state: Path, name: str, work: Callable[[], None], *, by_restore: bool) -> None:
    """Behind `work`, and one recovery where it needs one, the host is as before."""
    DEVICES[name].add()
    (_, before), links, mounts = settings(state, name), interfaces(), Path("/proc/self/mountinfo").read_text()
    assert all(setting in before for change in DEVICES[name].changes for setting in change)
    work()
    if by_restore:
        restore_all(state)
    notes, after = settings(state, name)
    assert after == before
    assert not [note for note in notes if "put back to" not in note and "as before" not in note], notes
    assert not (by_restore and notes)
    assert journals(state) == []
    assert restore_all(state) == []
    assert interfaces() == links
    assert Path("/proc/self/mountinfo").read_text() == mounts


def settings(state: Path, name: str) -> tuple[tuple[str, ...], dict[str, Scalar]]:
    """What an ordinary start of the rig finds and puts back, and everything in force then."""
    with DeviceRig(name, state=state) as rig:
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


def main(program: str, state: str, name: str, step: str, victim: str) -> None:
    struck = next(each for each in VICTIMS if each == victim)
    if program == "agent":
        agent(state, int(step), struck)
    else:
        notebook(state, name, int(step), struck)


if __name__ == "__main__":
    main(*sys.argv[1:])
