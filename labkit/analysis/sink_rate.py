"""How fast frames arrived while a run was well under way, by the sink's counter alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from labkit.records import Sample
from labkit.units import rate_pps

SinkCounter: TypeAlias = Literal["peer_received", "device_sent"]


def sink_rate(samples: Sequence[Sample], counter: SinkCounter) -> float | None:
    """Packets a second by `counter`, from the second to the last but one of the samples in which it moved.

    What comes before its first move is start-up, which some senders have and others not; the first and the
    last moving sample hold the sender's start and end. None where it moved in fewer than four.
    """
    moved = [
        sample
        for before, sample in pairwise([None, *samples])
        if sample is not None and (getattr(sample, counter) or 0) > _count(before, counter)
    ]
    inside = moved[1:-1]
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    return rate_pps(_count(last, counter) - _count(first, counter), last.at_ns - first.at_ns)


def _count(sample: Sample | None, counter: SinkCounter) -> int:
    return 0 if sample is None else getattr(sample, counter) or 0
