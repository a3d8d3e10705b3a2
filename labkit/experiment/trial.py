"""One honest trial: settings applied, warmed up, run, and run again when something disturbed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from labkit.factors import Settings
from labkit.records import Sample, Trial, Workload
from labkit.rigs.base import Rig

CURABLE_MARKS = frozenset({"cpu-shared", "kernel-log", "rate-missed", "device-reset", "frozen"})
"""Marks of a disturbance that may be gone the next time; without carrier nothing gets better."""
MAX_REPEATS = 3
T = TypeVar("T")


def run_trial(
    rig: Rig,
    workload: Workload,
    *,
    settings: Settings | None = None,
    duration_s: float = 1.0,
    count: int | None = None,
    warmup_s: float = 0.1,
    check: bool = True,
    on_sample: Callable[[Sample], None] | None = None,
) -> Trial:
    """One trial of `workload` on `rig`, counted and reconciled.

    A disturbed run (`CURABLE_MARKS`) is repeated at most three times; then the last is kept with its marks.

    Parameters
    ----------
    rig : Rig
        Where.
    workload : Workload
        What.
    settings : mapping or None
        Settings for this trial; put back afterwards.
    duration_s : float
        Longest length of the run in seconds.
    count : int or None
        Frames to send; the run ends at the first of both.
    warmup_s : float
        Length of a run of its own before, whose counts are dropped.
    check : bool
        False calls the engine directly: what the kernel refuses is counted, not foreseen.
    on_sample : callable or None
        Called with each live sample, 5 to 10 times a second.

    Raises
    ------
    WorkloadError, CapabilityMissingError, SettingRefusedError, AgentLostError, LabError
        Before anything is sent, where it can be known before.
    """
    with rig.applied(settings or {}):
        if check:
            rig.check(workload)
        if warmup_s:
            rig.run(workload, duration_s=warmup_s, check=False)
        return undisturbed(
            lambda: rig.run(workload, duration_s=duration_s, count=count, on_sample=on_sample, check=False),
            lambda trial: trial,
        )


def undisturbed(run: Callable[[], T], trial_of: Callable[[T], Trial]) -> T:
    """What `run` gives, run again at most three times while the trial in it is marked as disturbed."""
    found = run()
    for _ in range(MAX_REPEATS):
        if not CURABLE_MARKS & set(trial_of(found).marks):
            break
        found = run()
    return found
