"""The judge of the benches: pairs, intervals, verdicts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from labkit.analysis.pairs import compare_pairs, judge


def noisy(mean: float, spread: float, seed: int) -> Callable[[], float]:
    source = random.Random(seed)
    return lambda: mean * source.uniform(1 - spread, 1 + spread)


def test_clear_ratios_are_decided_by_the_first_pairs() -> None:
    met = compare_pairs(noisy(1.0, 0.01, 1), noisy(1.0, 0.01, 2), goal=1.03)
    missed = compare_pairs(noisy(1.2, 0.01, 3), noisy(1.0, 0.01, 4), goal=1.03)
    assert (met.verdict, met.pairs) == ("met", 30)
    assert (missed.verdict, missed.pairs) == ("missed", 30)
    assert met.low <= met.median <= met.high


def test_higher_may_be_better() -> None:
    fast = compare_pairs(
        noisy(2500.0, 0.01, 1), noisy(1.0, 0.01, 2), goal=2000, better="higher", name="craft"
    )
    slow = compare_pairs(noisy(1500.0, 0.01, 1), noisy(1.0, 0.01, 2), goal=2000, better="higher")
    assert (fast.verdict, fast.name, slow.verdict) == ("met", "craft", "missed")


def test_undecided_takes_more_pairs_and_ends_at_the_limit() -> None:
    swinging = itertools.cycle([0.9, 1.1])
    ratio = compare_pairs(lambda: next(swinging), lambda: 1.0, goal=1.0, pairs=10, limit=25)
    assert (ratio.verdict, ratio.pairs) == ("undecided", 25)


def test_order_within_pairs_alternates() -> None:
    order = []

    def called(name: str) -> Callable[[], float]:
        return lambda: order.append(name) or 1.0

    compare_pairs(called("a"), called("b"), goal=1.0, pairs=4, limit=4)
    assert "".join(order) == "abbaabba"


@pytest.mark.parametrize(("better", "verdict"), [("lower", "met"), ("higher", "met")])
def test_goal_itself_is_good_enough(better: str, verdict: str) -> None:
    assert judge([1.03] * 8, 1.03, better).verdict == verdict  # type: ignore[arg-type]
