"""Summaries: means with intervals of unmarked trials; gaps stay gaps."""

from __future__ import annotations

import math
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

from labkit.analysis.pivot import error_percent, pivot, table
from labkit.analysis.summary import estimate, summarise, summary_frame
from labkit.errors import WorkloadError
from labkit.records import Gap, Mark
from labkit.results.results import Measured, Missed, Results
from tests.sweep_fakes import trial


def results(values: dict[tuple[int, int], list[Any]], reason: str = "refused") -> Results:
    """Trials by (tx_ring, rx_usecs): a number is a trial's pps, a list its marks, a word a gap's reason."""
    rows: list[Measured] = []
    gaps: list[Missed] = []
    for (ring, usecs), entries in values.items():
        levels = {"tx_ring": ring, "rx_usecs": usecs}
        for repeat, entry in enumerate(entries):
            place: dict[str, Any] = {"point": 0, "repeat": repeat, "levels": levels}
            if isinstance(entry, str):
                gaps.append(Missed(**place, gap=Gap(error="E", reason=entry)))
            else:
                marks = entry if isinstance(entry, list) else []
                pps = 1.0 if isinstance(entry, list) else entry
                rows.append(Measured(**place, trial=trial(pps=pps, settings=levels, marks=marks)))
    return Results(
        sweep_id=None,
        rig="fake",
        state="finished",
        factors={
            name: tuple(dict.fromkeys(key[n] for key in values))
            for n, name in enumerate(("tx_ring", "rx_usecs"))
        },
        rows=tuple(rows),
        gaps=tuple(gaps),
        environment={},
    )


def test_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    values = [10.0, 11.0, 12.0, 13.0, 20.0]
    known = estimate(values)
    assert known is not None
    assert (known.n, known.mean, known.median) == (5, 13.2, 12.0)
    assert known.low is not None
    assert known.high is not None
    assert 10.0 < known.low < 13.2 < known.high < 20.0
    assert estimate(values) == known
    assert estimate(values, seed=1) != known


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5).normal(100, 5, (300, 20))
    intervals = [estimate(sample) for sample in draw]
    hits = sum(known.low <= 100 <= known.high for known in intervals)  # type: ignore[union-attr, operator]
    assert 0.88 <= hits / 300 <= 0.98


def test_one_repeat_has_no_interval_and_equal_ones_none_of_width() -> None:
    single, equal = estimate([7.0]), estimate([7.0] * 5)
    assert single is not None
    assert (single.low, single.high) == (None, None)
    assert equal is not None
    assert (equal.low, equal.high) == (7.0, 7.0)


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_nothing_finite_is_absent_not_zero(values: list[float]) -> None:
    assert estimate(values) is None


@pytest.mark.parametrize("mark", get_args(Mark))
def test_marked_trials_are_counted_apart_and_left_out(mark: str) -> None:
    (point,) = summarise(results({(512, 1): [100.0, 110.0, [mark]]}))
    assert point.estimate is not None
    assert (point.estimate.n, point.estimate.mean, point.marked) == (2, 105.0, 1)
    assert point.reason == f"1 of 3 trials left out: {mark} (1)"


def rounding(*accepted: int) -> Results:
    """A ring of 1001 and 31 µs; each repeat reads its ring back as one of `accepted`."""
    levels = {"tx_ring": 1001, "rx_usecs": 31}
    rows = [
        Measured(
            point=0,
            repeat=repeat,
            levels=levels,
            trial=trial(
                settings=levels,
                settings_accepted={"tx_ring": ring, "rx_usecs": 31},
                settings_effective={"tx_ring": ring, "rx_usecs": 30.72},
            ),
        )
        for repeat, ring in enumerate(accepted)
    ]
    return msgspec.structs.replace(results({(1001, 31): [1.0]}), rows=tuple(rows))


def test_point_says_what_the_device_made_of_its_levels() -> None:
    (point,) = summarise(rounding(1008, 1008))
    assert point.levels == {"tx_ring": 1001, "rx_usecs": 31}
    assert point.turned == {"tx_ring": "accepted 1008", "rx_usecs": "effective 30.72"}
    assert list(summary_frame(rounding(1008))["turned"]) == [
        "tx_ring accepted 1008; rx_usecs effective 30.72"
    ]
    assert pivot(rounding(1008), "rx_usecs", "tx_ring").cells[0][0].turned == point.turned


def test_repeats_that_read_back_differently_are_all_told() -> None:
    (point,) = summarise(rounding(1008, 1001, 1016))
    assert point.turned["tx_ring"] == "accepted 1008 or accepted 1016"


def test_level_in_force_as_asked_needs_no_words() -> None:
    (point,) = summarise(results({(512, 1): [1.0]}))
    assert point.turned == {}
    assert list(summary_frame(results({(512, 1): [1.0]}))["turned"]) == [None]
    (unknown,) = summarise(results({(512, 1): ["refused"]}))
    assert unknown.turned == {}


