"""The slow, obvious twins of the native engines: what those must do, in Python.

They make the same system calls in the same order; the same tests hold both.
"""

from __future__ import annotations

import ctypes
import errno as errno_names
import os
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from labkit._native import Progress, StopFlag
from labkit.engines.base import (
    FATAL_ERRNOS,
    MAX_BATCH,
    EndedBy,
    Engine,
    EngineConfig,
    EngineReport,
    check,
    explained,
)
from labkit.engines.pacing import Pacer, wait_until
from labkit.errors import errno_name
from labkit.records import Frames

Call: TypeAlias = Callable[[list[bytes]], int]
"""Hands frames to the kernel; returns how many it took, or raises OSError when it refused the first."""

# linux/socket.h, linux/if_packet.h, asm-generic/socket.h: not in Python's socket module
SOL_PACKET: Final = 263
PACKET_QDISC_BYPASS: Final = 20
SO_SNDBUFFORCE: Final = 32
SEND_BUFFER_BYTES: Final = 4 << 20
SEND_TIMEOUT_US: Final = 4_000


class _Loop:
    """One run: where it is in the table and what happened so far."""

    def __init__(self, frames: Frames, config: EngineConfig, call: Call) -> None:
        self._frames = [frames.frame(index) for index in range(len(frames))]
        self._config = config
        self._call = call
        self.sent = self.refused = self.partial_returns = self.calls = 0
        self.by_errno: Counter[str] = Counter()
        self.fatal_errno: str | None = None
        self.start_ns = self.end_ns = time.monotonic_ns()

    def run(self, stop: StopFlag, progress: Progress) -> EndedBy:
        pacer = Pacer(self._config.rate_pps, self.start_ns, self._config.batch)
        duration_ns = self._config.duration_ns
        deadline_ns = None if duration_ns is None else self.start_ns + duration_ns
        ended = self._until_ended(pacer, deadline_ns, stop, progress)
        if self._config.rate_pps is not None and ended != "error":
            # the last frame takes its slot like every other: 10 frames at 10 a second last a second
            if ended == "count":
                wait_until(pacer.due_ns if deadline_ns is None else min(pacer.due_ns, deadline_ns), stop)
            self.end_ns = time.monotonic_ns()
        return ended

    def _until_ended(
        self, pacer: Pacer, deadline_ns: int | None, stop: StopFlag, progress: Progress
    ) -> EndedBy:
        while self._left(MAX_BATCH) > 0:
            due_ns = pacer.due_ns
            wait_until(due_ns if deadline_ns is None else min(due_ns, deadline_ns), stop)
            if stop.is_set():
                return "stop"
            if deadline_ns is not None and max(due_ns, time.monotonic_ns()) >= deadline_ns:
                return "duration"
            done = self._attempt(self._left(pacer.burst))
            self.end_ns = time.monotonic_ns()
            if self.fatal_errno is not None:
                return "error"
            pacer.took(done, self.end_ns)
            progress.store(self.sent, self.refused)
        return "count"

    def _left(self, most: int) -> int:
        count = self._config.count
        return most if count is None else min(most, count - self.sent - self.refused)

    def _attempt(self, asked: int) -> int:
        """One call from the next unsent frame; returns how many frames are done with, sent or refused."""
        first = self.sent + self.refused
        batch = [self._frames[index % len(self._frames)] for index in range(first, first + asked)]
        self.calls += 1
        try:
            taken = self._call(batch)
        except OSError as error:
            return self._refuse(error.errno or 0)
        self.sent += taken
        self.partial_returns += taken < asked
        return taken

    def _refuse(self, number: int) -> int:
        if number in {errno_names.EINTR, errno_names.EAGAIN}:
            return 0
        if number in FATAL_ERRNOS:
            self.fatal_errno = errno_name(number)
            return 0
        self.refused += 1
        self.by_errno[errno_name(number)] += 1
        return 1


class _Twin:
    """What both twins share: socket, pin, loop, report."""

    def __init__(
        self, name: str, default_batch: int, max_batch: int, caller: Callable[[socket.socket], Call]
    ):
        self.name = name
        self.default_batch = default_batch
        self.max_batch = max_batch
        self._caller = caller

    def run(self, frames: Frames, config: EngineConfig, stop: StopFlag, progress: Progress) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says."""
        check(self.name, self.max_batch, frames, config)
        with explained(self.name, config.ifindex), _opened(config.ifindex) as sock, _pinned(config.cpu):
            bypass = config.qdisc_bypass and _bypassed(sock)
            switches, cpu_ns = _involuntary_switches(), time.thread_time_ns()
            loop = _Loop(frames, config, self._caller(sock))
            ended_by = loop.run(stop, progress)
            progress.store(loop.sent, loop.refused)
            return EngineReport(
                sent=loop.sent,
                refused=loop.refused,
                refused_by_errno=dict(loop.by_errno),
                partial_returns=loop.partial_returns,
                calls=loop.calls,
                start_ns=loop.start_ns,
                end_ns=loop.end_ns,
                cpu_ns=time.thread_time_ns() - cpu_ns,
                involuntary_switches=_involuntary_switches() - switches,
                qdisc_bypass=bypass,
                fatal_errno=loop.fatal_errno,
                ended_by=ended_by,
            )


def twins() -> tuple[Engine, ...]:
    """Give the twin of each native engine, under its name."""
    return _Twin("send", 1, 1, _send), _Twin("sendmmsg", 64, MAX_BATCH, _sendmmsg)


def _send(sock: socket.socket) -> Call:
    def call(frames: list[bytes]) -> int:
        sock.send(frames[0])
        return 1

    return call


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("bytes", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr (man 2 sendmsg)."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint),
        ("iov", ctypes.POINTER(_Iovec)),
        ("iov_len", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr (man 2 sendmmsg)."""

    _fields_ = (("header", _Header), ("sent_bytes", ctypes.c_uint))


def _sendmmsg(sock: socket.socket) -> Call:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(frames: list[bytes]) -> int:
        vectors = [_Iovec(frame, len(frame)) for frame in frames]
        messages = (_Message * len(frames))(
            *(_Message(_Header(iov=ctypes.pointer(vector), iov_len=1)) for vector in vectors)
        )
        taken: int = libc.sendmmsg(sock.fileno(), messages, len(frames), 0)
        if taken < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return taken

    return call


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
