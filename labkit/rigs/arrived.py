"""What a receiving sink saw as a trial tells it: losses, disorder, latency. Pure."""

from __future__ import annotations

from typing import Any, Final

from labkit.agent.sink_records import Arrived
from labkit.engines.base import EngineReport
from labkit.engines.pacing import quantile_ns

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def sink_told(arrived: Arrived | None, report: EngineReport, engine_sent: int | None) -> dict[str, Any]:
    """What stands under ``environment["sink"]`` of a trial; None is what a sink that receives cannot tell.

    A super-packet that arrived whole has one number for many frames, so that losses are not told.
    """
    if arrived is None:
        return {}
    latency, note = latency_of(arrived, report)
    told = {
        "received": arrived.received,
        "lost": lost(arrived, report) if engine_sent == report.sent else None,
        "duplicates": arrived.duplicates,
        "reordered": arrived.reordered,
        "beyond_window": arrived.beyond_window,
        "corrupted": arrived.corrupted,
        "foreign": arrived.foreign,
        "kernel_dropped": arrived.kernel_dropped,
        "latency_ns": latency,
        "latency_note": note,
        "by_socket": arrived.by_socket,
        "cpus": arrived.cpus,
        "cpu_ns": arrived.cpu_ns,
        "drained": arrived.drained,
    }
    return {"sink": told}


def lost(arrived: Arrived, report: EngineReport) -> int | None:
    """Running numbers that were sent and never came uncorrupted; None where frames carry none."""
    handed_over = report.attempted if report.sent is None else report.sent
    if arrived.distinct is None or handed_over is None:
        return None
    return max(0, handed_over - arrived.distinct)


def latency_of(arrived: Arrived, report: EngineReport) -> tuple[dict[str, int] | None, str | None]:
    """Quantiles of the time from due to seen in nanoseconds, or why there are none.

    A quantile is the middle of the bucket in which it lies, at most 3.2 % off, and never above the maximum.
    """
    if arrived.latency_note is not None:
        return None, arrived.latency_note
    if report.partial_returns:
        return None, "some calls took a part of their batch, so that nobody knows which frames left together"
    most_ns = arrived.latency_most_ns
    found = {name: quantile_ns(arrived.latency_ns, share) for name, share in QUANTILES.items()}
    known = {name: round(ns) for name, ns in found.items() if ns is not None}
    if most_ns is None or not known:
        return None, "no frame arrived"
    return {**{name: min(ns, most_ns) for name, ns in known.items()}, "max": most_ns}, None
