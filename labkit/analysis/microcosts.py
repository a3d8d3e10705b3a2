"""What single operations of a machine cost, as numbers with intervals: ready for `labkit.expect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from labkit.analysis.summary import estimate
from labkit.engines.overhead import RawCost


class Microcost(msgspec.Struct, frozen=True, kw_only=True):
    """One operation's cost.

    Attributes
    ----------
    name : str
        The operation; ``lock`` is what `labkit.expect` calls so, too.
    ns : float or None
        Median over the rounds; None where it was not measured.
    low, high : float or None
        Its 95 % bootstrap interval.
    rounds : int
        Values behind it.
    how : str
        What one operation is.
    source : str
        What its code is made of here: instructions written out, or std::atomic.
    why_missing : str or None
        Why it was not measured.
    """

    name: str
    ns: float | None
    low: float | None
    high: float | None
    rounds: int
    how: str
    source: str
    why_missing: str | None


@dataclass(frozen=True, eq=False)  # not a Struct, for it is a mapping
class Microcosts(Mapping[str, float]):
    """Nanoseconds by operation, those that were measured; `costs` holds all with their intervals.

    Attributes
    ----------
    costs : tuple of Microcost
        Every operation.
    cpu : int
        Where they ran.
    involuntary_switches : int
        How often the measuring thread lost its CPU against its will.
    machine : dict
        As `labkit.linux.machine.machine_facts` says.
    audit : dict
        As `labkit.audit_summary` says of that CPU: what makes these numbers unsteady here.
    """

    costs: tuple[Microcost, ...]
    cpu: int
    involuntary_switches: int
    machine: Mapping[str, Any]
    audit: Mapping[str, Any]

    def __getitem__(self, name: str) -> float:
        for cost in self.costs:
            if cost.name == name and cost.ns is not None:
                return cost.ns
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (cost.name for cost in self.costs if cost.ns is not None)

    def __len__(self) -> int:
        return sum(cost.ns is not None for cost in self.costs)

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "cpu": self.cpu,
            "involuntary_switches": self.involuntary_switches,
            "costs": msgspec.to_builtins(self.costs),
            "machine": dict(self.machine),
            "audit": dict(self.audit),
        }

    def text(self) -> str:
        """A line each: nanoseconds, interval, what it is; then what makes them unsteady."""
        told = ", ".join([*self.audit["bad"], *self.audit["look"]]) or "nothing to change"
        return "\n".join(
            [
                *(_line(cost) for cost in self.costs),
                f"CPU {self.cpu}, lost {self.involuntary_switches} times meanwhile; "
                f"audit: {self.audit['verdict']} ({told})",
            ]
        )

    def __repr__(self) -> str:
        return self.text()


def microcost(raw: RawCost, *, why_missing: str, seed: int = 0) -> Microcost:
    """Median over the rounds with its interval; without a value, `why_missing`."""
    found = estimate(raw.rounds_ns, of="median", seed=seed)
    return Microcost(
        name=raw.name,
        ns=found.median if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        rounds=found.n if found else 0,
        how=raw.how,
        source=raw.source,
        why_missing=None if found else why_missing,
    )


def _line(cost: Microcost) -> str:
    if cost.ns is None:
        return f"{cost.name:<14}{'not measured':>12}  {cost.why_missing}"
    interval = "" if cost.low is None else f"[{cost.low:.2f}, {cost.high:.2f}]"
    return f"{cost.name:<14}{cost.ns:>9.2f} ns  {interval:<18} {cost.how} ({cost.source})"
