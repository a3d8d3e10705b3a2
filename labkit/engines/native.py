"""What the native engines share: frames in, the native report out as a record."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import TypeAlias

from labkit import _native
from labkit.engines.base import EndedBy, EngineConfig, EngineReport, check, explained
from labkit.engines.priority import real_time
from labkit.errors import errno_name
from labkit.records import Frames

Loop: TypeAlias = Callable[..., _native.TxReport]


class NativeEngine:
    """What most engines do alike; a subclass names itself and its loop."""

    name: str
    default_batch: int
    max_batch: int
    loop: Loop

    def usual_batch(self, frames: Frames) -> int:  # noqa: ARG002 - frames matter to gso alone
        """Frames a call when the workload names none."""
        return self.default_batch

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what is wrong with a request whatever the kernel would say."""
        check(self.name, self.max_batch, frames, config)

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says."""
        self.check(frames, config)
        return run_native(self.name, self.loop, frames, config, stop, progress)


def run_native(
    name: str,
    loop: Loop,
    frames: Frames,
    config: EngineConfig,
    stop: _native.StopFlag,
    progress: _native.Progress,
    reasons: Mapping[int, str] | None = None,
) -> EngineReport:
    """Send with the GIL released, and report; `reasons` as `explained` takes them."""
    table = _native.FrameTable(frames.block, frames.offsets, frames.lengths)
    with real_time(name, config.realtime_priority), explained(name, config.ifindex, reasons):
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
            stamp=config.stamp,
        )
    return _record(report)


def _record(report: _native.TxReport) -> EngineReport:
    fatal = report.fatal_errno
    return EngineReport(
        sent=report.sent,
        refused=report.refused,
        refused_by_errno={errno_name(number): calls for number, calls in report.refused_by_errno.items()},
        super_packets=report.super_packets,
        partial_returns=report.partial_returns,
        calls=report.calls,
        start_ns=report.start_ns,
        end_ns=report.end_ns,
        cpu_ns=report.cpu_ns,
        involuntary_switches=report.involuntary_switches,
        qdisc_bypass=report.qdisc_bypass,
        fatal_errno=None if fatal is None else errno_name(fatal),
        ended_by=typing.cast(EndedBy, report.ended_by),
        gaps=report.gaps,
        burst_frames=report.burst_frames,
    )
