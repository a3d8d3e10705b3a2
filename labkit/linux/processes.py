"""Which process is which: a number alone comes back, with its start and its boot it does not."""

from __future__ import annotations

from pathlib import Path

import msgspec

from labkit.errors import LabError

START_FIELD = 19
"""Place of starttime behind the name in /proc/PID/stat (proc(5), field 22)."""


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
