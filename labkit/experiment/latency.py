"""One-way latency below the rate that a rig can take: at saturation it would be that of the queues alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from labkit.errors import LabError, WorkloadError
from labkit.experiment.trial import run_trial
from labkit.factors import Settings
from labkit.records import Trial, Workload
from labkit.rigs.base import Rig
from labkit.units import rate_pps

SHARES: Final = (0.1, 0.5, 0.9)
"""Parts of the found rate that a latency is measured at."""
TIMING_SINKS: Final = ("rx_ring", "socket")
"""Sinks that look at the time when a frame reaches them."""
PERCENTILES: Final = ("p50", "p90", "p99", "p99.9", "p99.99", "max")


class LatencyPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Latency at one load.

    Attributes
    ----------
    share : float
        Part of the found rate that was asked for.
    asked_pps : float
        The same as packets per second.
    latency_ns : dict of str to int or None
        Nanoseconds by percentile, each frame counted from when it was due; None where it was not measured.
    reason : str or None
        Why there is no latency, or why to doubt it.
    trial : Trial
        The run.
    """

    share: float
    asked_pps: float
    latency_ns: dict[str, int] | None
    reason: str | None
    trial: Trial


class LatencyAtLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies at parts of the rate that was found.

    Attributes
    ----------
    found_pps : float
        Packets per second that arrived when nothing was paced.
    found : Trial
        That run.
    points : tuple of LatencyPoint
        One a load, in the order asked for.
    """

    found_pps: float
    found: Trial
    points: tuple[LatencyPoint, ...]


def latency_at_load(
    rig: Rig,
    workload: Workload,
    *,
    shares: Sequence[float] = SHARES,
    settings: Settings | None = None,
    duration_s: float = 1.0,
    measure: Callable[..., Trial] = run_trial,
) -> LatencyAtLoad:
    """Find the rate that arrives unpaced, then measure latency at `shares` of it.

    Frames are stamped, and a frame's latency counts from when it was due: a sender that fell behind adds its
    delay to every frame that it delayed (G. Tene's "coordinated omission" is what leaves that out).

    Parameters
    ----------
    rig : Rig
        Where.
    workload : Workload
        What; its sink is one of `TIMING_SINKS`, its own rate and stamp are replaced.
    shares : sequence of float
        Parts of the found rate, each above 0 and below 1.
    settings : mapping or None
        Settings for all of it.
    duration_s : float
        Length of each run in seconds.
    measure : callable
        `labkit.experiment.trial.run_trial`, or what a test puts in its place.

    Raises
    ------
    WorkloadError
        A sink that looks at no time, or a share that is no load below saturation.
    LabError
        Nothing arrived unpaced.
    """
    if workload.sink not in TIMING_SINKS:
        raise WorkloadError(
            f"latency: sink {workload.sink!r} looks at no frame's time; take one of {', '.join(TIMING_SINKS)}"
        )
    for share in shares:
        if not (math.isfinite(share) and 0 < share < 1):
            raise WorkloadError(f"latency: share {share!r}: give parts of the found rate between 0 and 1")
    length = {"settings": settings, "duration_s": duration_s}
    stamped = msgspec.structs.replace(workload, stamp=True, rate_pps=None)
    found = measure(rig, stamped, **length)
    if not found.peer_received or not found.elapsed_ns:
        raise LabError(f"latency: nothing arrived unpaced ({found.difference_reason or 'no reason told'})")
    found_pps = rate_pps(found.peer_received, found.elapsed_ns)
    if found_pps is None:
        raise LabError("latency: the unpaced run took no time; give it a longer duration_s")
    points = []
    for share in shares:
        asked_pps = share * found_pps
        trial = measure(rig, msgspec.structs.replace(stamped, rate_pps=asked_pps), **length)
        points.append(_point(share, asked_pps, trial))
    return LatencyAtLoad(found_pps=found_pps, found=found, points=tuple(points))


def _point(share: float, asked_pps: float, trial: Trial) -> LatencyPoint:
    seen = trial.environment.get("sink") or {}
    reasons = [seen.get("latency_note")] if seen.get("latency_ns") is None else []
    reasons += [f"marked {', '.join(trial.marks)}"] if trial.marks else []
    return LatencyPoint(
        share=share,
        asked_pps=asked_pps,
        latency_ns=seen.get("latency_ns"),
        reason="; ".join(reason for reason in reasons if reason) or None,
        trial=trial,
    )
