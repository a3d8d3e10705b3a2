"""Where a packet's nanoseconds go, as a record: by group, by function, and how far to believe it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from labkit.analysis.kernel_groups import FOREIGN, IDLE
from labkit.records import EMULATED, Trial

TOLERANCE: Final = 0.02
"""Share by which the samples' sum may differ from the trial's time a packet."""
BY_TIMER: Final = "sampled by timer: irq-off code misplaced"
"""The timer's interrupt waits while interrupts are off, so that the code behind gets their time."""
IN_STEP: Final = (
    f"{EMULATED}: samples may fall into step with the packets, so that intervals are wider than told"
)
"""Nothing disturbs that clock: where a packet's time is near a simple fraction of the distance of two
samples, they meet few places of a packet. A function of 9 % in 2000 samples had 4 % in 400 of another run
(measured).
"""
NO_WORK: Final = (IDLE, FOREIGN)
"""Groups whose time no packet asked for."""
SHOWN_SHARE: Final = 0.01


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one group or function.

    Attributes
    ----------
    name, group : str
        The group's own name twice for a group.
    ns_per_packet : float
        Its samples' periods by the packets that the device sent.
    share : float
        Part of all samples' periods.
    low, high : float
        95 % interval of `ns_per_packet`, of the count of samples alone (Wilson, binomial).
    samples : int
        How many there are.
    callers : dict of str to float
        Those that called it most often, each with its part of this cost; empty for a group.
    """

    name: str
    group: str
    ns_per_packet: float
    share: float
    low: float
    high: float
    samples: int
    callers: dict[str, float]


class CpuProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One trial's time a packet by group and by function.

    Attributes
    ----------
    event : str
        ``cpu-clock``, a timer, or ``cycles``, the CPU's own count.
    rate_hz : int
        Samples a second that were asked for.
    cpus : tuple of int
        CPUs that were sampled: those of the senders.
    samples, lost : int
        Samples within the run, and those that the kernel had no room for.
    ns_per_packet : float
        Time of these CPUs that one packet took: the trial's, times their number.
    sum_ns : float
        Sum of all samples, in ns a packet.
    unsampled_ns : float
        Time a packet in which samples were due and none came.
    longest_gap_ns : int
        The longest time without a sample on one CPU.
    sum_agrees : bool or None
        Whether the sum is the time a packet within 2 %; None where the event counts no time, so that
        functions have their shares of it.
    why_not : str or None
        Why it does not agree, or is not known to.
    slowed_by : float or None
        Part by which sampling made a packet dearer, in the senders' CPU time; None where it is not known.
    notes : tuple of str
        What else is to be known before anything is believed.
    invalid : str or None
        Why the run did not do what was asked of it.
    groups, functions : tuple of Cost
        The costly ones first.
    """

    event: str
    rate_hz: int
    cpus: tuple[int, ...]
    samples: int
    lost: int
    ns_per_packet: float
    sum_ns: float
    unsampled_ns: float
    longest_gap_ns: int
    sum_agrees: bool | None
    why_not: str | None
    slowed_by: float | None
    notes: tuple[str, ...]
    invalid: str | None
    groups: tuple[Cost, ...]
    functions: tuple[Cost, ...]

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def text(self) -> str:
        """The whole for people: groups, functions above 1 %, and how far to believe them."""
        many = f"CPU {self.cpus[0]}" if len(self.cpus) == 1 else f"CPUs {', '.join(map(str, self.cpus))}"
        lines = [
            f"where {self.ns_per_packet:.1f} ns of {many} a packet go: {self.samples} samples of "
            f"{self.event} at {self.rate_hz} Hz",
            *(f"  {note}" for note in self.remarks),
            *_table("group", self.groups),
            *_table(f"function (of work at least {SHOWN_SHARE:.0%})", self.costly),
        ]
        return "\n".join(lines)

    @property
    def work_ns(self) -> float:
        """Time a packet without idle time and other programs, which its trial's time holds."""
        return sum(group.ns_per_packet for group in self.groups if group.name not in NO_WORK)

    @property
    def costly(self) -> tuple[Cost, ...]:
        """Functions that do at least 1 % of the work."""
        least_ns = SHOWN_SHARE * self.work_ns
        return tuple(
            cost for cost in self.functions if cost.group not in NO_WORK and cost.ns_per_packet >= least_ns
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be known before anything is believed, a sentence each."""
        agrees = f"the samples' sum, {self.sum_ns:.1f} ns, is the time a packet within {TOLERANCE:.0%}"
        told = [self.why_not or agrees, *self.notes]
        if self.slowed_by is not None:
            told.append(f"sampling changed the CPU time of a packet by {self.slowed_by:+.1%}")
        if self.sum_ns - self.work_ns > SHOWN_SHARE * self.sum_ns:
            told.append(f"{self.work_ns:.1f} ns are work; the CPU was idle or another program's otherwise")
        return tuple([f"INVALID: {self.invalid}", *told] if self.invalid else told)

    def __repr__(self) -> str:
        return self.text()


class Profiled(msgspec.Struct, frozen=True):
    """A trial and the profile that was taken of it."""

    trial: Trial
    profile: CpuProfile

    def as_json(self) -> dict[str, Any]:
        """Both as one JSON object."""
        return {"trial": self.trial.as_json(), "profile": self.profile.as_json()}

    def __repr__(self) -> str:
        return f"{self.trial!r}\n{self.profile!r}"


def _table(head: str, costs: Iterable[Cost]) -> list[str]:
    rows = [
        f"  {cost.ns_per_packet:8.1f} ns [{cost.low:.1f}, {cost.high:.1f}]".ljust(34)
        + f"{cost.share:6.1%}  {cost.name}"
        + ("" if cost.group == cost.name else f" ({cost.group})")
        for cost in costs
    ]
    return [f"{head}:", *rows]
