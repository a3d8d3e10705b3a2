"""What people read of trials and sweeps: what a sink saw, and why a table has no number."""

from __future__ import annotations

from typing import Any

from labkit.cli.show import MARKS, sweep_text, trial_text
from labkit.records import Mark, Trial
from labkit.results.results import Measured, Results
from tests.sweep_fakes import trial

SEEN: dict[str, Any] = {
    "received": 90,
    "lost": 10,
    "duplicates": 0,
    "reordered": None,
    "corrupted": 0,
    "foreign": 1,
    "kernel_dropped": None,
    "latency_ns": {"p50": 5_100, "max": 1_234_567},
    "latency_note": None,
}


def swept(*trials: Trial) -> Results:
    rows = tuple(Measured(point=0, repeat=0, levels={"batch": 1}, trial=each) for each in trials)
    return Results(
        sweep_id=None,
        rig="fake",
        state="finished",
        factors={"batch": (1,)},
        rows=rows,
        gaps=(),
        environment={},
    )


def test_what_a_sink_saw_is_told_as_far_as_it_can_tell() -> None:
    told = trial_text(trial(environment={"cpu": 1, "sink": SEEN})).splitlines()
    assert "  sink: lost 10   duplicates 0   corrupted 0   foreign 1" in told
    assert "  µs from when a frame was due: p50 5.1   max 1 234.6" in told


def test_sink_that_only_counts_tells_nothing_more() -> None:
    assert "sink:" not in trial_text(trial(environment={"cpu": 1}))


def test_sweep_says_of_marked_trials_what_is_doubtful() -> None:
    shared, missed = (["cpu-shared"], ["cpu-shared", "rate-missed"])
    lines = sweep_text(swept(trial(marks=shared), trial(marks=missed), trial())).splitlines()
    expected: tuple[tuple[Mark, int], ...] = (("cpu-shared", 2), ("rate-missed", 1))
    assert lines[-2:] == [
        f"marked {mark}, {count} of the trials, in no mean: {MARKS[mark]}" for mark, count in expected
    ]


def test_sweep_without_a_marked_trial_speaks_of_none() -> None:
    assert "in no mean" not in sweep_text(swept(trial(), trial()))
