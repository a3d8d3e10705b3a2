"""Statistics (``ethtool -S``, the standard ones too): every line kept, and asked for by meaning.

Absent is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from labkit.counters.deltas import Delta, counter_delta
from labkit.drivers.facts import STANDARD_COUNTERS, DriverFacts
from labkit.errors import WorkloadError

ETHTOOL_INDENT: Final = 5
"""Blanks that ethtool puts before a name; further ones belong to the name, as vmxnet3's do."""

_LINE: Final = re.compile(r"(?P<blanks>\s*)(?P<name>\S.*?)\s*:\s*(?P<value>-?\d+)\s*")
_QUEUES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[(?P<queue>\d+)\]: (?P<rest>.+)",  # bnx2x, bnxt
        r"(?:rx|tx)q(?P<queue>\d+): (?P<rest>.+)",  # be2net
        r"queue_(?P<queue>\d+)_(?P<rest>.+)",  # ena
        r"(?P<side>rx|tx)_queue_(?P<queue>\d+)_(?P<rest>.+)",  # igb, ixgbe, virtio_net, veth
        r"(?:rx|tx)-(?P<queue>\d+)\.(?P<rest>.+)",  # i40e
        r"(?P<side>rx|tx)(?P<queue>\d+)_(?P<rest>.+)",  # mlx5
    )
)
_SECTION: Final = re.compile(r"(?:Tx|Rx) Queue#: (?P<queue>\d+)")  # vmxnet3


