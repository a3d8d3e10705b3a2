"""Measures what single operations of this machine cost, beside what the audit says of it."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from labkit.analysis.microcosts import Microcosts, microcost
from labkit.audit.run import audit_summary
from labkit.engines.overhead import SHARED_LINE, Asked, RawCost, measure_apart
from labkit.errors import WorkloadError, listed
from labkit.linux.environment import core_cpus
from labkit.linux.machine import machine_facts

ROUNDS: Final = 100
MOST_ROUNDS: Final = 1_000


def microcosts(*, cpu: int | None = None, rounds: int = ROUNDS) -> Microcosts:
    """Nanoseconds of single operations on this machine, measured in a process of their own.

    Each round takes every operation once: the quickest of five blocks, since what disturbs a block only adds
    to it, with the loop around it subtracted. The number is the median over the rounds, the interval its
    95 % bootstrap. The result goes to `labkit.expect` as its `microcosts`.

    Parameters
    ----------
    cpu : int or None
        CPU that works; None takes the last one that is allowed, as trials do.
    rounds : int
        2 to 1000; a hundred take about a second.

    Raises
    ------
    WorkloadError
        A CPU that does not exist or is not allowed, or a number of rounds that makes no sense.
    LabError
        The measuring process gave no values.
    """
    allowed = os.sched_getaffinity(0)
    chosen = max(allowed) if cpu is None else cpu
    if isinstance(chosen, bool) or chosen not in allowed:
        raise WorkloadError(
            f"microcosts: CPU {chosen} does not exist or is not allowed to this process; "
            f"allowed: {listed([str(each) for each in sorted(allowed)])}"
        )
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 2 <= rounds <= MOST_ROUNDS:
        raise WorkloadError(f"microcosts: {rounds!r} rounds: give 2 to {MOST_ROUNDS}")
    other_cpu, which = partner_of(chosen, allowed)
    raw = measure_apart(Asked(cpu=chosen, other_cpu=other_cpu, rounds=rounds))
    return Microcosts(
        costs=tuple(microcost(_placed(each, which), why_missing=which) for each in raw.costs),
        cpu=chosen,
        involuntary_switches=raw.involuntary_switches,
        machine=machine_facts(),
        audit=audit_summary(cpu=chosen),
    )


def partner_of(cpu: int, allowed: Collection[int], root: Path = Path("/")) -> tuple[int | None, str]:
    """CPU that shares a cache line with `cpu`, and in words which one, or why there is none.

    The nearest by number that is no thread of the same core: threads of one core share its caches.
    """
    others = sorted(set(allowed) - {cpu}, key=lambda other: abs(other - cpu))
    if not others:
        return None, f"only CPU {cpu} is allowed here, and a line is shared by two"
    try:
        siblings = core_cpus(root, cpu)
    except (OSError, ValueError):
        return others[0], f"CPUs {cpu} and {others[0]}; whether they are of one core is not known"
    apart = [other for other in others if other not in siblings]
    chosen = (apart or others)[0]
    return chosen, f"CPUs {cpu} and {chosen}, {'of two cores' if apart else 'threads of one core'}"


def _placed(raw: RawCost, which: str) -> RawCost:
    """`raw` with the CPUs named where two take part."""
    if raw.name != SHARED_LINE or not raw.rounds_ns:
        return raw
    return msgspec.structs.replace(raw, how=f"{raw.how}: {which}")
