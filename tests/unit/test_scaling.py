"""Efficiency of several CPUs against the fewest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.errors import WorkloadError
from labkit.results.results import Measured, Results
from tests.sweep_fakes import trial


def results(rates: dict[Any, list[float]], marks: list[str] | None = None, **factors: Any) -> Results:
    rows = tuple(
        Measured(
            point=0,
            repeat=repeat,
            levels={"cpus": cpus},
            trial=msgspec.structs.replace(trial(pps=pps), marks=marks or []),
        )
        for cpus, values in rates.items()
        for repeat, pps in enumerate(values)
    )
    return Results(
        sweep_id=None,
        rig="fake",
        state="finished",
        factors={"cpus": tuple(rates), **factors},
        rows=rows,
        gaps=(),
        environment={},
    )


def test_two_cpus_that_bring_one_and_a_half_are_three_quarters_efficient() -> None:
    one, two = lk.scaling(results({1: [1e6, 1e6], 2: [1.5e6, 1.5e6]}))
    assert (one.cpus, one.efficiency, one.low, one.high) == (1, 1.0, None, None)
    assert (two.pps, two.pps_per_cpu, two.efficiency, two.low, two.high) == (1.5e6, 0.75e6, 0.75, 0.75, 0.75)


def test_interval_covers_what_repeats_differ_by_and_a_single_one_has_none() -> None:
    _, two = lk.scaling(results({1: [0.9e6, 1.1e6], 2: [1.4e6, 1.6e6]}))
    assert two.low is not None
    assert two.high is not None
    assert two.low < 0.75 < two.high
    assert lk.scaling(results({1: [1e6], 2: [2e6]}))[1].low is None


def test_no_cpus_named_is_one_and_the_fewest_measured_is_the_base() -> None:
    assert [row.cpus for row in lk.scaling(results({2: [2e6], None: [1e6]}))] == [1, 2]
    assert lk.scaling(results({2: [2e6], 4: [3e6]}))[1].efficiency == 0.75


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (results({1: [1e6]}, ["cpu-shared"]), "no unmarked trial"),
        (results({1: [1e6]}, None, batch=(1, 2)), "batch varies too"),
        (msgspec.structs.replace(results({1: [1e6]}), factors={}), "cpus is no factor"),
    ],
)
def test_results_that_cannot_tell_are_refused(given: Results, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        lk.scaling(given)
