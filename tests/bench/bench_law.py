"""How close the event loop comes to the 36 published points."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator

from labkit.experiment.published import compare_published
from tests.bench.script import Absolute, at_most, main

MEDIAN_PERCENT, WORST_PERCENT, RING_PERCENT = 0.15, 1.0, 0.2
"""Goals: median and worst over all points, worst over those that the TX ring limits (nothing fitted)."""


def measure(_pairs: int, _limit: int) -> Iterator[Absolute]:
    """Each figure beside its goal; the loop answers the same every time, so once is enough."""
    points = compare_published()
    errors = [abs(point.error) for point in points]
    ring = [abs(point.error) for point in points if point.limited_by == "TX ring"]
    for name, percent, goal in (
        (f"median error of {len(errors)} published points", statistics.median(errors), MEDIAN_PERCENT),
        (f"worst error of {len(errors)} published points", max(errors), WORST_PERCENT),
        (f"worst error of {len(ring)} ring-limited points", max(ring), RING_PERCENT),
    ):
        yield at_most(name, lambda percent=percent: percent, goal, "%", runs=1)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