class Statistic(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a driver reports.

    Attributes
    ----------
    original : str
        The driver's name with its leading blanks.
    within : tuple of str
        Sections that it stands in, outermost first, told by the leading blanks.
    queue : int or None
        Queue that it belongs to; None for a total of the device.
    short : str
        The name without its queue: ``rx_bytes`` of ``[0]: rx_bytes``, ``tx_packets`` of
        ``tx_queue_3_packets``.
    value : int
        Count, or reading of a gauge.
    """

    original: str
    within: tuple[str, ...]
    queue: int | None
    short: str
    value: int

    @property
    def name(self) -> str:
        """The name without blanks around it."""
        return self.original.strip()

    @property
    def path(self) -> str:
        """Sections and name with ``/`` between them."""
        return "/".join((*self.within, self.name))


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """All that one device reports, in the driver's order; empty for a device without statistics."""

    rows: tuple[Statistic, ...]

    def value(self, name: str) -> int | None:
        """Value of the counter called `name`: its name without blanks, else its path or original name.

        None when there is none.

        Raises
        ------
        WorkloadError
            Several are called so; `values` gives all, `original` the one with just these blanks.
        """
        for key in ("name", "path", "original"):
            found = [row for row in self.rows if getattr(row, key) == name]
            if len(found) > 1:
                alike = ", ".join(f"{row.original!r} in {row.path!r}" for row in found)
                raise WorkloadError(f"{len(found)} statistics are called {name!r}: {alike}; ask for all")
            if found:
                return found[0].value
        return None

    def original(self, name: str) -> int | None:
        """Value of the first counter that the driver calls `name`, leading blanks included."""
        return next((row.value for row in self.rows if row.original == name), None)

    def values(self, name: str) -> tuple[int, ...]:
        """Values of every counter whose name without blanks is `name`, in the driver's order."""
        return tuple(row.value for row in self.rows if row.name == name.strip())

    def of_queue(self, queue: int, short: str) -> int | None:
        """Value of `short` for one queue; None when there is none, or more than one."""
        found = [row.value for row in self.rows if row.queue == queue and row.short == short]
        return found[0] if len(found) == 1 else None


def parse_statistics(text: str) -> Statistics:
    """Statistics in what ``ethtool -S`` printed; lines without a number are passed over."""
    return statistics_of(_pairs(text))


def statistics_of(pairs: Iterable[tuple[str, int]]) -> Statistics:
    """Statistics of names and values in the order in which the driver gives them."""
    rows: list[Statistic] = []
    sections: list[tuple[int, str]] = []  # leading blanks and label of each line that may hold the next one
    for original, value in pairs:
        blanks = len(original) - len(original.lstrip())
        while sections and sections[-1][0] >= blanks:
            sections.pop()
        within = tuple(label for _, label in sections)
        if original.endswith("#"):
            sections.append((blanks, f"{original.strip()}: {value}"))
            continue
        sections.append((blanks, original.strip()))
        queue, short = _queue(original.strip(), within)
        rows.append(Statistic(original=original, within=within, queue=queue, short=short, value=value))
    return Statistics(rows=tuple(rows))


def total(statistics: Statistics, facts: DriverFacts, meaning: str) -> int | None:
    """Sum of what the driver counts under `meaning`, over all queues; else what the standard counts.

    None when the driver has no such counter or one of its names is absent: unknown is not 0. Totals of the
    driver and of the hardware are two meanings, so the same packets are never added twice.
    """
    values: list[int] = []
    for pattern in facts.counters.get(meaning) or STANDARD_COUNTERS.get(meaning, ()):
        found = [row.value for row in _matching(statistics.rows, pattern)]
        if not found:
            return None
        values += found
    return sum(values) if values else None


def push_back(statistics: Statistics, facts: DriverFacts) -> int | None:
    """How often a transmit queue was full: 0 is known to be never, None is unknown."""
    return total(statistics, facts, "push_back")


def packets_per_doorbell(statistics: Statistics, facts: DriverFacts, queue: int) -> float | None:
    """Packets sent for each time the device was told about new ones, on one queue; None when unknown."""
    packets, doorbells = (
        _of_queue(statistics, facts, meaning, queue) for meaning in ("tx_packets", "doorbells")
    )
    return packets / doorbells if packets is not None and doorbells else None


def device_resets(before: Statistics, after: Statistics, facts: DriverFacts) -> tuple[str, ...]:
    """Counters that tell that the device started again between two reads; empty when none moved."""
    moved = []
    for pattern in facts.counters.get("resets", ()):
        reads = [[row.value for row in _matching(each.rows, pattern)] for each in (before, after)]
        if reads[0] and reads[1] and reads[0] != reads[1]:
            moved.append(pattern)
    return tuple(moved)


def statistic_deltas(before: Statistics, after: Statistics, facts: DriverFacts) -> dict[str, Delta]:
    """How far each statistic moved, by its path (with ``#2`` for the second of two alike).

    A gauge and a counter that is missing on one side have no difference; after a reset of the device none
    has: the counters started again somewhere between the reads.
    """
    again = bool(device_resets(before, after, facts))
    first, second = _by_path(before.rows), _by_path(after.rows)
    return {path: _delta(path, first.get(path), second.get(path), facts, again) for path in first | second}


def _delta(path: str, before: int | None, after: int | None, facts: DriverFacts, again: bool) -> Delta:
    if any(re.fullmatch(gauge, path) for gauge in facts.gauges):
        return Delta(value=None, doubt="gauge")
    if again:
        return Delta(value=None, doubt="device reset")
    return counter_delta(before, after)


def _by_path(rows: Sequence[Statistic]) -> dict[str, int]:
    values: dict[str, int] = {}
    seen: dict[str, int] = {}
    for row in rows:
        seen[row.path] = count = seen.get(row.path, 0) + 1
        values[row.path if count == 1 else f"{row.path}#{count}"] = row.value
    return values


def _of_queue(statistics: Statistics, facts: DriverFacts, meaning: str, queue: int) -> int | None:
    patterns = [pattern for pattern in facts.counters.get(meaning, ()) if "{q}" in pattern]
    rows = [row for pattern in patterns for row in _matching(statistics.rows, pattern) if row.queue == queue]
    return sum(row.value for row in rows) if patterns and len(rows) == len(patterns) else None


def _matching(rows: Sequence[Statistic], pattern: str) -> list[Statistic]:
    expression = re.compile(re.escape(pattern).replace(re.escape("{q}"), r"\d+"))
    return [row for row in rows if expression.fullmatch(row.path)]


def _pairs(text: str) -> Iterator[tuple[str, int]]:
    for line in text.expandtabs().splitlines():
        found = _LINE.fullmatch(line)
        if found is None or line.startswith("#"):
            continue
        extra = max(len(found["blanks"]) - ETHTOOL_INDENT, 0)
        yield " " * extra + found["name"], int(found["value"])


def _queue(name: str, within: tuple[str, ...]) -> tuple[int | None, str]:
    for section in within:
        found = _SECTION.fullmatch(section)
        if found is not None:
            return int(found["queue"]), name
    for pattern in _QUEUES:
        found = pattern.fullmatch(name)
        if found is not None:
            side = found.groupdict().get("side")
            return int(found["queue"]), f"{side}_{found['rest']}" if side else found["rest"]
    return None, name
