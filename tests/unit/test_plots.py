"""Figures: axes named with units, gaps that stay gaps, JSON that any reader takes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.analysis.pivot import table
from labkit.errors import WorkloadError
from labkit.experiment.published import PublishedPoint
from labkit.factors import SETTING_NAMES, WORKLOAD_FACTORS
from labkit.plots.labels import TITLES, level_text, title, value_text
from labkit.records import Gap
from labkit.results.results import Measured, Missed, Results
from tests.sweep_fakes import trial

REASON = "tx_ring 768 refused: only powers of two"


def results(**changes: Any) -> Results:
    """Rings 512, 768, 1024 at two coalescing times; 768 failed."""
    rows, gaps = [], []
    for ring in (512, 768, 1024):
        for usecs in (1, 30):
            levels = {"tx_ring": ring, "rx_usecs": usecs}
            if ring == 768:
                gaps.append(Missed(point=0, repeat=0, levels=levels, gap=Gap(error="E", reason=REASON)))
                continue
            for repeat, pps in enumerate((4e6 + ring, 4.1e6 + ring)):
                measured = trial(pps=pps, settings=levels)
                rows.append(Measured(point=0, repeat=repeat, levels=levels, trial=measured))
    values: dict[str, Any] = {
        "sweep_id": None,
        "rig": "fake",
        "state": "finished",
        "factors": {"tx_ring": (512, 768, 1024), "rx_usecs": (1, 30)},
        "rows": tuple(rows),
        "gaps": tuple(gaps),
        "environment": {},
    }
    return Results(**{**values, **changes})


def drawn(figure: Any) -> Any:
    """Decode the figure as a strict reader would: NaN and Infinity are no JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in the figure's JSON")

    text = figure.to_json()
    assert "bdata" not in text  # base64 arrays could hide them
    return json.loads(text, parse_constant=refuse)


def test_failed_point_is_a_gap_in_the_heat_map_with_its_reason() -> None:
    figure = drawn(lk.heatmap(results(), x="rx_usecs", y="tx_ring"))
    (trace,) = figure["data"]
    assert trace["x"] == ["1", "30"]
    assert trace["y"] == ["512", "768", "1024"]
    assert trace["z"] == [[4050512.0] * 2, [None] * 2, [4051024.0] * 2]
    assert REASON in trace["customdata"][1][0]
    assert "95 % interval" in trace["customdata"][0][0]
    assert [(note["x"], note["y"], note["hovertext"]) for note in figure["layout"]["annotations"]] == [
        (0, 1, REASON),
        (1, 1, REASON),
    ]


def test_failed_point_breaks_the_line_and_is_no_zero() -> None:
    figure = drawn(lk.lines(results(), x="tx_ring", by="rx_usecs"))
    assert [trace["name"] for trace in figure["data"]] == ["1", "30"]
    for trace in figure["data"]:
        assert trace["y"] == [4050512.0, None, 4051024.0]
        assert trace["connectgaps"] is False
        assert trace["error_y"]["array"] == [50000.0, None, 50000.0]
    (note,) = figure["layout"]["annotations"]
    assert note["x"] == 768
    assert note["hovertext"] == f"1: {REASON}<br>30: {REASON}"


def test_hover_tells_asked_level_and_what_became_of_it() -> None:
    levels = {"tx_ring": 1001, "rx_usecs": 1}
    accepted, effective = {"tx_ring": 1008, "rx_usecs": 1}, {"tx_ring": 1008, "rx_usecs": 124.928}
    measured = trial(settings=levels, settings_accepted=accepted, settings_effective=effective)
    row = Measured(point=0, repeat=0, levels=levels, trial=measured)
    held = results(factors={"tx_ring": (1001,), "rx_usecs": (1,)}, rows=(row,), gaps=())
    (cells,) = drawn(lk.heatmap(held, x="rx_usecs", y="tx_ring"))["data"][0]["customdata"]
    assert "rx-usecs (µs): 1 (effective 124.928)<br>TX ring (descriptors): 1001 (accepted 1008)" in cells[0]
    (hover,) = drawn(lk.lines(held, x="tx_ring", by="rx_usecs"))["data"][0]["customdata"]
    assert "TX ring (descriptors): accepted 1008" in hover


