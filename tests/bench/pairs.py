"""Two ways of doing the same, measured in alternated pairs: a ratio with its interval and a verdict.

Pairs, since whatever else the machine does drifts slowly and hits both halves alike; alternated, since the
second of a pair may find a warmer cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

RESAMPLES = 4_000


@dataclass(frozen=True)
class Ratio:
    """Median of a / b over the pairs, its 95 % bootstrap interval, and whether the goal is reached.

    The verdict is ``met`` or ``missed`` when the whole interval lies on one side of the goal, else
    ``undecided``.
    """

    name: str
    median: float
    low: float
    high: float
    pairs: int
    goal: float
    verdict: Literal["met", "missed", "undecided"]


def compare_pairs(
    run_a: Callable[[], float],
    run_b: Callable[[], float],
    goal: float,
    better: Literal["lower", "higher"] = "lower",
    pairs: int = 30,
    limit: int = 120,
    *,
    name: str = "",
    seed: int = 0,
) -> Ratio:
    """Ratio of what `run_a` and `run_b` return, from `pairs` pairs and, while undecided, up to `limit`."""
    quotients: list[float] = []
    while True:
        for _ in range(min(pairs, limit - len(quotients))):
            quotients.append(_quotient(run_a, run_b, a_first=len(quotients) % 2 == 0))
        ratio = judge(quotients, goal, better, name=name, seed=seed)
        if ratio.verdict != "undecided" or len(quotients) >= limit:
            return ratio


def judge(
    quotients: Sequence[float],
    goal: float,
    better: Literal["lower", "higher"],
    *,
    name: str = "",
    seed: int = 0,
) -> Ratio:
    """Ratio over `quotients`: median, percentile bootstrap interval of the median, verdict."""
    values = np.asarray(quotients, dtype=float)
    draws = np.random.default_rng(seed).choice(values, size=(RESAMPLES, values.size))
    low, high = (float(edge) for edge in np.quantile(np.median(draws, axis=1), [0.025, 0.975]))
    within, beyond = (high <= goal, low > goal) if better == "lower" else (low >= goal, high < goal)
    verdict: Literal["met", "missed", "undecided"] = "met" if within else "missed" if beyond else "undecided"
    return Ratio(name, float(np.median(values)), low, high, values.size, goal, verdict)


def _quotient(run_a: Callable[[], float], run_b: Callable[[], float], *, a_first: bool) -> float:
    if a_first:
        a = run_a()
        return a / run_b()
    b = run_b()
    return run_a() / b
