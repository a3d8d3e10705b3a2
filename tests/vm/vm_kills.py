"""A notebook with a guest, in a process of its own that says where it is, to be killed there."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from labkit.linux.processes import members_of_group

Victim: TypeAlias = Literal["notebook", "keeper", "machine"]
VICTIMS: Final[tuple[Victim, ...]] = ("notebook", "keeper", "machine")
GONE_WITHIN_S: Final = 15.0
LIMIT_S: Final = 120
NOTEBOOK: Final = """
import os, pathlib, sys
import labkit as lk
from labkit.agent import launch
from labkit.rigs.vm import VmRig
def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
start = launch.subprocess.Popen
def started(command, **others):
    process = start(command, **others)
    if "labkit.guest.keeper" in command:
        tell("keeper", process.pid)
    return process
launch.subprocess.Popen = started
with VmRig("e1000e", cache=pathlib.Path(sys.argv[1])) as rig:
    tell("up")
    while True:
        with rig.applied({"tx_ring": 128}):
            rig.run(lk.Workload(lk.udp_flow(), engine="sendmmsg"), duration_s=1.0)
            tell("sent")
"""


def killed(cache: Path, victim: Victim, at: str, later_s: float) -> None:
    """Kill `victim` that long after the notebook said `at`; nothing of the guest may be left."""
    with tempfile.TemporaryDirectory() as folder, notebook(cache, folder) as (process, keeper, lines):
        for line in lines:
            if line == at:
                break
        select.select([], [], [], later_s)
        processes = [os.pidfd_open(pid) for pid in living(keeper)]
        machines = [pid for pid in living(keeper) if pid != keeper]
        doomed = {"notebook": process.pid, "keeper": keeper, "machine": machines[0] if machines else keeper}
        os.kill(doomed[victim], signal.SIGKILL)
        assert all(ended(each) for each in processes), "something of the guest lives on"
        if victim != "notebook":  # its next request says that the guest is gone
            assert process.wait(LIMIT_S) == 1
        assert living(keeper) == []
        assert list(Path(folder).iterdir()) == []


@contextmanager
def notebook(cache: Path, folder: str) -> Iterator[tuple[subprocess.Popen[str], int, Iterator[str]]]:
    """The process with `folder` for temporary files, its keeper's pid, and what it says from then on."""
    with subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK, str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ) | {"TMPDIR": folder},
        start_new_session=True,
    ) as process:
        try:
            lines = said(process)
            word, keeper = next(lines).split()
            assert word == "keeper"
            yield process, int(keeper), lines
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> Iterator[str]:
    """Its lines; a silence of `LIMIT_S` ends them."""
    assert process.stdout is not None
    yield f"keeper {next(iter(process.stdout)).split()[1]}"
    yield "starting"
    while select.select([process.stdout], [], [], LIMIT_S)[0]:
        line = process.stdout.readline()
        if not line:
            return
        yield line.strip()


def living(group: int) -> list[int]:
    """Members that are more than an entry which nobody has read yet."""
    found = []
    for pid in members_of_group(group):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(pid)
    return found


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], GONE_WITHIN_S)[0])
