"""What LOCK costs here beside its absence, and what keeping a round's quickest block changes.

The first rows are ratios; their goal is only that locked is no quicker. The last ones are reports: how far
the median of all blocks lies above that of each round's quickest, which is how much this machine disturbs its
blocks, and what the audit says of the same CPU.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator

from labkit.analysis.pairs import Ratio, compare_pairs
from labkit.audit.run import audit_summary
from labkit.engines.overhead import BLOCKS, Asked, Meter
from tests.bench.script import Absolute, main

TWINS = (("lock", "add"), ("lock_cmpxchg", "cmpxchg"), ("lock_xchg", "load_store"))
NO_QUICKER = 0.97
COUNT = 20_000
ROUNDS = 40


def measure(pairs: int, limit: int) -> Iterator[Ratio | Absolute]:
    """Each twin's ratio, then how much blocks are disturbed beside the audit's verdict."""
    cpu = max(os.sched_getaffinity(0))
    meter = Meter(Asked(cpu=cpu, other_cpu=None, rounds=1))

    def quickest(name: str) -> Callable[[], float]:
        return lambda: meter.quickest_ns(name) or 0.0

    for locked, plain in TWINS:
        name = f"{locked} / {plain}"
        yield compare_pairs(quickest(locked), quickest(plain), NO_QUICKER, "higher", pairs, limit, name=name)
    verdict = audit_summary(cpu=cpu)["verdict"]
    for name in ("lock", "syscall"):
        rounds = [[meter.block_ns(name, COUNT) or 0.0 for _ in range(BLOCKS)] for _ in range(ROUNDS)]
        all_blocks = statistics.median(value for each in rounds for value in each)
        kept = statistics.median(min(each) for each in rounds)
        value = f"{all_blocks:.4g} / {kept:.4g} ns, audit: {verdict}"
        yield Absolute(f"{name}: median of all blocks / of quickest", value, "report", "met")


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
