"""The lines of a journal's file, and how they are written and read.

One JSON object a line: first who changes which device, then steps. All originals of a change are on the disk
before its first write. ``Begun`` comes before each write and ``Accepted`` behind it; they reach the kernel
and not the disk, for they matter after the death of a process only: a machine that lost its power has lost
the settings too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from labkit.errors import JournalError
from labkit.factors import Scalar
from labkit.linux.processes import Owner


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Which interface was changed; `hardware` is its MAC with its place on a bus, or its number."""

    netns_inode: int
    ifindex: int
    ifname: str
    hardware: str | None

    def is_same(self, other: Device) -> bool:
        """Whether both are one interface, by whatever name and number it goes now."""
        if self.hardware is not None and other.hardware is not None:
            return self.netns_inode == other.netns_inode and self.hardware == other.hardware
        return (self.netns_inode, self.ifindex) == (other.netns_inode, other.ifindex)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that is changed: where it came from, what was asked, what the device made of it.

    Attributes
    ----------
    number : int
        Place in the order of changes.
    level : int
        How many changes were in force before this one.
    state : str
        ``planned`` (not yet written), ``begun`` (may be written), ``accepted`` (read back).
    """

    number: int
    level: int
    name: str
    original: Scalar
    written: Scalar
    state: Literal["planned", "begun", "accepted"]
    accepted: Scalar


class Header(msgspec.Struct, frozen=True, tag=True, tag_field="step"):
    """First line of a file."""

    device: Device
    owner: Owner


class Planned(msgspec.Struct, frozen=True, tag=True, tag_field="step"):
    """A change to come."""

    entry: Entry


class Begun(msgspec.Struct, frozen=True, tag=True, tag_field="step"):
    """From here on the device may have the written value."""

    number: int


class Accepted(msgspec.Struct, frozen=True, tag=True, tag_field="step"):
    """Value as read back."""

    number: int
    value: Scalar


class Finished(msgspec.Struct, frozen=True, tag=True, tag_field="step"):
    """Put back, or in somebody else's hands."""

    number: int


Line: TypeAlias = Header | Planned | Begun | Accepted | Finished


def file_name(device: Device, owner: Owner) -> str:
    """Name of the file in which `owner` keeps the originals of `device`."""
    return f"{device.netns_inode}-{device.ifindex}-{owner.pid}-{owner.started_ticks}.jsonl"


def read_file(path: Path) -> tuple[Header, dict[int, Entry]]:
    """Header and open entries of a file; what follows the last newline was torn off and never acted on.

    A file that ends before its header is told by its name, and holds nothing.

    Raises
    ------
    JournalError
        It is no journal, or cannot be read.
    """
    if path.exists() and not path.is_file():  # reading a pipe would wait for ever
        raise JournalError(f"{path} is damaged (it is no file); look what it is, then remove it")
    try:
        *whole, _ = path.read_bytes().split(b"\n")
    except OSError as refused:
        raise JournalError(f"{path} cannot be read; run as root", errno=refused.errno) from refused
    entries: dict[int, Entry] = {}
    advice = "compare the device with what it says, then remove it"
    try:
        header, *steps = [msgspec.json.decode(line, type=Line) for line in whole] or [_header_of_name(path)]
    except (ValueError, msgspec.DecodeError) as damaged:
        raise JournalError(f"{path} is damaged ({damaged}); {advice}") from damaged
    if not isinstance(header, Header):
        raise JournalError(f"{path} is damaged (it does not name its device); {advice}")
    for step in steps:
        _follow(step, entries)
    return header, entries


def append(path: Path, lines: Sequence[Line], *, on_disk: bool) -> None:
    """Append `lines` as a whole or not at all; a torn last line goes."""
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        length = _whole_length(descriptor)
        try:
            os.ftruncate(descriptor, length)
            _write_whole(descriptor, text)
            if on_disk:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, length)
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make the folder for us alone; a JournalError refuses one where others could plant a journal."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """Raise unless nobody but us and root writes in `folder`: what a journal says is done as root."""
    found = folder.stat()
    if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise JournalError(f"{folder}: others may write there, so no journal of it is trusted; chmod 0700 it")


def sync_folder(folder: Path) -> None:
    """Bring the folder's list of files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _header_of_name(path: Path) -> Header:
    netns_inode, ifindex, pid, started_ticks = map(int, path.stem.split("-"))
    return Header(
        Device(netns_inode=netns_inode, ifindex=ifindex, ifname=f"interface {ifindex}", hardware=None),
        Owner(pid=pid, started_ticks=started_ticks, boot_id=""),
    )


def _follow(step: Any, entries: dict[int, Entry]) -> None:
    if isinstance(step, Planned):
        entries[step.entry.number] = step.entry
    elif isinstance(step, Finished):
        entries.pop(step.number, None)
    elif isinstance(step, Begun | Accepted) and (entry := entries.get(step.number)) is not None:
        changes: dict[str, Any] = {"state": "begun"}
        if isinstance(step, Accepted):
            changes = {"state": "accepted", "accepted": step.value}
        entries[step.number] = msgspec.structs.replace(entry, **changes)


def _write_whole(descriptor: int, text: bytes) -> None:
    if os.write(descriptor, text) != len(text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _whole_length(descriptor: int) -> int:
    length = os.fstat(descriptor).st_size
    if length == 0 or os.pread(descriptor, 1, length - 1) == b"\n":
        return length
    return os.pread(descriptor, length, 0).rfind(b"\n") + 1