def test_point_of_marked_or_absent_trials_has_no_estimate_but_a_reason() -> None:
    marked, absent = summarise(results({(512, 1): [["kernel-log"]], (512, 2): [None]}))
    assert marked.estimate is None
    assert "kernel-log" in str(marked.reason)
    assert absent.estimate is None
    assert absent.reason == "pps is absent in 1 of 1 trials"


def test_table_of_marked_trials_alone_holds_numbers_that_can_be_formatted() -> None:
    frame = summary_frame(results({(256, 1): [["cpu-shared"]], (512, 1): [["cpu-shared"]]}))
    assert list(frame["n"]) == [0, 0]
    assert [f"{mean:.0f}" for mean in frame["mean"]] == ["nan", "nan"]
    assert list(summary_frame(results({(256, 1): [0.0]}))["mean"]) == [0.0]


def test_points_come_in_the_order_of_the_plan() -> None:
    points = summarise(results({(1024, 1): [1.0], (256, 1): [1.0], (512, 1): ["why"]}))
    assert [point.levels["tx_ring"] for point in points] == [1024, 256, 512]


def test_levels_that_the_hardware_makes_equal_are_one_point() -> None:
    held = results({(1000, 1): [1.0], (1001, 1): [3.0]})
    effective = [
        Measured(
            point=row.point,
            repeat=0,
            levels=row.levels,
            trial=trial(pps=row.trial.pps, settings={"tx_ring": 512}),
        )
        for row in held.rows
    ]
    merged = Results(
        **{name: getattr(held, name) for name in held.__struct_fields__} | {"rows": tuple(effective)}
    )
    (point,) = summarise(merged, ("tx_ring_effective",))
    assert point.levels == {"tx_ring_effective": 512}
    assert point.estimate is not None
    assert (point.estimate.n, point.estimate.mean) == (2, 2.0)


@pytest.mark.parametrize(
    ("by", "value", "words"),
    [
        (("ring",), "pps", "factors are tx_ring, rx_usecs"),
        (("tx_ring",), "pps", "rx_usecs varies too"),
        ((), "speed", "ns_per_packet"),
        ((), "rig", "no number"),
    ],
)
def test_question_that_would_mix_or_miss_is_refused(by: tuple[str, ...], value: str, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        summarise(results({(1, 1): [1.0], (1, 2): [1.0]}), by, value)


def test_pivot_puts_every_point_in_its_cell_and_leaves_gaps_empty() -> None:
    cells = pivot(
        results({(256, 1): [10.0, 20.0], (256, 9): ["no room"], (512, 1): [30.0]}), "rx_usecs", "tx_ring"
    )
    assert (cells.x_levels, cells.y_levels) == ((1, 9), (256, 512))
    assert [[cell.value for cell in row] for row in cells.cells] == [[15.0, None], [30.0, None]]
    assert cells.cells[0][1].reason == "no room"
    assert cells.cells[1][1].reason == "not measured"
    with pytest.raises(WorkloadError, match="both tx_ring"):
        pivot(results({(1, 1): [1.0]}), "tx_ring", "tx_ring")


def test_error_of_each_cell_is_in_percent_of_the_reference() -> None:
    published = table(
        {(1, 256): 100.0, (9, 256): 50.0, (9, 512): None}, x="rx_usecs", y="tx_ring", value="pps"
    )
    lab = table({(9, 256): 49.0, (1, 256): 101.0, (9, 512): 3.0}, x="rx_usecs", y="tx_ring", value="pps")
    errors = error_percent(lab, published)
    assert errors.value == "error_percent"
    assert [[cell.value for cell in row] for row in errors.cells] == [[1.0, -2.0], [None, None]]
    assert errors.cells[1][1].reason == "no reference"
    assert errors.cells[1][0].reason == "not measured"
    with pytest.raises(WorkloadError, match="ns_per_packet"):
        error_percent(lab, table({}, x="rx_usecs", y="tx_ring", value="ns_per_packet"))


def test_frame_of_nothing_but_marked_trials_holds_numbers_that_can_be_formatted() -> None:
    frame = summary_frame(results({(256, 1): [["cpu-shared"]], (512, 1): [["cpu-shared"]]}), ["tx_ring"])
    assert [f"{row.mean:.0f}" for row in frame.itertuples()] == ["nan", "nan"]
    assert list(frame["marked"]) == [1, 1]


def test_interval_is_that_of_the_number_that_was_asked_for() -> None:
    values = [5.0] * 20 + [500.0]
    of_median, of_mean = estimate(values, of="median"), estimate(values)
    assert of_median is not None
    assert of_mean is not None
    assert (of_median.low, of_median.high) == (5.0, 5.0)
    assert of_mean.high is not None
    assert of_mean.high > of_mean.mean
    assert (of_median.mean, of_median.median) == (of_mean.mean, of_mean.median)
