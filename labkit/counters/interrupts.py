"""``/proc/interrupts``: counts per CPU, and which queue of which device a line belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from labkit.drivers.interrupt_names import ALL, PCI_ADDRESS, InterruptKind, NamePattern, QueueSide
from labkit.errors import CapabilityMissingError

_PCI: Final = re.compile(PCI_ADDRESS)
_TRIGGER: Final = re.compile(r"(?:\d+)?-\w+")
_FLOW_WORDS: Final = frozenset({"Edge", "Level", "None"})


class InterruptLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file.

    Attributes
    ----------
    label : str
        Number of the interrupt, or the architecture's short word (``LOC``, ``IPI0``).
    counts : tuple of int
        Count on each CPU of the file's header, in its order; one number for ``ERR`` and ``MIS``.
    chip : str or None
        Interrupt controller.
    names : tuple of str
        Who handles it; several on a shared line, none on the architecture's own lines.
    description : str or None
        The kernel's words for the architecture's own lines.
    """

    label: str
    counts: tuple[int, ...]
    chip: str | None
    names: tuple[str, ...]
    description: str | None

    @property
    def total(self) -> int:
        """Interrupts on all CPUs."""
        return sum(self.counts)

    @property
    def shared(self) -> bool:
        """Whether several handlers share the line, so that its count belongs to none alone."""
        return len(self.names) > 1

    @property
    def pci(self) -> str | None:
        """PCI address in the chip's name, where it has one."""
        found = _PCI.search(self.chip or "")
        return None if found is None else found[0]


