"""The slow, obvious twins of the native engines: what those must do, in Python.

They make the same system calls in the same order; the same tests hold both.
"""

from __future__ import annotations

import errno as errno_names
import os
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from labkit._native import Progress, StopFlag
from labkit.engines.base import MAX_BATCH, Engine, EngineConfig, EngineReport, check, explained
from labkit.engines.pacing import exact_timers, is_even
from labkit.engines.priority import real_time
from labkit.engines.reference_calls import SOL_PACKET, Caller, send_call, sendmmsg_call
from labkit.engines.reference_gso import gso_call
from labkit.engines.reference_loop import Loop
from labkit.engines.reference_ring import ring_call
from labkit.engines.ring_geometry import no_memory, ring_geometry
from labkit.engines.super_packets import MAX_SEGMENTS, check_gso, no_super_packet, usual_segments
from labkit.records import Frames

# linux/socket.h, linux/if_packet.h, asm-generic/socket.h: not in Python's socket module
PACKET_QDISC_BYPASS: Final = 20
SO_SNDBUFFORCE: Final = 32
SEND_BUFFER_BYTES: Final = 4 << 20
SEND_TIMEOUT_US: Final = 4_000


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """How one twin differs from the others."""

    name: str
    default_batch: int
    max_batch: int
    caller: Caller
    check: Callable[[Frames, EngineConfig], None]
    reasons: Callable[[Frames, EngineConfig], Mapping[int, str]] = lambda _frames, _config: {}
    whole: bool = False


class _Twin:
    """What the twins share: socket, pin, loop, report."""

    def __init__(self, kind: _Kind) -> None:
        self._kind = kind
        self.name, self.default_batch, self.max_batch = kind.name, kind.default_batch, kind.max_batch

    def usual_batch(self, frames: Frames) -> int:
        """Frames a call when the workload names none."""
        return usual_segments(self.default_batch, frames) if self._kind.whole else self.default_batch

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what is wrong with a request whatever the kernel would say."""
        check(self.name, self.max_batch, frames, config)
        self._kind.check(frames, config)

    def run(self, frames: Frames, config: EngineConfig, stop: StopFlag, progress: Progress) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says."""
        self.check(frames, config)
        kind = self._kind
        with (
            real_time(self.name, config.realtime_priority),
            explained(self.name, config.ifindex, kind.reasons(frames, config)),
            _opened(config.ifindex) as sock,
            _pinned(config.cpu),
            exact_timers(wanted=is_even(config.rate_pps)),
            kind.caller(sock, frames, config) as call,
        ):
            bypass = config.qdisc_bypass and _bypassed(sock)
            switches, cpu_ns = _involuntary_switches(), time.thread_time_ns()
            loop = Loop(frames, config, call, whole=kind.whole)
            ended_by = loop.run(stop, progress)
            progress.store(loop.sent, loop.refused)
            return EngineReport(
                sent=loop.sent,
                refused=loop.refused,
                refused_by_errno=dict(loop.by_errno),
                super_packets=loop.taking_calls if kind.whole else None,
                partial_returns=loop.partial_returns,
                calls=loop.calls,
                start_ns=loop.start_ns,
                end_ns=loop.end_ns,
                cpu_ns=time.thread_time_ns() - cpu_ns,
                involuntary_switches=_involuntary_switches() - switches,
                qdisc_bypass=bypass,
                fatal_errno=loop.fatal_errno,
                ended_by=ended_by,
                gaps=loop.gaps,
                burst_frames=loop.burst_frames,
            )


def twins() -> tuple[Engine, ...]:
    """Give the twin of each native engine, under its name."""

    def nothing_more(_frames: Frames, _config: EngineConfig) -> None:
        pass

    def ring(frames: Frames, config: EngineConfig) -> None:
        ring_geometry(frames, config)

    kinds = (
        _Kind(name="send", default_batch=1, max_batch=1, caller=send_call, check=nothing_more),
        _Kind(
            name="sendmmsg", default_batch=64, max_batch=MAX_BATCH, caller=sendmmsg_call, check=nothing_more
        ),
        _Kind(
            name="tx_ring",
            default_batch=256,
            max_batch=MAX_BATCH,
            caller=ring_call,
            check=ring,
            reasons=lambda frames, config: {
                errno_names.ENOMEM: no_memory(ring_geometry(frames, config), config.batch)
            },
        ),
        _Kind(
            name="gso",
            default_batch=64,
            max_batch=MAX_SEGMENTS,
            caller=gso_call,
            check=check_gso,
            reasons=lambda _, config: {errno_names.EINVAL: no_super_packet(config.batch)},
            whole=True,
        ),
    )
    return tuple(map(_Twin, kinds))


@contextmanager
def _opened(ifindex: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((socket.if_indextoname(ifindex), 0))
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, SEND_TIMEOUT_US))
        yield sock


def _bypassed(sock: socket.socket) -> bool:
    try:
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
    except OSError:
        return False
    return True


@contextmanager
def _pinned(cpu: int | None) -> Iterator[None]:
    if cpu is None:
        yield
        return
    allowed = os.sched_getaffinity(0)
    if cpu not in allowed:
        raise ValueError(f"CPU {cpu} is not allowed here; allowed: {sorted(allowed)}")
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _involuntary_switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
