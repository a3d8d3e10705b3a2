"""How close the closed law comes to the 36 published points: ``python tests/bench/bench_law.py``."""

from __future__ import annotations

import statistics
import sys

from labkit.experiment.published import compare_published

MEDIAN_PERCENT, WORST_PERCENT, RING_PERCENT = 0.15, 1.0, 0.2
"""Goals: median and worst over all points, worst over those that the TX ring limits (nothing fitted)."""


def main() -> int:
    """Print each figure beside its goal; 3 when one is missed, as for any bench that falls short."""
    points = compare_published()
    errors = [abs(point.error) for point in points]
    ring = [abs(point.error) for point in points if point.limited_by == "TX ring"]
    figures = [
        (f"median of {len(errors)} points", statistics.median(errors), MEDIAN_PERCENT),
        (f"worst of {len(errors)} points", max(errors), WORST_PERCENT),
        (f"worst of {len(ring)} ring-limited points", max(ring), RING_PERCENT),
    ]
    for what, percent, goal in figures:
        sys.stdout.write(f"{what:34} {percent:6.3f} %   goal <= {goal} %\n")
    return 0 if all(percent <= goal for _, percent, goal in figures) else 3


if __name__ == "__main__":
    sys.exit(main())