class Interrupts(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    cpus: tuple[int, ...]
    lines: tuple[InterruptLine, ...]

    def line(self, name: str) -> InterruptLine | None:
        """The line with the handler or label `name`; None when there is none."""
        return next((line for line in self.lines if name in line.names or name == line.label), None)

    def count(self, name: str, cpu: int) -> int | None:
        """Interrupts of `name` on `cpu`; None when the file does not tell."""
        line = self.line(name)
        if line is None or cpu not in self.cpus or len(line.counts) != len(self.cpus):
            return None
        return line.counts[self.cpus.index(cpu)]


class InterruptName(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of an interrupt tells; None where it does not.

    Attributes
    ----------
    name : str
        The handler's name.
    device, pci, bus : str or None
        Interface, PCI address, and virtio device that it names.
    queue : int or None
        Number of the queue.
    kind : str
        ``queue``, ``control``, or ``unknown``.
    side : str or None
        Direction of the queue.
    """

    name: str
    device: str | None
    pci: str | None
    bus: str | None
    queue: int | None
    kind: InterruptKind
    side: QueueSide | None


class QueueInterrupts(msgspec.Struct, frozen=True, kw_only=True):
    """Interrupts of one queue; `label` is the number of their line."""

    label: str
    name: InterruptName
    counts: tuple[int, ...]
    shared: bool

    @property
    def total(self) -> int:
        """Interrupts on all CPUs."""
        return sum(self.counts)


def parse_interrupts(text: str) -> Interrupts:
    """Lines of ``/proc/interrupts``, for any number of CPUs and any architecture.

    Raises
    ------
    CapabilityMissingError
        A text that does not begin with the list of CPUs.
    """
    head, _, body = text.partition("\n")
    words = head.split()
    if not words or not all(word.startswith("CPU") and word[3:].isdecimal() for word in words):
        raise CapabilityMissingError(f"the interrupts begin with {head[:60]!r} and not with the CPUs")
    cpus = tuple(int(word[3:]) for word in words)
    lines = (_line(line, len(cpus)) for line in body.splitlines() if ":" in line)
    return Interrupts(cpus=cpus, lines=tuple(lines))


def split_names(text: str) -> tuple[str, ...]:
    """Handlers in the last column: a shared line has several with ``, `` between them."""
    return tuple(name.strip() for name in text.split(", ") if name.strip())


def interrupt_name(name: str, patterns: Iterable[NamePattern] = ALL) -> InterruptName:
    """Device, queue and kind that `name` tells; the first of `patterns` that fits is meant.

    A name that none fits is taken for a device's, with no queue and of unknown kind.
    """
    for pattern in patterns:
        found = re.fullmatch(pattern.pattern, name)
        if found is not None:
            told = found.groupdict()
            queue = told.get("queue")
            return InterruptName(
                name=name,
                device=told.get("device"),
                pci=told.get("pci"),
                bus=told.get("bus"),
                queue=None if queue is None else int(queue),
                kind=pattern.kind,
                side=pattern.side,
            )
    return InterruptName(name=name, device=name, pci=None, bus=None, queue=None, kind="unknown", side=None)


def queue_interrupts(
    interrupts: Interrupts,
    *,
    device: str,
    pci: str | None = None,
    bus: str | None = None,
    patterns: Iterable[NamePattern] = ALL,
) -> tuple[QueueInterrupts, ...]:
    """Interrupts of each queue of `device`, in the order of the file.

    Parameters
    ----------
    interrupts : Interrupts
        The file.
    device : str
        Interface.
    pci, bus : str or None
        Its bus address as ``ethtool -i`` shows it, and its virtio device: many names hold only those.
    patterns : iterable of NamePattern
        How the driver names its interrupts.

    Raises
    ------
    CapabilityMissingError
        No line belongs to a queue of `device`: unknown, not 0 interrupts.
    """
    known = tuple(patterns)
    named = ((line, interrupt_name(name, known)) for line in interrupts.lines for name in line.names)
    found = [
        QueueInterrupts(label=line.label, name=name, counts=line.counts, shared=line.shared)
        for line, name in named
        if name.kind == "queue" and _is_of(name, line.pci, device, pci, bus)
    ]
    if not found:
        hint = "" if pci else "; if they are named by a PCI address, give pci (bus-info of ethtool -i)"
        raise CapabilityMissingError(
            f"no interrupt names a queue of {device}{f' or {pci}' if pci else ''}: "
            f"its interrupts are unknown, not 0{hint}"
        )
    return tuple(found)


def counts_by_name(queues: Iterable[QueueInterrupts]) -> dict[str, int]:
    """Interrupts of all CPUs by name; those of one name are taken together."""
    counts: dict[str, int] = {}
    for queue in queues:
        counts[queue.name.name] = counts.get(queue.name.name, 0) + queue.total
    return counts


def _is_of(name: InterruptName, line_pci: str | None, device: str, pci: str | None, bus: str | None) -> bool:
    if name.device is not None:
        return name.device == device
    if bus is not None and name.bus is not None:
        return name.bus == bus
    return pci is not None and pci in (name.pci, line_pci)


def _line(line: str, cpus: int) -> InterruptLine:
    label, _, rest = line.partition(":")
    words = rest.split(None, cpus)
    numbers = 0
    while numbers < min(cpus, len(words)) and words[numbers].isdecimal():
        numbers += 1
    counts = tuple(map(int, words[:numbers]))
    label = label.strip()
    tail = " ".join(" ".join(words[numbers:]).split())
    if not label.isdecimal():
        return InterruptLine(label=label, counts=counts, chip=None, names=(), description=tail or None)
    chip, names = _handlers(tail.split())
    return InterruptLine(label=label, counts=counts, chip=chip, names=split_names(names), description=None)


def _handlers(words: Sequence[str]) -> tuple[str | None, str]:
    """Chip and handlers behind the counts.

    Met: ``PCI-MSI 512-edge eth0``, ``GICv3 27 Level timer``, ``PCI-MSI-edge eth0``, ``xen-dyn -event eth0``.
    """
    if not words:
        return None, ""
    chip, rest = words[0], words[1:]
    if rest and _TRIGGER.fullmatch(rest[0]):
        rest = rest[1:]
    elif rest and rest[0].isdecimal():
        rest = rest[2:] if len(rest) > 1 and rest[1] in _FLOW_WORDS else rest[1:]
    return chip, " ".join(rest)
