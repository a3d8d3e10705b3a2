"""What a driver's facts make of a run's counters and settings, whoever's card it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from labkit.agent.protocol import Measured
from labkit.counters.deltas import counter_delta
from labkit.counters.statistics import (
    device_resets,
    push_back,
    statistic_deltas,
    statistics_of,
    total,
)
from labkit.drivers.facts import DriverFacts
from labkit.factors import Scalar
from labkit.rigs.push_back import seen_above

HARDWARE_COUNTS: Final = ("tx_packets_nic", "tx_lost_nic")
"""What the hardware itself sent, and lost in its MAC (`labkit.drivers.facts.DriverFacts`)."""
FELL: Final = frozenset({"wrapped", "reset", "wrap or reset"})
"""Doubts about a statistic that fell by itself (`labkit.counters.deltas.Doubt`)."""


def driver_view(measured: Measured, facts: DriverFacts) -> dict[str, Any]:
    """Full TX rings, the hardware's own counts, interrupts and resets of one run; None is not counted.

    ``statistics`` are those that moved, by the driver's own names; ``doubtful_counters`` says of each one
    that fell whether it wrapped or started again.
    """
    before = statistics_of(measured.before.statistics)
    after = statistics_of(measured.after.statistics)
    full = [push_back(each, facts) for each in (before, after)]
    own = {name: [total(each, facts, name) for each in (before, after)] for name in HARDWARE_COUNTS}
    deltas = statistic_deltas(before, after, facts)
    return {
        **seen_above(measured),
        "push_back": counter_delta(*full, width_bits=64).value,
        **{name: counter_delta(*counts, width_bits=64).value for name, counts in own.items()},
        **_interrupts(measured.before.interrupts, measured.after.interrupts),
        **_at_port(measured.before.port_interrupts, measured.after.port_interrupts),
        "device_resets": list(device_resets(before, after, facts)),
        "statistics": {name: delta.value for name, delta in deltas.items() if delta.value},
        "doubtful_counters": {name: delta.doubt for name, delta in deltas.items() if delta.doubt in FELL},
    }


def effective_settings(accepted: Mapping[str, Scalar], facts: DriverFacts) -> dict[str, Scalar]:
    """What the hardware does; None for an interval whose steps are not known."""
    return {name: _effect(name, value, facts) for name, value in accepted.items()}


def _interrupts(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> dict[str, Any]:
    """All of a run, and by queue; a queue that has a new name since is one that nobody read before."""
    if before is None or after is None:
        return {"interrupts": None, "interrupts_by_queue": None}
    return {
        "interrupts": counter_delta(sum(before.values()), sum(after.values()), width_bits=64).value,
        "interrupts_by_queue": {
            name: counter_delta(before.get(name), count, width_bits=64).value for name, count in after.items()
        },
    }


def _at_port(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> dict[str, Any]:
    """The same of the card at which frames arrive, where it is counted at all."""
    if before is None or after is None:
        return {}
    found = _interrupts(before, after)
    return {f"port_{name}": value for name, value in found.items()}


def _effect(name: str, accepted: Scalar, facts: DriverFacts) -> Scalar:
    known = None if accepted is None else facts.effective(name, accepted)
    return known if known is not None or name.endswith("_usecs") else accepted