def test_axes_carry_names_and_units() -> None:
    layout = drawn(lk.heatmap(results(), x="rx_usecs", y="tx_ring"))["layout"]
    assert layout["xaxis"]["title"]["text"] == "rx-usecs (µs)"
    assert layout["yaxis"]["title"]["text"] == "TX ring (descriptors)"
    assert layout["xaxis"]["type"] == "category"
    layout = drawn(lk.lines(results().only(rx_usecs=1), x="tx_ring", value="ns_per_packet"))["layout"]
    assert layout["yaxis"]["title"]["text"] == "time a packet (ns)"
    assert title("tx_ring_effective") == "TX ring, effective (descriptors)"


def test_every_factor_has_a_title() -> None:
    assert TITLES.keys() >= SETTING_NAMES | WORKLOAD_FACTORS


@pytest.mark.parametrize(
    ("levels", "kind"),
    [((64, 128, 192), "linear"), ((64, 128, 1024), "category"), (("send", "sendmmsg"), "category")],
)
def test_uneven_levels_get_one_step_each(levels: tuple[Any, ...], kind: str) -> None:
    rows = tuple(Measured(point=0, repeat=0, levels={"batch": level}, trial=trial()) for level in levels)
    figure = drawn(lk.lines(results(factors={"batch": levels}, rows=rows, gaps=()), x="batch"))
    assert figure["layout"]["xaxis"]["type"] == kind
    assert figure["data"][0]["x"] == (list(levels) if kind == "linear" else [str(level) for level in levels])


def test_nothing_measured_draws_an_empty_plot() -> None:
    nothing = results(rows=(), gaps=())
    assert drawn(lk.heatmap(nothing, x="rx_usecs", y="tx_ring"))["data"][0]["z"] == [[None] * 2] * 3
    assert drawn(lk.lines(nothing.only(rx_usecs=1), x="tx_ring"))["data"][0]["y"] == [None] * 3
    bare = results(rows=(), gaps=(), factors={"tx_ring": (), "rx_usecs": ()})
    assert drawn(lk.heatmap(bare, x="rx_usecs", y="tx_ring"))["data"][0]["z"] == []
    assert drawn(lk.lines(bare, x="tx_ring"))["data"][0]["y"] == []


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_number_that_json_has_no_word_for_becomes_a_gap(number: float) -> None:
    cells = table({(1, 256): number, (9, 256): 5.0}, x="rx_usecs", y="tx_ring", value="pps")
    figure = drawn(lk.heatmap(cells))
    assert figure["data"][0]["z"] == [[None, 5.0]]
    drawn(lk.heatmap_pair(cells, cells))
    levels = {"tx_ring": 512, "rx_usecs": 1}
    bad = Measured(point=0, repeat=0, levels=levels, trial=trial(pps=number))
    assert drawn(lk.lines(results(rows=(bad,)).only(rx_usecs=1), x="tx_ring"))["data"][0]["y"] == [None] * 3


def test_pair_shows_both_tables_on_one_scale_and_the_error_of_each_cell() -> None:
    published = table({(1, 256): 100.0, (9, 256): 50.0}, x="rx_usecs", y="tx_ring", value="pps")
    lab = table({(1, 256): 101.0, (9, 256): None}, x="rx_usecs", y="tx_ring", value="pps")
    figure = drawn(lk.heatmap_pair(published, lab))
    left, middle, right = figure["data"]
    assert left["coloraxis"] == middle["coloraxis"] == "coloraxis"
    assert (left["z"], middle["z"], right["z"]) == ([[100.0, 50.0]], [[101.0, None]], [[1.0, None]])
    assert right["text"] == [["+1.00", ""]]
    assert right["zmid"] == 0
    words = [note["text"] for note in figure["layout"]["annotations"]]
    assert words == ["published", "lab", "gap", "error of lab (%)", "gap"]


