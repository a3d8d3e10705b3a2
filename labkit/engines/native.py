"""What the native engines share: frames in, the native report out as a record."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import TypeAlias

from labkit import _native
from labkit.engines.base import EndedBy, EngineConfig, EngineReport, check, explained
from labkit.errors import errno_name
from labkit.records import Frames

Loop: TypeAlias = Callable[..., _native.TxReport]


def run_native(
    name: str,
    loop: Loop,
    max_batch: int,
    frames: Frames,
    config: EngineConfig,
    stop: _native.StopFlag,
    progress: _native.Progress,
) -> EngineReport:
    """Check, send with the GIL released, and report."""
    check(name, max_batch, frames, config)
    table = _native.FrameTable(frames.block, frames.offsets, frames.lengths)
    with explained(name, config.ifindex):
        report = loop(
            table,
            stop,
            progress,
            ifindex=config.ifindex,
            batch=config.batch,
            count=config.count,
            duration_ns=config.duration_ns,
            rate_pps=config.rate_pps,
            cpu=config.cpu,
            qdisc_bypass=config.qdisc_bypass,
        )
    return _record(report)


def _record(report: _native.TxReport) -> EngineReport:
    fatal = report.fatal_errno
    return EngineReport(
        sent=report.sent,
        refused=report.refused,
        refused_by_errno={errno_name(number): calls for number, calls in report.refused_by_errno.items()},
        partial_returns=report.partial_returns,
        calls=report.calls,
        start_ns=report.start_ns,
        end_ns=report.end_ns,
        cpu_ns=report.cpu_ns,
        involuntary_switches=report.involuntary_switches,
        qdisc_bypass=report.qdisc_bypass,
        fatal_errno=None if fatal is None else errno_name(fatal),
        ended_by=typing.cast(EndedBy, report.ended_by),
    )
