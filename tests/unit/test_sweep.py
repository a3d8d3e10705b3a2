"""A sweep measures what the plan asks, keeps each trial at once, and stops without losing any."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import (
    AgentLostError,
    CapabilityMissingError,
    LabError,
    ResultUnsavedError,
    WorkloadError,
)
from labkit.experiment.sweep import Sweep
from labkit.records import Workload
from labkit.results.results import Measured
from labkit.results.store import Store
from tests import sweep_fakes
from tests.sweep_fakes import FakeRig, Flow, Meter, sweep

RINGS = {"tx_ring": [256, 512, 1024], "rx_usecs": [1, 10]}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results.sqlite")


def raising(error: BaseException, at: int) -> Meter:
    def before(call: int) -> None:
        if call == at:
            raise error

    return Meter(before)


def test_sweep_measures_the_plan_in_its_order(store: Store) -> None:
    meter = Meter()
    run = sweep(FakeRig(), meter, RINGS, repeats=2)
    results = run.run(store, progress=False)
    assert meter.calls == [point.levels for point in run.plan.points]
    assert results.state == "finished"
    assert len(results.trials) == 12
    assert results.gaps == ()
    assert store.load(results.sweep_id or 0) == results


def test_each_trial_is_stored_before_the_next_begins(store: Store) -> None:
    stored = []
    sweep(FakeRig(), Meter(lambda call: stored.append(len(store.load(1).rows))), RINGS, repeats=1).run(
        store, progress=False
    )
    assert stored == [0, 1, 2, 3, 4, 5]


def test_workload_factors_change_the_workload(store: Store) -> None:
    factors = {"frame_bytes": [60, 1514], "batch": [1, 64], "engine": ["send", "sendmmsg"]}
    results = sweep(FakeRig(), Meter(), factors, repeats=1).run(store, progress=False)
    for row in results.rows:
        assert row.levels == {name: getattr(row.trial, name) for name in factors}


def test_a_count_ends_each_trial_and_is_in_the_plan(store: Store) -> None:
    lengths: list[dict[str, Any]] = []

    def measure(rig: Any, workload: Workload, *, settings: Any, **length: Any) -> Any:
        lengths.append(length)
        return sweep_fakes.trial(settings=settings, workload=workload)

    asked = Sweep(FakeRig(), Workload(Flow(), "send"), factors=RINGS, repeats=1, count=5000, measure=measure)
    asked.run(store, progress=False)
    assert lengths == [{"duration_s": 1.0, "warmup_s": 0.1, "count": 5000}] * 6
    assert "6 trials of 5000 frames" in repr(asked)


def test_interrupt_keeps_rows_restores_settings_and_is_raised(store: Store) -> None:
    rig = FakeRig()
    before = dict(rig.now)
    with pytest.raises(KeyboardInterrupt) as caught:
        sweep(rig, raising(KeyboardInterrupt(), at=4), RINGS).run(store, progress=False)
    kept = store.load(1)
    assert kept.state == "cancelled"
    assert len(kept.rows) == 3
    assert rig.now == before
    assert "resume=True" in caught.value.__notes__[0]


def test_resume_measures_only_what_is_missing(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep(FakeRig(), raising(KeyboardInterrupt(), at=8), RINGS, repeats=2).run(store, progress=False)
    meter = Meter()
    again = sweep(FakeRig(), meter, RINGS, repeats=2)
    results = again.run(store, progress=False, resume=True)
    assert meter.calls == [point.levels for point in again.plan.points[7:]]
    assert results.sweep_id == 1
    assert results.state == "finished"
    assert [(row.point, row.repeat) for row in results.rows] == [
        (point.index, point.repeat) for point in again.plan.points
    ]


@pytest.mark.parametrize("change", ["seed", "workload", "rig", "made_with", "finished"])
def test_resume_begins_anew_when_anything_else_is_asked(store: Store, change: str) -> None:
    end = None if change == "finished" else KeyboardInterrupt()
    first = sweep(FakeRig(), raising(end, at=2) if end else Meter(), RINGS, repeats=1)
    if end:
        with pytest.raises(KeyboardInterrupt):
            first.run(store, progress=False)
    else:
        first.run(store, progress=False)
    rig = FakeRig()
    if change == "rig":
        rig.info = type(rig.info)(
            **{n: getattr(rig.info, n) for n in rig.info.__struct_fields__} | {"name": "b"}
        )
    if change == "made_with":
        rig.made_with = {"seed": 2}
    workload = Workload(flow=Flow(61 if change == "workload" else 60), engine="sendmmsg")
    other = Sweep(rig, workload, factors=RINGS, repeats=1, seed=1 if change == "seed" else 0, measure=Meter())
    assert other.run(store, progress=False, resume=True).sweep_id == 2


def test_refused_level_is_a_gap_and_the_sweep_goes_on(store: Store) -> None:
    results = sweep(FakeRig(), Meter(), {"tx_ring": [512, 8192]}, repeats=2).run(store, progress=False)
    assert len(results.rows) == 2
    assert [(gap.levels, gap.gap.error) for gap in results.gaps] == [
        ({"tx_ring": 8192}, "SettingRefusedError")
    ] * 2
    assert "above 4096" in results.gaps[0].gap.reason
    assert not results.all_gaps
    assert store.load(1) == results


def test_frame_too_long_at_one_level_is_a_gap(store: Store) -> None:
    results = sweep(FakeRig(), Meter(), {"frame_bytes": [60, 9000]}, repeats=1).run(store, progress=False)
    assert [gap.levels["frame_bytes"] for gap in results.gaps] == [9000]
    assert [trial.frame_bytes for trial in results.trials] == [60]


def test_factor_that_the_rig_never_has_is_refused_before_the_first_trial(store: Store) -> None:
    meter = Meter()
    with pytest.raises(CapabilityMissingError, match="sim:ixgbe"):
        sweep(FakeRig(factors=("mtu",)), meter, RINGS).run(store, progress=False)
    assert meter.calls == []
    assert store.sweeps() == ()


def test_factor_that_the_rig_never_has_becomes_gaps_on_request(store: Store) -> None:
    meter = Meter()
    results = sweep(FakeRig(factors=()), meter, RINGS, repeats=1).run(store, progress=False, gaps=True)
    assert meter.calls == []
    assert len(results.gaps) == 6
    assert results.all_gaps
    assert {gap.gap.error for gap in results.gaps} == {"CapabilityMissingError"}


def test_workload_that_no_point_can_send_is_refused_before_the_first_trial(store: Store) -> None:
    run = Sweep(FakeRig(), Workload(flow=Flow(), engine="send", batch=0), factors=RINGS, measure=Meter())
    with pytest.raises(WorkloadError, match="batch 0"):
        run.run(store, progress=False)
    assert store.sweeps() == ()


def test_lost_agent_ends_the_sweep_and_keeps_what_was_measured(store: Store) -> None:
    with pytest.raises(AgentLostError) as caught:
        sweep(FakeRig(), raising(AgentLostError("agent died"), at=3), RINGS).run(store, progress=False)
    assert store.load(1).state == "failed"
    assert len(store.load(1).rows) == 2
    assert "2 trials are in" in caught.value.__notes__[0]


def test_trial_that_cannot_be_written_travels_with_the_error(store: Store, monkeypatch: Any) -> None:
    keep = Store.keep

    def full(self: Store, sweep_id: int, row: Measured) -> None:
        if len(self.load(sweep_id).rows) == 2:
            raise LabError(f"{self.place} could not be written: disk is full")
        keep(self, sweep_id, row)

    monkeypatch.setattr(Store, "keep", full)
    with pytest.raises(ResultUnsavedError, match=r"results\.sqlite could not be written") as caught:
        sweep(FakeRig(), Meter(), RINGS).run(store, progress=False)
    assert len(caught.value.results.rows) == 3
    assert len(store.load(1).rows) == 2


def test_progress_goes_to_standard_error(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    sweep(FakeRig(), Meter(), RINGS, repeats=1).run(store)
    out, err = capsys.readouterr()
    assert out == ""
    assert "6/6" in err


def test_default_store_is_the_one_of_the_environment(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("LABKIT_DB", str(tmp_path / "chosen.sqlite"))
    sweep(FakeRig(), Meter(), RINGS, repeats=1).run(progress=False)
    assert len(Store(tmp_path / "chosen.sqlite").load(1).rows) == 6


@pytest.mark.parametrize(
    ("sent", "state", "code"), [(signal.SIGKILL, "running", -9), (signal.SIGTERM, "cancelled", 143)]
)
def test_ended_process_leaves_all_finished_rows(
    store: Store, sent: signal.Signals, state: str, code: int
) -> None:
    assert end_after(5, store, sent) == code
    assert store.load(1).state == state
    assert len(store.load(1).rows) == 4
    meter = Meter()
    assert len(sweep_fakes.slow_sweep(meter).run(store, progress=False, resume=True).rows) == 100
    assert len(meter.calls) == 96


def end_after(calls: int, store: Store, sent: signal.Signals, *options: str) -> int:
    """Sweep in a process of its own and end it by `sent` within measurement `calls`; its exit code."""
    command = [sys.executable, "-m", "tests.sweep_fakes", store.place, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for call in range(1, calls + 1):
            assert child.stdout.readline() == f"{call}\n"
            if call < calls:
                child.stdin.write("\n")
                child.stdin.flush()
        child.send_signal(sent)
        return child.wait(timeout=30)


def test_sweep_is_one_line_in_a_cell() -> None:
    assert repr(sweep(FakeRig(), Meter(), RINGS, repeats=2)) == (
        "<Sweep on fake over tx_ring (3), rx_usecs (2): 12 trials of 1 s, 2 of each combination>"
    )
