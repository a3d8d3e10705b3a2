"""How a run's rate moves within the run: a throughput that swings between 500 and 700 has a mean of 600."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np

from labkit.errors import LabError
from labkit.records import Sample, Trial
from labkit.units import ns_to_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

Points: TypeAlias = Sequence[tuple[int, int]]
"""Nanoseconds since the run's start, and what was counted by then."""

FEWEST: Final = 8
"""Intervals behind the first that a spread needs."""
LOW_PERCENT, HIGH_PERCENT = 5.0, 95.0
LEAST_LIKENESS: Final = 0.3
NOISE: Final = 3.0
"""A period is believed where the series is as like itself, one period later, as noise is not: correlations of
white noise spread by 1 / sqrt(n) (Bartlett), and there are many lags to look at."""
COUNTERS: Final = ("peer_received", "device_sent", "engine_sent")


class Oscillation(msgspec.Struct, frozen=True, kw_only=True):
    """How the rates of a run's intervals spread, and whether they go up and down in time.

    Attributes
    ----------
    unit : str
        Of the rates: ``Mbit/s`` of a stream's bytes, ``frames/s`` of counted frames.
    interval_s : float
        Median length of an interval.
    rates : tuple of float
        Each interval's, in order; the first interval of the run, its start, is left out.
    median, low, high : float
        Median, 5 % and 95 % point of the rates.
    swing : float or None
        (high - low) / median; None where the median is 0.
    variation : float or None
        Coefficient of variation: standard deviation over mean.
    period_s : float or None
        Time after which the rates repeat, by their autocorrelation, once a steady trend is taken out; None
        where nothing repeats at least twice within the run and clearly above noise.
    turns : int
        How often the rate's direction changed: every second interval or more where it is mere noise.
    """

    unit: str
    interval_s: float
    rates: tuple[float, ...]
    median: float
    low: float
    high: float
    swing: float | None
    variation: float | None
    period_s: float | None
    turns: int

    def text(self) -> str:
        """One line for people."""
        low, median, high = (f"{rate:,.0f}".replace(",", " ") for rate in (self.low, self.median, self.high))
        spread = "" if self.swing is None else f": {self.swing:.0%} of the median"
        period = "no period" if self.period_s is None else f"a period of {self.period_s:.3g} s"
        return (
            f"median {median} {self.unit}, 5 % of the intervals below {low}, 5 % above {high}{spread}; "
            f"{self.turns} turns in {len(self.rates)} intervals of {self.interval_s * 1000:.3g} ms, {period}"
        )


def oscillation(trial: Trial) -> Oscillation:
    """How the rate moved within one run: a stream's bytes where they were counted, else its samples' frames.

    Raises
    ------
    LabError
        Too few intervals, or none at all.
    """
    stream = trial.environment.get("tcp")
    intervals = stream.get("intervals") if isinstance(stream, dict) else None
    if intervals:
        return oscillation_of([(at, count) for at, count in intervals], unit="Mbit/s", scale=8 / 1e6)
    return oscillation_of(_sampled(trial.samples), unit="frames/s")


def oscillation_of(points: Points, *, unit: str, scale: float = 1.0) -> Oscillation:
    """The same of any count over time; a rate is `scale` times the count's a second."""
    lengths, rates = _rates(points)
    if len(rates) < FEWEST:
        raise LabError(
            f"oscillation: {len(rates)} whole intervals behind the first, and a spread needs {FEWEST}; "
            "take a longer run, of a second or more"
        )
    rates = rates * scale
    low, median, high = (float(each) for each in np.percentile(rates, [LOW_PERCENT, 50, HIGH_PERCENT]))
    interval_s, mean = float(np.median(lengths)), float(np.mean(rates))
    lag = _period(rates)
    return Oscillation(
        unit=unit,
        interval_s=interval_s,
        rates=tuple(float(rate) for rate in rates),
        median=median,
        low=low,
        high=high,
        swing=(high - low) / median if median > 0 else None,
        variation=float(np.std(rates, ddof=1)) / mean if mean > 0 else None,
        period_s=None if lag is None else lag * interval_s,
        turns=_turns(rates),
    )


def _sampled(samples: Sequence[Sample]) -> Points:
    """Counts by the first of `COUNTERS` that every sample has and that moves."""
    for name in COUNTERS:
        counts = [getattr(sample, name) for sample in samples]
        if counts and None not in counts and any(counts):
            return [(sample.at_ns, count) for sample, count in zip(samples, counts, strict=True)]
    return []


def _rates(points: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of each interval but the first, and its count a second; a cut-off one is left out."""
    steps = [
        (later_ns - at_ns, later - count)
        for (at_ns, count), (later_ns, later) in pairwise([(0, 0), *points])
        if later_ns > at_ns
    ][1:]
    if not steps:
        return np.empty(0), np.empty(0)
    lengths = np.array([ns_to_seconds(length) for length, _ in steps])
    whole = lengths >= np.median(lengths) / 2
    counts = np.array([count for _, count in steps], dtype=np.float64)
    return lengths[whole], counts[whole] / lengths[whole]


def _period(rates: NDArray[np.float64]) -> int | None:
    """Intervals after which the rates are most like themselves; None where that is not clearly so.

    The straight line through the rates is taken out first. Candidates lie behind the first lag at which the
    rates are unlike themselves, and up to half of the series: two periods are to be seen.
    """
    n = len(rates)
    places = np.arange(n)
    left = rates - np.polyval(np.polyfit(places, rates, 1), places)
    power = float(left @ left)
    if power <= (1e-9 * float(np.abs(rates).max())) ** 2 * n:
        return None
    likeness = np.array([float(left[: n - lag] @ left[lag:]) / power for lag in range(n // 2 + 1)])
    unlike = np.flatnonzero(likeness < 0)
    if not unlike.size:
        return None
    lag = int(unlike[0] + np.argmax(likeness[unlike[0] :]))
    return lag if likeness[lag] >= max(LEAST_LIKENESS, NOISE / np.sqrt(n)) else None


def _turns(rates: NDArray[np.float64]) -> int:
    moves = np.diff(rates)
    signs = np.sign(moves[moves != 0])
    return int(np.count_nonzero(signs[1:] != signs[:-1]))
