"""What a paced run kept of its rate, and how evenly its frames left. Pure."""

from __future__ import annotations

from typing import Any, Final

from labkit.counters.reconcile import Counts
from labkit.engines.base import EngineReport
from labkit.engines.pacing import quantile_ns
from labkit.units import ns_to_seconds, rate_pps

RATE_TOLERANCE: Final = 0.001
"""Share of a second's frames that may be missing or too many. A run shorter than a second may miss as many:
what misses them is a wait for the CPU at its end, which is a time (1 ms) and no share."""


def rate_missed(asked_pps: float | None, report: EngineReport, counts: Counts) -> bool:
    """Whether a paced run sent other than its rate says, beyond the tolerance."""
    if asked_pps is None:
        return False
    seconds = ns_to_seconds(report.elapsed_ns)
    due = asked_pps * seconds
    # frames are whole: one more or less is no miss, but a run shorter than two slots shows no rate
    allowed = max(min(_slack(report), due / 2), RATE_TOLERANCE * asked_pps * max(1, seconds))
    return abs((_frames(report, counts) or 0) - due) > allowed


def pacing(asked_pps: float | None, report: EngineReport, counts: Counts) -> dict[str, Any]:
    """Of a paced run the gaps between its calls, its longest burst, and both rates; else nothing.

    Gaps come in buckets of a sixteenth of an octave; one is told by the geometric middle of its bucket, at
    most 3.2 % off.
    """
    if asked_pps is None or report.gaps is None:
        return {}
    frames = _frames(report, counts)
    return {
        "pacing": {
            "gap_p50_ns": _whole(quantile_ns(report.gaps, 0.5)),
            "gap_p99_ns": _whole(quantile_ns(report.gaps, 0.99)),
            "burst_frames": report.burst_frames,
            "asked_pps": asked_pps,
            "achieved_pps": None if frames is None else rate_pps(frames, report.elapsed_ns),
        }
    }


def _slack(report: EngineReport) -> float:
    """Frames that a whole run may have too many: the first one's slot begins with it, and none ends it.

    Each of pktgen's devices sends its first two bursts at once (pktgen_xmit waits behind the second alone).
    """
    return 1.5 if report.pktgen is None else 2.5 * report.pktgen.burst * len(report.pktgen.devices)


def _frames(report: EngineReport, counts: Counts) -> int | None:
    """Frames that left: the rate is of frames where the device counts super-packets."""
    if report.sent is not None and counts.engine_sent != report.sent:
        return report.sent
    return counts.device_sent


def _whole(ns: float | None) -> int | None:
    return None if ns is None else round(ns)
