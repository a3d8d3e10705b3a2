"""Whether a run's independent counts agree: packets by place, or the bytes of a stream at both ends. Pure."""

from __future__ import annotations

from labkit.agent.protocol import Measured
from labkit.counters.reconcile import Counts, difference_reason, reconciled
from labkit.engines.base import EngineReport
from labkit.rigs.peer_counter import PeerRule
from labkit.rigs.pktgen_view import ended_early
from labkit.rigs.streams import byte_counted, stream_difference, stream_reconciled


def agreement(counts: Counts, report: EngineReport) -> bool | None:
    """Whether everything is accounted for; None where a count is missing."""
    if report.stream is not None and byte_counted(report):
        return stream_reconciled(report.stream)
    return reconciled(counts)


def difference(counts: Counts, measured: Measured, rule: PeerRule) -> str | None:
    """Where the counts part, in words; None where they agree."""
    report = measured.report
    if report.stream is not None and byte_counted(report):
        return stream_difference(report, report.stream)
    return difference_reason(
        counts,
        refused_by_errno=report.refused_by_errno,
        fatal_errno=report.fatal_errno,
        ended_early=ended_early(report),
        carrier=measured.carrier,
        peer_note=rule.note,
    )


def segments(report: EngineReport) -> int | None:
    """Frames that larger packets carried: as the engine cut them, or as the kernel tells of a stream."""
    if report.stream is not None:
        return report.stream.data_segments
    return None if report.super_packets is None else report.sent
