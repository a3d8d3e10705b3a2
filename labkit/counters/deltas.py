"""Differences of counters that may wrap or start again. Pure arithmetic."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Doubt: TypeAlias = Literal["wrapped", "reset", "wrap or reset", "device reset", "gauge"]
"""Why a difference is not simply that of two reads; a device reset restarts all of its counters at once."""

NEAR_LIMIT = 0.5
"""A counter below this share of its range did not wrap: it was reset."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """How far a counter moved; `value` is None when that cannot be told, and `doubt` says why."""

    value: int | None
    doubt: Doubt | None


def counter_delta(
    before: int | None,
    after: int | None,
    *,
    width_bits: int | None = None,
    largest_possible: float | None = None,
) -> Delta:
    """Difference of two reads of one counter.

    Parameters
    ----------
    before, after : int or None
        The reads; a missing one gives a missing difference.
    width_bits : int or None
        Width of the counter, where it is known.
    largest_possible : float or None
        What the link can move in the time between the reads; a wrap that would need more was a reset.

    Returns
    -------
    Delta
        Never negative. A fall is a wrap only when the width is known, the old value was near the limit and
        the movement is possible; else it is a reset, or undecided when the width is unknown.
    """
    if before is None or after is None:
        return Delta(value=None, doubt=None)
    if after >= before:
        return Delta(value=after - before, doubt=None)
    if width_bits is None:
        return Delta(value=None, doubt="wrap or reset")
    limit = 1 << width_bits
    moved = limit - before + after
    possible = largest_possible is None or moved <= largest_possible
    if before >= NEAR_LIMIT * limit and before < limit and possible:
        return Delta(value=moved, doubt="wrapped")
    return Delta(value=None, doubt="reset")


def counter_deltas(before: dict[str, int], after: dict[str, int]) -> dict[str, int | None]:
    """Differences of 64-bit counters by name; one that is missing on either side or fell is None."""
    return {
        name: counter_delta(before.get(name), after.get(name), width_bits=64).value
        for name in before.keys() | after.keys()
    }
