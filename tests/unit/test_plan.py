"""Plans are pure data: the same arguments, the same order; what makes no sense is refused by name."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from labkit.errors import WorkloadError
from labkit.experiment.plan import Plan

RINGS = {"tx_ring": [256, 512, 1024], "rx_usecs": [1, 10]}


def test_each_block_runs_every_combination_once() -> None:
    plan = Plan.of(RINGS, repeats=4)
    assert len(plan.points) == 24
    for repeat in range(4):
        block = plan.points[repeat * 6 : (repeat + 1) * 6]
        assert {point.repeat for point in block} == {repeat}
        assert sorted(point.index for point in block) == list(range(6))
    assert all(point.levels == plan.combinations[point.index] for point in plan.points)


def test_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    assert Plan.of(RINGS, seed=7) == Plan.of(RINGS, seed=7)
    assert Plan.of(RINGS, seed=7).digest == Plan.of(RINGS, seed=7).digest
    assert Plan.of(RINGS, seed=7).points != Plan.of(RINGS, seed=8).points


def test_order_differs_between_blocks() -> None:
    points = Plan.of(RINGS, repeats=8).points
    orders = {tuple(point.index for point in points[start : start + 6]) for start in range(0, 48, 6)}
    assert len(orders) > 1


@pytest.mark.parametrize(
    "change",
    [{"repeats": 4}, {"duration_s": 2.0}, {"warmup_s": 0.2}, {"seed": 1}],
    ids=lambda c: next(iter(c)),
)
def test_digest_tells_plans_apart(change: dict[str, Any]) -> None:
    assert Plan.of(RINGS, **change).digest != Plan.of(RINGS).digest


def test_plan_survives_json() -> None:
    plan = Plan.of({"engine": ["send", "sendmmsg"], "batch": [None, 64], "qdisc_bypass": [True, False]})
    again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert again == plan
    assert again.digest == plan.digest


def test_a_count_is_part_of_the_plan_and_a_plan_without_one_is_what_it_was() -> None:
    plain, counted = Plan.of({"tx_ring": [64]}), Plan.of({"tx_ring": [64]}, count=60_000)
    assert "count" not in msgspec.to_builtins(plain)
    assert counted.digest != plain.digest
    assert counted.with_levels({"tx_ring": (128,)}).count == 60_000
    assert "60000 frames each" in str(counted)
    for odd in (0, -1, 1.5, True):
        with pytest.raises(WorkloadError, match="count is"):
            Plan.of({"tx_ring": [64]}, count=odd)  # type: ignore[arg-type]


def test_printed_plan_shows_every_trial_and_the_time() -> None:
    lines = str(Plan.of(RINGS, repeats=2, duration_s=2.0, warmup_s=0.5)).splitlines()
    assert "12 trials = 6 points x 2 repeats, at least 30 s" in lines[0]
    assert lines[1].split() == ["trial", "repeat", "tx_ring", "rx_usecs"]
    shown = Counter(tuple(line.split()[2:]) for line in lines[2:])
    assert shown == {(str(ring), str(usecs)): 2 for ring in RINGS["tx_ring"] for usecs in RINGS["rx_usecs"]}


def test_without_factors_there_is_one_point() -> None:
    plan = Plan.of({}, repeats=3)
    assert [point.levels for point in plan.points] == [{}, {}, {}]


def test_numpy_levels_become_python_numbers() -> None:
    plan = Plan.of({"tx_ring": np.array([256, 512]), "rate_pps": [np.float64(1e6)]})
    assert [type(level) for factor in plan.factors for level in factor.levels] == [int, int, float]


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({"tx_rings": [1]}, ["tx_rings", "known", "tx_ring", "frame_bytes"]),
        ({"tx_ring": []}, ["tx_ring", "no levels"]),
        ({"tx_ring": [256, 512, 256]}, ["tx_ring", "256", "twice"]),
        ({"rate_pps": [1, 1.0]}, ["twice"]),
        ({"tx_ring": [512.5]}, ["tx_ring 512.5: give a whole number"]),
        ({"batch": [64, "many"]}, ["batch 'many': give a whole number"]),
        ({"frame_bytes": [None]}, ["frame_bytes None: give a whole number"]),
        ({"qdisc_bypass": ["maybe"]}, ["qdisc_bypass 'maybe': give true or false"]),
        ({"adaptive_rx": [1]}, ["adaptive_rx 1: give true or false"]),
        ({"rate_pps": ["fast"]}, ["rate_pps 'fast': give a number"]),
        ({"sink": [3]}, ["sink 3: give a name"]),
        (
            {"sink": ["stack", "drain"]},
            ["drain", "known are ifb, port, rx_ring, socket, stack, wire, xdp_drop"],
        ),
        ({"tx_ring": 512}, ["give a list"]),
        ({"engine": "send"}, ["give a list"]),
        ({"engine": ["send", "kite"]}, ["kite", "sendmmsg"]),
        ({"rate_pps": [math.nan]}, ["not finite"]),
        ({"rate_pps": [math.inf]}, ["not finite"]),
        ({"tx_ring": [[1, 2]]}, ["[1, 2]"]),
    ],
)
def test_factors_that_make_no_sense_are_refused(factors: Any, words: list[str]) -> None:
    with pytest.raises(WorkloadError) as caught:
        Plan.of(factors)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    "numbers",
    [
        {"repeats": 0},
        {"repeats": -1},
        {"repeats": 1.5},
        {"repeats": True},
        {"seed": -1},
        {"duration_s": 0},
        {"duration_s": math.nan},
        {"duration_s": math.inf},
        {"warmup_s": -0.1},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError, match=next(iter(numbers))):
        Plan.of(RINGS, **numbers)


def test_plan_over_a_million_trials_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(WorkloadError, match="99999999999 trials are over 1000000"):
        Plan.of({"tx_ring": [64]}, repeats=99_999_999_999)


@pytest.mark.parametrize("length", ["1", True, None, 10**400])
def test_length_that_is_no_number_of_seconds_is_refused(length: object) -> None:
    with pytest.raises(WorkloadError, match="duration_s"):
        Plan.of({"tx_ring": [64]}, duration_s=length)
