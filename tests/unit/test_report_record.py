from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from labkit.errors import ResultIncompatibleError, WorkloadError
from labkit.report.record import RECORD_VARIABLE, RECORD_VERSION, RunRecord, finish, read, write


@pytest.fixture
def record() -> RunRecord:
    return RunRecord(
        run_id="r1",
        notebook="a.ipynb",
        executed="out/a.ipynb",
        state="running",
        reason=None,
        parameters={},
        findings={},
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=None,
        pid=1,
    )


def test_finish_outside_a_run_writes_nothing_and_displays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    shown = finish(median_error_percent=0.1234567, worst=None, ring="<b>")
    assert not shown.recorded
    assert list(tmp_path.iterdir()) == []
    assert "median_error_percent: 0.1234567" in repr(shown)
    assert "median error percent" in shown._repr_html_()
    assert "not known" in shown._repr_html_()
    assert "<b>" not in shown._repr_html_()


def test_finding_without_a_number_reads_alike_in_the_cell_and_in_the_record() -> None:
    shown = finish(ns_per_packet={"send": float("nan"), "gso": None})._repr_html_()
    assert "send: not known, gso: not known" in shown


def test_finish_in_a_run_records_the_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: RunRecord
) -> None:
    path = tmp_path / "runs" / "r1.json"
    write(path, record)
    monkeypatch.setenv(RECORD_VARIABLE, str(path))
    assert finish(pps=1e6, rings=(64, 256)).recorded
    assert json.loads(path.read_text())["state"] == "finished"
    assert read(path).findings == {"pps": 1e6, "rings": [64, 256]}
    assert [entry.name for entry in path.parent.iterdir()] == ["r1.json"]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_finish_cannot_revive_a_run_that_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: RunRecord, state: str
) -> None:
    path = tmp_path / "r1.json"
    write(path, msgspec.structs.replace(record, state=state))
    monkeypatch.setenv(RECORD_VARIABLE, str(path))
    assert not finish(pps=1.0).recorded
    assert read(path).state == state


def test_a_finding_that_is_no_plain_value_is_refused() -> None:
    with pytest.raises(WorkloadError, match="figure"):
        finish(figure=object())


@pytest.mark.parametrize("content", ["", "{", "{}", '{"state": "great"}'])
def test_a_broken_record_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(ResultIncompatibleError, match=r"r\.json"):
        read(tmp_path / "r.json")


def test_a_newer_record_is_refused(tmp_path: Path, record: RunRecord) -> None:
    write(tmp_path / "r.json", msgspec.structs.replace(record, record_version=RECORD_VERSION + 1))
    with pytest.raises(ResultIncompatibleError, match="newer"):
        read(tmp_path / "r.json")
