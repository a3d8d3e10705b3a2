"""Which process is which: a number alone comes back, with its start and its boot it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from labkit.errors import LabError

START_FIELD = 19
"""Place of starttime behind the name in /proc/PID/stat (proc(5), field 22)."""
GROUP_FIELD = 2
"""Place of pgrp there (field 5)."""
SWITCHES = "nonvoluntary_ctxt_switches:"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """One process of all that ever ran on this machine.

    Attributes
    ----------
    started_ticks : int
        Clock ticks from the machine's start to the process's.
    """

    pid: int
    started_ticks: int
    boot_id: str


def owner_of(pid: int, proc: Path = Path("/proc")) -> Owner | None:
    """Who process `pid` is; None when there is none, or only what its parent has not yet looked at.

    Raises
    ------
    LabError
        This machine does not tell its boot.
    """
    try:
        boot_id = (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError as refused:
        raise LabError(
            "the kernel's boot id cannot be read; is /proc mounted?", errno=refused.errno
        ) from refused
    try:
        # the name may hold blanks and brackets: what follows its last bracket does not
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if len(fields) <= START_FIELD or fields[0] in {"Z", "X"}:
        return None
    return Owner(pid=pid, started_ticks=int(fields[START_FIELD]), boot_id=boot_id)


def is_alive(owner: Owner, proc: Path = Path("/proc")) -> bool:
    """Whether that very process still runs."""
    return owner_of(owner.pid, proc) == owner


class Times(msgspec.Struct, frozen=True):
    """CPU time, time spent ready but waiting for a CPU, and CPUs lost against its will, of a process."""

    cpu_ns: int
    waited_ns: int
    involuntary_switches: int


def members_of_group(group: int, proc: Path = Path("/proc")) -> list[int]:
    """Processes of process group `group`, found by reading every process's stat."""
    found = []
    for stat in proc.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended
            if int(stat.read_text().rpartition(")")[2].split()[GROUP_FIELD]) == group:
                found.append(int(stat.parent.name))
    return found


def named(name: str, proc: Path = Path("/proc")) -> list[int]:
    """Processes and kernel threads that call themselves `name`."""
    found = []
    for comm in proc.glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # one that has just ended
            if comm.read_text().strip() == name:
                found.append(int(comm.parent.name))
    return found


def times_of(pids: Iterable[int], proc: Path = Path("/proc")) -> dict[int, Times]:
    """Times of each of `pids`, its threads together; one that has ended, or is not told of, is absent.

    Fields 1 and 2 of schedstat (Documentation/scheduler/sched-stats.rst), and a line of status.
    """
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            found[pid] = _times(proc / str(pid) / "task")
    return found


def _times(tasks: Path) -> Times:
    cpu_ns = waited_ns = switches = 0
    for task in tasks.iterdir():
        ran, waited = (task / "schedstat").read_text().split()[:2]
        cpu_ns, waited_ns = cpu_ns + int(ran), waited_ns + int(waited)
        switches += int((task / "status").read_text().rpartition(SWITCHES)[2].split()[0])
    return Times(cpu_ns, waited_ns, switches)
