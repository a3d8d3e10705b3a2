"""Two ways of doing the same, measured in alternated pairs: a ratio with its interval and a verdict.

Pairs, since whatever else the machine does drifts slowly and hits both halves alike; alternated, since the
second of a pair may find a warmer cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from labkit.analysis.summary import estimate
from labkit.errors import LabError

Verdict: TypeAlias = Literal["met", "missed", "undecided", "report"]
Better: TypeAlias = Literal["lower", "higher"]

MOST_LOST: Final = 10


@dataclass(frozen=True)
class Ratio:
    """Median of a / b over the pairs, its 95 % bootstrap interval, and whether the goal is reached.

    The verdict is ``met`` or ``missed`` when the whole interval lies on one side of the goal, else
    ``undecided``; without a goal it is ``report``. One pair is its own interval.
    """

    name: str
    median: float
    low: float
    high: float
    pairs: int
    goal: float | None
    verdict: Verdict


def compare_pairs(
    run_a: Callable[[], float | None],
    run_b: Callable[[], float | None],
    goal: float | None,
    better: Better = "lower",
    pairs: int = 30,
    limit: int = 120,
    *,
    name: str = "",
    seed: int = 0,
) -> Ratio:
    """Ratio of what `run_a` and `run_b` return, from `pairs` pairs and, while undecided, up to `limit`.

    A run that returns None was disturbed: its pair is made again, at most as often as there are to be pairs,
    or `MOST_LOST` times. Without a goal there are `pairs` of them.

    Raises
    ------
    LabError
        Every pair was disturbed.
    """
    quotients: list[float] = []
    lost, most = 0, limit if goal is not None else pairs
    most_lost = max(most, MOST_LOST)
    while True:
        wanted = min(len(quotients) + pairs, most)
        while len(quotients) < wanted and lost < most_lost:
            quotient = _quotient(run_a, run_b, a_first=(len(quotients) + lost) % 2 == 0)
            if quotient is None:
                lost += 1
            else:
                quotients.append(quotient)
        if not quotients:
            raise LabError(f"each of {lost} pairs was disturbed; close what else runs here")
        ratio = judge(quotients, goal, better, name=name, seed=seed)
        if ratio.verdict != "undecided" or len(quotients) >= most or lost >= most_lost:
            return ratio


def judge(
    quotients: Sequence[float],
    goal: float | None,
    better: Better,
    *,
    name: str = "",
    seed: int = 0,
) -> Ratio:
    """Ratio over `quotients`: median, percentile bootstrap interval of the median, verdict.

    Raises
    ------
    LabError
        There is none.
    """
    found = estimate(quotients, of="median", seed=seed)
    if found is None:
        raise LabError("no pair, no ratio")
    low = found.median if found.low is None else found.low
    high = found.median if found.high is None else found.high
    return Ratio(name, found.median, low, high, found.n, goal, _verdict(low, high, goal, better))


def _verdict(low: float, high: float, goal: float | None, better: Better) -> Verdict:
    if goal is None:
        return "report"
    within, beyond = (high <= goal, low > goal) if better == "lower" else (low >= goal, high < goal)
    return "met" if within else "missed" if beyond else "undecided"


def _quotient(
    run_a: Callable[[], float | None], run_b: Callable[[], float | None], *, a_first: bool
) -> float | None:
    first, second = (run_a, run_b) if a_first else (run_b, run_a)
    one = first()
    other = None if one is None else second()
    if one is None or other is None:
        return None
    return one / other if a_first else other / one