def published(file: str, table: str, error: float | None, **more: Any) -> PublishedPoint:
    lab = None if error is None else 100 + error
    setting = {"tx_ring": 512}
    return PublishedPoint(
        file=file, table=table, setting=setting, unit="pps", published=100.0, lab=lab, error=error, **more
    )


def test_published_figures_show_how_far_off_the_lab_is_and_what_was_fitted() -> None:
    points = [
        published("one", "a", -2.0),
        published("one", "b", 0.5, fitted=True),
        published("two", "c", 0.0),
        published("two", "c", None, reason="no such machine"),
    ]
    figure = drawn(lk.published_plot(points))
    predicted, fitted = figure["data"]
    assert (predicted["name"], fitted["name"]) == ("predicted", "fitted")
    assert (predicted["x"], fitted["x"]) == ([2.0, 0.001], [0.5])  # a logarithmic axis has no zero
    assert [round(y) for y in predicted["y"]] == [0, 1]
    assert predicted["y"][0] < fitted["y"][0] < 0.5
    assert predicted["marker"]["symbol"] != fitted["marker"]["symbol"]
    assert predicted["customdata"][0].startswith(
        "a: tx_ring 512<br>published 100 pps, lab 98<br>error -2.000 %"
    )
    *names, note = figure["layout"]["annotations"]
    assert [name["text"] for name in names] == ["one", "two"]
    assert (note["text"], note["hovertext"]) == ("1 no answer", "no such machine")
    assert note["y"] == names[1]["y"]


def test_published_figures_of_one_file_get_a_row_a_table_and_of_one_table_a_row_a_setting() -> None:
    def rows(points: list[PublishedPoint]) -> list[str]:
        return [note["text"] for note in drawn(lk.published_plot(points))["layout"].get("annotations", [])]

    same_file = [published("one", "a", -2.0), published("one", "b", 0.5)]
    assert rows(same_file) == ["a", "b"]
    assert rows(same_file[:1]) == ["tx_ring 512"]
    assert drawn(lk.published_plot(same_file))["data"][1]["x"] == []
    assert rows([]) == []


def test_third_factor_is_not_averaged_away() -> None:
    with pytest.raises(WorkloadError, match=r"rx_usecs varies too.*only"):
        lk.lines(results(), x="tx_ring")


def test_words_on_figures() -> None:
    shown = {5362722.0: "5.36 M", 5.5e6: "5.50 M", 5.5e8: "550 M", 186.47: "186.5", 0.0: "0", None: ""}
    assert {number: value_text(number, "pps") for number in shown} == shown
    assert [level_text(level) for level in (True, False, None, 0.5, 64, "fq")] == [
        "on", "off", "default", "0.5", "64", "fq",
    ]  # fmt: skip


def test_rooms_are_light_until_used() -> None:
    heavy = {"plotly", "pandas", "numpy", "scipy", "sqlalchemy", "tqdm"}
    code = (
        "import sys, labkit, labkit.plots, labkit.analysis, labkit.results, labkit.experiment;"
        "print(*sorted(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, timeout=30, check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "labkit.plots" in loaded
    assert loaded & heavy == set()
    with pytest.raises(AttributeError):
        lk.nothing  # noqa: B018


def test_counts_stand_side_by_side_and_a_place_that_does_not_count_says_so() -> None:
    told = trial(pps=1e6)
    lost = msgspec.structs.replace(
        told, engine_sent=5, device_sent=4, peer_received=None, difference_reason="one is missing"
    )
    figure = drawn(lk.count_bars({"clean": told, "lost": lost}))
    bars = {trace["name"]: trace for trace in figure["data"]}
    assert bars["engine sent"]["y"][1] == 5
    assert bars["device sent"]["y"][1] == 4
    assert bars["peer received"]["y"][1] is None
    assert bars["device sent"]["customdata"][1] == "one is missing"
    notes = [note for note in figure["layout"]["annotations"] if "peer received" in note["hovertext"]]
    assert any(1 < note["x"] < 1.5 for note in notes)
