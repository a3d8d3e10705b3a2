"""Repeats of each point as one number with its interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from labkit.errors import WorkloadError
from labkit.factors import Scalar
from labkit.records import Gap, Trial, caveat_of

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 2000
STAGES: Final = ("accepted", "effective")


class RowLike(Protocol):
    """A trial and the levels it was asked to run at."""

    @property
    def levels(self) -> Mapping[str, Scalar]:
        """Asked level of each factor."""
        ...

    @property
    def trial(self) -> Trial:
        """What was measured."""
        ...


class GapLike(Protocol):
    """A place where nothing could be measured."""

    @property
    def levels(self) -> Mapping[str, Scalar]:
        """Asked level of each factor."""
        ...

    @property
    def gap(self) -> Gap:
        """Why."""
        ...


class ResultsLike(Protocol):
    """What `labkit.results.results.Results` holds, as far as numbers are made of it."""

    @property
    def factors(self) -> Mapping[str, Sequence[Scalar]]:
        """Levels of each factor."""
        ...

    @property
    def rows(self) -> Sequence[RowLike]:
        """Trials."""
        ...

    @property
    def gaps(self) -> Sequence[GapLike]:
        """What could not be measured."""
        ...


def caveat(results: ResultsLike) -> str | None:
    """What has to be said of any of the trials (`labkit.records.caveat_of`)."""
    found = {caveat_of(row.trial.environment) for row in results.rows}
    return " and ".join(sorted(each for each in found if each is not None)) or None


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Repeats of one value: `mean` with its 95 % interval, which a single repeat doesn't have.

    The interval is the median's where `estimate` was asked for that.
    """

    n: int
    mean: float
    median: float
    low: float | None
    high: float | None


class PointSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a sweep.

    Attributes
    ----------
    levels : dict of str to scalar
        Levels it was summed up by.
    turned : dict of str to str
        What the device made of a level where that is another value (``accepted 1008``), by factor.
    estimate : Estimate or None
        None when no unmarked trial has the value.
    marked : int
        Trials left out because they are marked (`labkit.records.Mark`).
    reason : str or None
        Why trials are missing or left out; None when none is.
    """

    levels: dict[str, Scalar]
    turned: dict[str, str]
    estimate: Estimate | None
    marked: int
    reason: str | None


def estimate(
    values: Iterable[float], *, of: Literal["mean", "median"] = "mean", seed: int = 0
) -> Estimate | None:
    """Mean, median and 95 % percentile-bootstrap interval of the one `of` names; None without a finite value.

    Percentile bootstrap with 2000 resamples: B. Efron, R. Tibshirani, An Introduction to the
    Bootstrap (1993), chapter 13.
    """
    import numpy as np

    sample = np.array([value for value in values if math.isfinite(value)], dtype=float)
    if not sample.size:
        return None
    low = high = None
    if sample.size > 1:
        drawn = np.random.Generator(np.random.PCG64(seed)).choice(sample, (RESAMPLES, sample.size))
        tail = (1 - CONFIDENCE) / 2
        middles = np.median(drawn, axis=1) if of == "median" else drawn.mean(axis=1)
        low, high = (float(edge) for edge in np.quantile(middles, (tail, 1 - tail)))
    middle = float(np.median(sample))
    return Estimate(n=sample.size, mean=float(sample.mean()), median=middle, low=low, high=high)


def summarise(
    results: ResultsLike, by: Sequence[str] = (), value: str = "pps", *, seed: int = 0
) -> tuple[PointSummary, ...]:
    """One summary a point, in the order of the factors' levels.

    Parameters
    ----------
    results : ResultsLike
        What a sweep measured.
    by : sequence of str
        Factors that tell points apart, all of them by default; ``NAME_accepted`` and
        ``NAME_effective`` take the value the device read back or the hardware does.
    value : str
        A number of the trial record, such as ``pps`` or ``ns_per_packet``.
    seed : int
        Seed of the bootstrap.

    Raises
    ------
    WorkloadError
        No such factor or number; or a factor outside `by` varies, so that points would be mixed.
    """
    names = tuple(by) or tuple(results.factors)
    _refuse_unknown(results, names, value)
    rows: dict[tuple[Scalar, ...], list[Trial]] = {}
    for row in results.rows:
        rows.setdefault(tuple(_level(name, row.levels, row.trial) for name in names), []).append(row.trial)
    gaps: dict[tuple[Scalar, ...], list[str]] = {}
    for miss in results.gaps:
        key = tuple(_level(name, miss.levels, None) for name in names)
        gaps.setdefault(key, []).append(miss.gap.reason)
    order = {name: list(results.factors[_factor(name)]) for name in names}
    keys = sorted(rows | gaps, key=lambda key: _place(key, names, order))
    return tuple(_summary(names, key, rows.get(key, []), gaps.get(key, []), value, seed) for key in keys)


def summary_frame(
    results: ResultsLike, by: Sequence[str] = (), value: str = "pps", *, seed: int = 0
) -> pd.DataFrame:
    """A pandas table of `summarise`: factors, n, mean, median, low, high, marked, reason, turned."""
    import pandas as pd

    numbers = ("mean", "median", "low", "high")
    return pd.DataFrame(
        {
            **point.levels,
            "n": point.estimate.n if point.estimate else 0,
            **{name: _finite_or_nan(getattr(point.estimate, name, None)) for name in numbers},
            "marked": point.marked,
            "reason": point.reason,
            "turned": "; ".join(f"{name} {words}" for name, words in point.turned.items()) or None,
        }
        for point in summarise(results, by, value, seed=seed)
    )


def turned_text(asked: Scalar, accepted: Scalar, effective: Scalar) -> str:
    """Say what the device made of an asked level (``accepted 1008``); empty where it is in force as asked."""
    words = [f"accepted {accepted}"] if accepted not in (None, asked) else []
    other = isinstance(effective, float) and effective not in (accepted, asked)
    return ", ".join([*words, *([f"effective {effective:g}"] if other else [])])


def _finite_or_nan(number: float | None) -> float:
    """Word of pandas for absent; a column of None alone would hold objects, which cannot be formatted."""
    return math.nan if number is None else number


def _refuse_unknown(results: ResultsLike, names: Sequence[str], value: str) -> None:
    factors = ", ".join(results.factors) or "none"
    for name in names:
        if _factor(name) not in results.factors:
            raise WorkloadError(f"summary: {name!r} is no factor of these results; factors are {factors}")
    if value not in NUMBERS:
        raise WorkloadError(f"summary: {value!r} is no number of a trial; there are {', '.join(NUMBERS)}")
    covered = {_factor(name) for name in names}
    for other, levels in results.factors.items():
        if other not in covered and len(levels) > 1:
            raise WorkloadError(
                f"summary: {other} varies too ({levels}); choose a level with results.only({other}=...)"
            )


def _factor(name: str) -> str:
    base, _, stage = name.rpartition("_")
    return base if stage in STAGES else name


def _level(name: str, levels: Mapping[str, Scalar], trial: Trial | None) -> Scalar:
    base = _factor(name)
    if name == base or trial is None:
        return levels[base]  # a gap has no value but the asked one
    stage: dict[str, Scalar] = getattr(trial, f"settings_{name.rpartition('_')[2]}")
    return stage.get(base)


def _place(key: tuple[Scalar, ...], names: Sequence[str], order: Mapping[str, list[Scalar]]) -> list[Any]:
    """Sort by the plan's order; values that the driver chose come after it, by size."""
    return [
        (0, order[name].index(level), "") if level in order[name] else (1, *_size(level))
        for name, level in zip(names, key, strict=True)
    ]


