"""Puts back what dead processes left, for whole folders of journals, or forgets it: `labkit restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from labkit.errors import LabError, RigBusyError, WorkloadError, listed
from labkit.nic.journal import Device, FileJournal, Owner, read_folder
from labkit.nic.knob import Knob
from labkit.nic.lock import DeviceLock
from labkit.nic.put_back import PutBack, put_back


class Present(msgspec.Struct, frozen=True):
    """A journalled device as it is now: by which name and number it goes, and its knobs."""

    ifname: str
    ifindex: int
    knobs: Mapping[str, Knob]


def recover(
    folder: Path,
    locks: Path,
    find: Callable[[Device], Present | None],
    alive: Callable[[Owner], bool],
) -> list[PutBack]:
    """Put every journalled setting of dead processes back, the youngest process first; harmless twice.

    A file that is no journal is a result of its own, behind the others.

    A restart of the machine resets most settings by itself: then there is nothing to do.

    Parameters
    ----------
    folder : Path
        Where journals live.
    locks : Path
        Where locks of devices live: a device that a living laboratory holds is left to it.
    find : callable
        The device by its hardware or number in the network namespace it was in; None when it is gone.
    alive : callable
        Whether a journal's process still runs.

    Raises
    ------
    JournalError
        Others than us and root may write in the folder.
    """
    found, wrong = read_folder(folder, alive)
    results = [result for journal in found for result in _one(journal, locks, find)]
    return results + [
        PutBack(name=str(path), original=None, found=None, outcome="damaged", text=str(error))
        for path, error in wrong.items()
    ]


def forget(
    folder: Path,
    locks: Path,
    name: str,
    find: Callable[[Device], Present | None],
    alive: Callable[[Owner], bool],
    elsewhere: Callable[[Device], bool],
) -> list[PutBack]:
    """Dismiss what is kept of the device that was called `name`: its originals will not be put back.

    Parameters
    ----------
    elsewhere : callable
        Whether the device was in another network namespace, which still lives.
    folder, locks, find, alive
        As for `recover`.

    Raises
    ------
    WorkloadError
        Nothing is kept of a device of that name.
    RigBusyError
        The process that changed it lives.
    LabError
        It is here, or may be elsewhere, and can be put back.
    """
    kept, _ = read_folder(folder, lambda _: False)
    mine = [journal for journal in kept if journal.device.ifname == name]
    if not mine:
        others = listed(tuple(sorted({journal.device.ifname for journal in kept})))
        raise WorkloadError(f"{name}: nothing is kept of such a device; kept: {others}")
    for journal in mine:
        _check_gone(journal, find(journal.device), alive, elsewhere)
    return [result for journal in mine for result in _forgotten(journal, locks)]


def _check_gone(
    journal: FileJournal,
    present: Present | None,
    alive: Callable[[Owner], bool],
    elsewhere: Callable[[Device], bool],
) -> None:
    """Raise unless nobody can put back what `journal` holds."""
    device, owner = journal.device, journal.owner
    if alive(owner):
        raise RigBusyError(
            f"{device.ifname}: process {owner.pid} holds it and puts it back at its end; nothing is forgotten"
        )
    knobs = present.knobs if present else {}
    able = [e.name for e in journal.entries() if e.name in knobs and knobs[e.name].read() is not None]
    if able:
        raise LabError(
            f"{_name(device, present)}: it is here, so `labkit restore` puts back {', '.join(able)}; "
            "nothing is forgotten"
        )
    if elsewhere(device):
        raise LabError(
            f"{device.ifname}: it was in network namespace {device.netns_inode}, which still lives; run "
            "`labkit restore` there; nothing is forgotten"
        )


def _forgotten(journal: FileJournal, locks: Path) -> list[PutBack]:
    device = journal.device
    with DeviceLock(locks, device.netns_inode, device.ifindex, device.ifname):
        results = [
            PutBack(
                name=entry.name,
                original=entry.original,
                found=None,
                outcome="forgotten",
                text=f"{device.ifname}: {entry.name} is forgotten; before the lab it was {entry.original!r}",
            )
            for entry in journal.entries()
        ]
        journal.remove()
    return results


def _one(journal: FileJournal, locks: Path, find: Callable[[Device], Present | None]) -> Iterable[PutBack]:
    device = journal.device
    present = find(device)
    try:
        ifindex = present.ifindex if present else device.ifindex
        with DeviceLock(locks, device.netns_inode, ifindex, _name(device, present)):
            if not journal.path.exists():  # somebody else was faster
                return []
            knobs = present.knobs if present else {}
            results = put_back(_name(device, present), journal.entries(), knobs, journal)
            if not journal.entries():
                journal.remove()
    except RigBusyError as busy:
        return [
            PutBack(
                name=entry.name,
                original=entry.original,
                found=None,
                outcome="busy",
                text=f"{device.ifname}: {entry.name} was not put back to {entry.original!r}: {busy}",
            )
            for entry in journal.entries()
        ]
    return results


def _name(device: Device, present: Present | None) -> str:
    if present is None or present.ifname == device.ifname:
        return device.ifname
    return f"{present.ifname} ({device.ifname} when it was changed)"
