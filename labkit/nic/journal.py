"""What was changed, kept until it is put back: in memory, or in a file that outlives the process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from labkit.errors import JournalError
from labkit.factors import Scalar
from labkit.linux.processes import Owner
from labkit.nic.journal_lines import (
    Accepted,
    Begun,
    Device,
    Entry,
    Finished,
    Header,
    Line,
    Planned,
    append,
    check_folder,
    file_name,
    make_folder,
    read_file,
    sync_folder,
)

__all__ = ["Device", "Entry", "FileJournal", "Journal", "MemoryJournal", "Owner", "read_folder"]


class Journal(Protocol):
    """Where changes are kept until they are put back."""

    def entries(self) -> list[Entry]:
        """What is not yet put back, oldest first."""
        ...

    def plan(self, level: int, changes: Sequence[tuple[str, Scalar, Scalar]]) -> list[Entry]:
        """Keep name, original and value to write of each change; safe when this returns.

        Raises
        ------
        JournalError
            They cannot be kept, so nothing may be changed.
        """
        ...

    def begin(self, number: int) -> None:
        """Say that entry `number` is about to be written; a JournalError forbids it."""
        ...

    def accept(self, number: int, value: Scalar) -> None:
        """Keep what was read back."""
        ...

    def finish(self, number: int) -> None:
        """Forget an entry that is settled."""
        ...


class MemoryJournal:
    """For devices that die with this process."""

    def __init__(self, entries: Mapping[int, Entry] | None = None) -> None:
        self._entries: dict[int, Entry] = dict(entries or {})
        self._next = max(self._entries, default=-1) + 1

    def entries(self) -> list[Entry]:
        """What is not yet put back, oldest first."""
        return list(self._entries.values())

    def plan(self, level: int, changes: Sequence[tuple[str, Scalar, Scalar]]) -> list[Entry]:
        """Keep the originals of changes to come."""
        made = [
            Entry(
                number=number,
                level=level,
                name=name,
                original=original,
                written=written,
                state="planned",
                accepted=None,
            )
            for number, (name, original, written) in enumerate(changes, self._next)
        ]
        self._keep([Planned(entry) for entry in made], on_disk=True)
        self._next += len(made)
        self._entries.update({entry.number: entry for entry in made})
        return made

    def begin(self, number: int) -> None:
        """Say that entry `number` is about to be written."""
        self._keep([Begun(number)])
        self._entries[number] = msgspec.structs.replace(self._entries[number], state="begun")

    def accept(self, number: int, value: Scalar) -> None:
        """Keep what was read back; a file that takes no more still knows that the write began."""
        entry = self._entries[number]
        self._entries[number] = msgspec.structs.replace(entry, state="accepted", accepted=value)
        with contextlib.suppress(JournalError):
            self._keep([Accepted(number, value)])

    def finish(self, number: int) -> None:
        """Forget a settled entry; one that a full file still holds is found to be back later."""
        del self._entries[number]
        with contextlib.suppress(JournalError):
            self._keep([Finished(number)])

    def _keep(self, lines: Sequence[Line], *, on_disk: bool = False) -> None:
        """Nothing to write: `entries` is all there is."""


class FileJournal(MemoryJournal):
    """Keeps a device's originals in a file of its own until the last of them is put back.

    Parameters
    ----------
    folder : Path
        Where journals live; made with mode 0700 when the first change comes.
    device : Device
        Whose settings they are.
    owner : Owner
        The process that changes them.
    entries : mapping or None
        What its file holds already.
    on_step : callable or None
        Told each step behind it (``folder Planned Begun Accepted Finished removed``): where tests kill.
    """

    def __init__(
        self,
        folder: Path,
        device: Device,
        owner: Owner,
        *,
        entries: Mapping[int, Entry] | None = None,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(entries)
        self.device, self.owner = device, owner
        self.path = folder / file_name(device, owner)
        self._on_step = on_step or (lambda _: None)

    def finish(self, number: int) -> None:
        """Forget a settled entry, and the file with the last of them."""
        super().finish(number)
        if not self._entries:
            self.remove()

    def remove(self) -> None:
        """Take the file away; harmless where there is none.

        Raises
        ------
        JournalError
            It cannot be removed.
        """
        with self._told("removed"):
            self.path.unlink(missing_ok=True)
        self._on_step("removed")

    def leftovers(self, alive: Callable[[Owner], bool]) -> list[FileJournal]:
        """What dead processes left of this very device, the youngest first."""
        found, _ = read_folder(self.path.parent, alive)
        return [journal for journal in found if journal.device.is_same(self.device)]

    def _keep(self, lines: Sequence[Line], *, on_disk: bool = False) -> None:
        if not lines:
            return
        step = type(lines[0]).__name__
        with self._told("written"):
            fresh = not self.path.exists()
            if fresh:
                make_folder(self.path.parent)
                self._on_step("folder")
                lines = [Header(self.device, self.owner), *lines]
            append(self.path, lines, on_disk=on_disk)
            if fresh:
                sync_folder(self.path.parent)
        self._on_step(step)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as refused:
            raise JournalError(
                f"{self.device.ifname}: the journal {self.path} cannot be {what}, so no setting is changed "
                f"without a way back; make room there, or make it writable",
                errno=refused.errno,
            ) from refused


def read_folder(
    folder: Path, alive: Callable[[Owner], bool]
) -> tuple[list[FileJournal], dict[Path, JournalError]]:
    """Journals of dead processes, the youngest first, and what is wrong with files that are none.

    Raises
    ------
    JournalError
        Others than us and root may write in the folder.
    """
    found: list[FileJournal] = []
    wrong: dict[Path, JournalError] = {}
    if folder.exists():
        check_folder(folder)
    for path in sorted(folder.glob("*.jsonl"), key=_age, reverse=True):
        try:
            header, entries = read_file(path)
        except JournalError as error:
            if path.exists():  # else its process has just put everything back
                wrong[path] = error
            continue
        if not alive(header.owner):
            found.append(FileJournal(folder, header.device, header.owner, entries=entries))
    return found, wrong


def _age(path: Path) -> int:
    """Time of the last change in nanoseconds; 0 for a file that has just gone."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
