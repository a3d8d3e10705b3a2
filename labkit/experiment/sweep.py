"""A planned set of trials on one rig: run, kept one by one, stopped and resumed at will."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from labkit import paths
from labkit.drivers.facts import DriverFacts
from labkit.drivers.levels import Levels, distinct_levels
from labkit.errors import (
    CapabilityMissingError,
    LabError,
    ResultUnsavedError,
    SettingRefusedError,
    WorkloadError,
)
from labkit.experiment.interrupts import termination_unwinds
from labkit.experiment.plan import Factor, Plan, Point
from labkit.experiment.trial import run_trial
from labkit.factors import SETTING_NAMES, Scalar, Settings
from labkit.records import Gap, Trial, Workload
from labkit.results.provenance import client_environment
from labkit.results.results import Measured, Missed, Results
from labkit.results.store import Store
from labkit.rigs.base import Rig
from labkit.rigs.catalog import check_setting

if TYPE_CHECKING:
    from labkit.results.schema import State

POINT_ERRORS = (SettingRefusedError, WorkloadError, CapabilityMissingError)
"""What one point can suffer without harm to the next; every other error ends the sweep."""


class Measure(Protocol):
    """How one trial is measured; `labkit.experiment.trial.run_trial` is the one in use."""

    def __call__(
        self, rig: Rig, workload: Workload, *, settings: Settings, duration_s: float, warmup_s: float
    ) -> Trial:
        """Apply `settings`, send, count, and put the old settings back; given `count`, too, where planned."""
        ...


class Sweep:
    """Every combination of some factors on one rig, repeated in randomised blocks.

    Levels of a setting that the rig's driver accepts as one value are one level: the first of them is run,
    and ``merged`` names the others, in the results' ``environment`` too.

    Parameters
    ----------
    rig : Rig
        Where it runs.
    workload : Workload
        What is sent; factors of the workload replace its values.
    factors : mapping of str to iterable
        Levels of each factor (`labkit.records.SETTING_NAMES`, `WORKLOAD_FACTORS`).
    repeats : int
        Blocks.
    duration_s, warmup_s : float
        Seconds each trial sends, and sends before it counts.
    seed : int
        Seed of the order.
    count : int or None
        Frames that each trial sends; it ends at the first of both.
    measure : Measure or None
        How one trial is measured; None is `labkit.experiment.trial.run_trial`.

    Raises
    ------
    WorkloadError
        An unknown factor, or one without levels.
    """

    def __init__(
        self,
        rig: Rig,
        workload: Workload,
        *,
        factors: Mapping[str, Iterable[Scalar]],
        repeats: int = 5,
        duration_s: float = 1.0,
        warmup_s: float = 0.1,
        seed: int = 0,
        count: int | None = None,
        measure: Measure | None = None,
    ) -> None:
        self.rig = rig
        self.workload = workload
        length = {"duration_s": duration_s, "warmup_s": warmup_s}
        asked = Plan.of(factors, repeats=repeats, seed=seed, count=count, **length)
        distinct = {factor.name: _distinct(rig.driver, factor) for factor in asked.factors}
        self.merged = tuple(levels for levels in distinct.values() if levels is not None and levels.merged)
        """Levels that fell together, by setting; each is one line of text."""
        self.plan = asked.with_levels({levels.setting: levels.levels for levels in self.merged})
        self._measure: Measure = measure or run_trial

    def __repr__(self) -> str:
        plan = self.plan
        length = f"{plan.duration_s:g} s" if plan.count is None else f"{plan.count} frames"
        over = ", ".join(f"{factor.name} ({len(factor.levels)})" for factor in plan.factors)
        return (
            f"<Sweep on {self.rig.info.name} over {over}: "
            f"{len(plan.points)} trials of {length}, {plan.repeats} of each combination>"
        )

    def run(
        self,
        store: Store | str | Path | None = None,
        *,
        progress: bool = True,
        gaps: bool = False,
        resume: bool = False,
    ) -> Results:
        """Measure what the plan asks; each finished trial is on the disk before the next begins.

        Parameters
        ----------
        store : Store, str, Path or None
            Where rows are kept; None is `labkit.paths.store_url`.
        progress : bool
            Show a bar (standard error, or a widget in a notebook).
        gaps : bool
            Record what this rig cannot do as gaps instead of raising before the first trial.
        resume : bool
            Continue the newest unfinished sweep of the same plan, rig and workload; gaps count as done.

        Raises
        ------
        CapabilityMissingError, WorkloadError
            Before the first trial: the rig never has a factor, or no point can be sent at all.
        ResultUnsavedError
            The store failed; the error carries every row.
        LabError
            What no later point would survive (agent lost, rig busy). The rows stay in the store.
        """
        if not gaps:
            self._refuse_the_impossible()
        kept = store if isinstance(store, Store) else Store(store or paths.store_url())
        run = _Run(kept, self._enter(kept, resume))
        with termination_unwinds(), run:
            self._work(run, progress)
        return run.results

    def _enter(self, store: Store, resume: bool) -> int:
        """Find or begin the sweep's entry in `store` and return its number."""
        entry: dict[str, Any] = {
            "rig": self.rig.info.name,
            "plan": msgspec.to_builtins(self.plan),
            "workload": _description(self.workload),
            "made_with": self.rig.made_with,
        }
        found = store.unfinished(**entry) if resume else None
        if found is not None:
            store.mark(found, "running")
            return found
        environment = client_environment(paths.checkout_dir())
        environment["merged"] = msgspec.to_builtins(self.merged)
        return store.begin(**entry, environment=environment)

    def _work(self, run: _Run, progress: bool) -> None:
        from tqdm.auto import tqdm

        missing = [point for point in self.plan.points if (point.index, point.repeat) not in run.done]
        planned, done = len(self.plan.points), len(self.plan.points) - len(missing)
        with tqdm(
            total=planned, initial=done, desc=run.results.rig, unit="trial", disable=not progress
        ) as bar:
            for point in missing:
                run.keep(self._row(point))
                bar.update()

    def _row(self, point: Point) -> Measured | Missed:
        place: dict[str, Any] = {"point": point.index, "repeat": point.repeat, "levels": point.levels}
        try:
            return Measured(**place, trial=self._trial(point))
        except POINT_ERRORS as error:
            return Missed(**place, gap=Gap(error=type(error).__name__, reason=str(error)))

    def _trial(self, point: Point) -> Trial:
        self._refuse_absent_factors()
        count: dict[str, Any] = {} if self.plan.count is None else {"count": self.plan.count}
        return self._measure(
            self.rig,
            _varied(self.workload, point.levels),
            settings={name: level for name, level in point.levels.items() if name in SETTING_NAMES},
            duration_s=self.plan.duration_s,
            warmup_s=self.plan.warmup_s,
            **count,
        )

    def _refuse_absent_factors(self) -> None:
        for factor in self.plan.factors:
            if factor.name in SETTING_NAMES:
                check_setting(self.rig.info, factor.name)

    def _refuse_the_impossible(self) -> None:
        """Raise what stands against every point; what stands against some becomes gaps."""
        self._refuse_absent_factors()
        if any(factor.name == "mtu" for factor in self.plan.factors):
            return  # how long a frame may be is known only once the MTU is set
        refused: list[LabError] = []
        for levels in self.plan.combinations:
            try:
                self.rig.check(_varied(self.workload, levels))
            except POINT_ERRORS as error:
                refused.append(error)
            else:
                return
        raise refused[0]


