"""Results become tables that say what was asked, what was accepted, and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit.errors import WorkloadError
from labkit.records import Gap
from labkit.results.provenance import client_environment
from labkit.results.results import Measured, Missed, Results
from tests.sweep_fakes import trial


def results(*rows: Measured, gaps: tuple[Missed, ...] = (), **factors: Any) -> Results:
    return Results(
        sweep_id=1, rig="fake", state="finished", factors=factors, rows=rows, gaps=gaps, environment={}
    )


def rounded() -> Results:
    kept = trial(
        settings={"tx_ring": 1001}, settings_accepted={"tx_ring": 1008}, settings_effective={}, batch=64
    )
    row = Measured(point=0, repeat=2, levels={"tx_ring": 1001, "batch": None}, trial=kept)
    gap = Missed(point=1, repeat=0, levels={"tx_ring": 9, "batch": None}, gap=Gap(error="E", reason="why"))
    return results(row, gaps=(gap,), tx_ring=(1001, 9), batch=(None,))


def test_frame_keeps_asked_accepted_and_effective_apart() -> None:
    frame = rounded().frame()
    (line,) = frame.to_dict("records")
    assert (line["tx_ring"], line["tx_ring_accepted"], line["tx_ring_effective"]) == (1001, 1008, None)
    assert (line["batch"], line["batch_effective"]) == (None, 64)
    assert (line["point"], line["repeat"]) == (0, 2)


def test_frame_has_every_field_of_the_flat_trial() -> None:
    frame = rounded().frame()
    assert set(trial().as_json()) <= set(frame.columns)
    assert "samples" not in frame.columns


def test_gaps_are_a_frame_of_their_own() -> None:
    (line,) = rounded().gap_frame().to_dict("records")
    assert line == {"point": 1, "repeat": 0, "tx_ring": 9, "batch": None, "error": "E", "reason": "why"}


def test_no_rows_give_empty_frames_with_their_columns() -> None:
    empty = results(tx_ring=(1, 2))
    assert list(empty.frame().columns) == ["point", "repeat", "tx_ring"]
    assert list(empty.gap_frame().columns) == ["point", "repeat", "tx_ring", "error", "reason"]
    assert not empty.all_gaps


def test_only_chooses_rows_gaps_and_levels() -> None:
    one = rounded().only(tx_ring=9)
    assert one.rows == ()
    assert len(one.gaps) == 1
    assert one.factors == {"tx_ring": (9,), "batch": (None,)}
    assert one.all_gaps
    with pytest.raises(WorkloadError, match="no factor ring; these vary tx_ring"):
        rounded().only(ring=9)


def test_environment_names_the_code_where_git_knows_it(tmp_path: Path) -> None:
    here = client_environment(Path(__file__).parent)
    assert here["labkit"]
    assert here["python"].startswith("3.")
    nowhere = client_environment(tmp_path)
    assert (nowhere["git_revision"], nowhere["git_modified"]) == (None, None)


def test_results_and_trials_are_short_in_a_cell() -> None:
    assert repr(rounded()) == (
        "<Results of sweep 1 on fake, finished: 1 trials (0 marked) and 1 gaps over tx_ring (2), batch (1)>"
    )
    assert repr(results(Measured(point=0, repeat=0, levels={}, trial=trial(marks=["cpu-shared"])))) == (
        "<Results of sweep 1 on fake, finished: 1 trials (1 marked) and 0 gaps over nothing>"
    )
    assert repr(trial(pps=2.5e6, reconciled=True, marks=["cpu-shared", "unsettled"])) == (
        "<Trial on fake, sendmmsg: 2,500,000 pps, 400.0 ns/packet, reconciled, marks: cpu-shared, unsettled>"
    )
    assert repr(trial(pps=None, reconciled=False)) == (
        "<Trial on fake, sendmmsg: pps unknown, NOT RECONCILED, marks: none>"
    )
    assert "0 pps, reconciled unknown" in repr(trial(pps=0.0))


def test_page_of_results_is_a_short_table_that_cannot_run_scripts() -> None:
    many = results(*[rounded().rows[0]] * 50, tx_ring=(1001,), batch=(None,))
    page = many._repr_html_()
    assert page.count("<tr") < 20
    assert "1,000,000.0" in page
    named = Results(sweep_id=None, rig="<b>", state="finished", factors={}, rows=(), gaps=(), environment={})
    assert "<b>" not in named._repr_html_()
