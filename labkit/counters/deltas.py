"""Differences of counters that may wrap or start again. Pure arithmetic."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Doubt: TypeAlias = Literal["wrapped", "reset", "wrap or reset", "device reset", "gauge"]
"""Why a difference is not simply that of two reads; a device reset restarts all of its counters at once."""

LARGEST_SHARE = 0.5
"""Share of its range that a counter may have moved to have wrapped; one that would need more was reset."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """How far a counter moved; `value` is None when that cannot be told, and `doubt` says why."""

    value: int | None
    doubt: Doubt | None


def counter_delta(before: int | None, after: int | None, *, width_bits: int | None = None) -> Delta:
    """Difference of two reads of one counter.

    Parameters
    ----------
    before, after : int or None
        The reads; a missing one gives a missing difference.
    width_bits : int or None
        Width of the counter, where it is known.

    Returns
    -------
    Delta
        Never negative. A fall is a wrap only when the width is known and the movement small beside it, so
        that the old value was near the limit; else it is a reset, or undecided when the width is unknown.
    """
    if before is None or after is None:
        return Delta(value=None, doubt=None)
    if after >= before:
        return Delta(value=after - before, doubt=None)
    if width_bits is None:
        return Delta(value=None, doubt="wrap or reset")
    limit = 1 << width_bits
    moved = limit - before + after
    if before < limit and moved <= LARGEST_SHARE * limit:
        return Delta(value=moved, doubt="wrapped")
    return Delta(value=None, doubt="reset")


def counter_deltas(before: dict[str, int], after: dict[str, int]) -> dict[str, int | None]:
    """Differences of 64-bit counters by name; one that is missing on either side or fell is None."""
    return {
        name: counter_delta(before.get(name), after.get(name), width_bits=64).value
        for name in before.keys() | after.keys()
    }