class _Run:
    """One sweep on its way into the store; leaving the block writes how it ended."""

    def __init__(self, store: Store, sweep_id: int) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self.results = store.load(sweep_id)

    @property
    def done(self) -> set[tuple[int, int]]:
        """Points and repeats that need no more work."""
        rows = {(row.point, row.repeat) for row in self.results.rows}
        return rows | {(miss.point, miss.repeat) for miss in self.results.gaps}

    def keep(self, row: Measured | Missed) -> None:
        """Write `row` durably."""
        name = "rows" if isinstance(row, Measured) else "gaps"
        held = {name: (*getattr(self.results, name), row)}
        self.results = msgspec.structs.replace(self.results, **held)
        try:
            self._store.keep(self._sweep_id, row)
        except LabError as error:
            raise ResultUnsavedError(
                f"{error.message}; this error's .results holds every row, the unsaved one last",
                results=self.results,
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        state: State = "finished"
        if error is not None:
            state = "cancelled" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
        self.results = msgspec.structs.replace(self.results, state=state)
        try:
            self._store.mark(self._sweep_id, state)
        except LabError as unwritten:
            if error is None:
                raise ResultUnsavedError(unwritten.message, results=self.results) from unwritten
            error.add_note(f"its state could not be written either: {unwritten}")
        if error is not None:
            count = len(self.results.rows)
            error.add_note(
                f"sweep {self._sweep_id} is {state}: {count} trials are in {self._store.place}; "
                "run(resume=True), or --resume, measures what is missing"
            )


def _distinct(driver: DriverFacts | None, factor: Factor) -> Levels | None:
    """Levels of a setting that the rig's driver tells apart; None for what no driver knows."""
    if driver is None or factor.name not in SETTING_NAMES:
        return None
    return distinct_levels(driver, factor.name, factor.levels)


def _varied(workload: Workload, levels: Mapping[str, Scalar]) -> Workload:
    changes: dict[str, Any] = {name: level for name, level in levels.items() if name not in SETTING_NAMES}
    if "frame_bytes" in changes:
        changes["flow"] = workload.flow.with_frame_bytes(changes.pop("frame_bytes"))
    return msgspec.structs.replace(workload, **changes)


def _description(workload: Workload) -> dict[str, Any]:
    parts = msgspec.structs.asdict(workload)
    return {**parts, "flow": workload.flow.describe()}