def _size(level: Scalar) -> tuple[float, str]:
    return (float(level), "") if isinstance(level, int | float) else (math.inf, str(level))


def _summary(
    names: Sequence[str],
    key: tuple[Scalar, ...],
    trials: Sequence[Trial],
    gap_reasons: Sequence[str],
    value: str,
    seed: int,
) -> PointSummary:
    sound = [trial for trial in trials if not trial.marks]
    marks = Counter(mark for trial in trials for mark in trial.marks)
    values = [getattr(trial, value) for trial in sound]
    absent = values.count(None)
    reasons = list(dict.fromkeys(gap_reasons))
    levels = dict(zip(names, key, strict=True))
    if marks:
        told = ", ".join(f"{mark} ({count})" for mark, count in marks.items())
        reasons.append(f"{len(trials) - len(sound)} of {len(trials)} trials left out: {told}")
    if absent:
        reasons.append(f"{value} is absent in {absent} of {len(sound)} trials")
    return PointSummary(
        levels=levels,
        turned=_turned(levels, trials),
        estimate=estimate([number for number in values if number is not None], seed=seed),
        marked=len(trials) - len(sound),
        reason="; ".join(reasons) or None,
    )


def _turned(levels: Mapping[str, Scalar], trials: Sequence[Trial]) -> dict[str, str]:
    """Words of `turned_text` by factor; each once, should repeats differ."""
    told = {}
    for name, asked in levels.items():
        in_force = [
            (trial.settings_accepted.get(name), trial.settings_effective.get(name)) for trial in trials
        ]
        texts = dict.fromkeys(turned_text(asked, *values) for values in in_force)
        told[name] = " or ".join(text for text in texts if text)
    return {name: text for name, text in told.items() if text}


NUMBERS: Final = tuple(
    field.name
    for field in msgspec.structs.fields(Trial)
    if field.type in {int, float, int | None, float | None} and field.name != "schema_version"
)
"""Fields of a trial that can be averaged."""
