"""Sinks that take frames in: sockets at the receiving end, a thread each, and one report of all."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from labkit import _native
from labkit.agent.protocol import Run
from labkit.agent.sink_check import Check, check_of
from labkit.agent.sink_records import BLOCK_BYTES, Arrived, SinkConfig
from labkit.engines.base import explained
from labkit.errors import WorkloadError
from labkit.records import Frames

RING_BYTES: Final = 16 << 20
FEWEST_BLOCKS: Final = 2
RETIRE_MS: Final = 10
SOCKET_BATCH: Final = 64
SOCKET_BUFFER_BYTES: Final = 32 << 20

LATE_S, LATE_STEP_S = 0.05, 0.001
OTHER_SINK: Final = "take sink 'rx_ring' or 'socket'"
NEEDS_ROOT: Final = (
    "an XDP program needs CAP_BPF and CAP_NET_ADMIN in the machine's own user namespace, which a private one "
    f"does not give; run it as root, or {OTHER_SINK}"
)

NO_PROGRAM: Final = {
    errno.EPERM: NEEDS_ROOT,
    errno.EBUSY: f"another XDP program is on the interface; take it off, or {OTHER_SINK}",
    errno.ERANGE: f"an XDP program wants frames that fit in a page; lower the MTU, or {OTHER_SINK}",
    errno.EOPNOTSUPP: f"the device takes no XDP program; {OTHER_SINK}",
    errno.ENOSYS: f"this kernel has no bpf(2); {OTHER_SINK}",
}

Socket: TypeAlias = "_native.RxRing | _native.RxSocket"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where frames arrive.

    Attributes
    ----------
    ifindex : int
        Interface number in the network namespace of `inside`.
    inside : callable
        Gives a context manager within which this thread is in that namespace.
    promiscuous : bool
        Whether the device has to be told to take in frames to foreign addresses.
    """

    ifindex: int
    inside: Callable[[], AbstractContextManager[None]]
    promiscuous: bool


class Sink(Protocol):
    """A sink that is receiving."""

    @property
    def received(self) -> int:
        """Frames of ours so far."""
        ...

    def finish(self, sent: int | None) -> Arrived:
        """Stop, take in what has arrived by now, and say what did; `sent` is what the device counted."""
        ...


@contextlib.contextmanager
def receiving(
    request: Run, frames: Frames, sender: _native.Progress, sender_cpus: Sequence[int], place: Place
) -> Iterator[Sink]:
    """Receive at `place` what `request` sends, from the first line of the body until `Sink.finish`.

    Raises
    ------
    WorkloadError
        A CPU that is not allowed here, or frames that cannot be numbered.
    CapabilityMissingError
        No CAP_NET_RAW there, or no memory for such a ring.
    LabError
        Any other reason why a socket could not be opened.
    """
    request.sink_config.check()
    if request.sink == "xdp_drop":
        with _dropping(place) as sink:
            yield sink
        return
    table = _native.FrameTable(frames.block, frames.offsets, frames.lengths)
    check = check_of(request, table)
    count = request.sink_config.sockets or 1
    cpus = cpus_of(request.sink_config, sender_cpus, os.sched_getaffinity(0))
    reasons = {errno.ENOMEM: no_memory(request)}
    with place.inside(), explained(request.sink, place.ifindex, reasons, doing="receiving"):
        sockets = [_opened(request, table, sender, check, place) for _ in range(count)]
        if count > 1:
            group = sockets[0].share(None)
            for socket in sockets[1:]:
                socket.share(group)
    reading = _Sockets(sockets, [cpus[number % len(cpus)] for number in range(count)], check)
    try:
        reading.start()
        yield reading
    finally:
        reading.close()


def cpus_of(config: SinkConfig, senders: Sequence[int], allowed: set[int]) -> list[int | None]:
    """CPUs that sockets take in turn: the one asked for, else those that do not send; None is any.

    Raises
    ------
    WorkloadError
        The CPU asked for is not allowed here.
    """
    if config.cpu is None:
        return [*sorted(allowed.difference(senders))] or [None]
    if config.cpu not in allowed:
        raise WorkloadError(
            f"sink_cpu {config.cpu} is not allowed here; allowed: {', '.join(map(str, sorted(allowed)))}"
        )
    return [config.cpu]


def no_memory(request: Run) -> str:
    """What to do where the kernel has no memory for the rings."""
    return f"no memory for {request.sink_config.sockets or 1} rings of {RING_BYTES >> 20} MiB; ask for fewer"


def _opened(
    request: Run, table: _native.FrameTable, sender: _native.Progress, check: Check, place: Place
) -> Socket:
    common: dict[str, Any] = {
        "ifindex": place.ifindex,
        "addresses": check.addresses,
        "content": check.content,
        "numbered": check.numbered,
        "first_number": 0,
        "burst_frames": check.burst_frames,
        "promiscuous": place.promiscuous,
    }
    if request.sink == "socket":
        return _native.RxSocket(table, sender, **common, batch=SOCKET_BATCH, buffer_bytes=SOCKET_BUFFER_BYTES)
    config = request.sink_config
    block_bytes = config.block_bytes or BLOCK_BYTES
    return _native.RxRing(
        table,
        sender,
        **common,
        block_bytes=block_bytes,
        blocks=max(FEWEST_BLOCKS, RING_BYTES // block_bytes),
        retire_ms=config.retire_ms or RETIRE_MS,
    )


@contextlib.contextmanager
def _dropping(place: Place) -> Iterator[Sink]:
    """Count and drop frames before the kernel makes packets of them."""
    with place.inside(), explained("xdp_drop", place.ifindex, NO_PROGRAM, doing="receiving"):
        program = _native.XdpDrop(place.ifindex)
    try:
        yield _Dropped(program)
    finally:
        program.detach()


def _await(sink: Sink, sent: int | None) -> None:
    """Give a busy receiving end, whose softirqs a thread may run, some time to get at what was sent."""
    deadline_s = time.monotonic() + LATE_S
    while sent is not None and sink.received < sent and time.monotonic() < deadline_s:
        time.sleep(LATE_STEP_S)


class _Dropped:
    """A program that counts; whose frames it drops it cannot tell."""

    def __init__(self, program: _native.XdpDrop) -> None:
        self._program = program

    @property
    def received(self) -> int:
        """Frames so far."""
        return self._program.received

    def finish(self, sent: int | None) -> Arrived:
        """Say what arrived; the program stays until the end of `receiving`."""
        _await(self, sent)
        return Arrived(
            received=self.received,
            foreign=None,
            corrupted=None,
            distinct=None,
            duplicates=None,
            reordered=None,
            beyond_window=None,
            kernel_dropped=0,
            latency_ns=[],
            latency_most_ns=None,
            latency_note="frames are counted and dropped, and nobody looks at the time",
            by_socket=[],
            cpus=[],
            cpu_ns=None,
            drained=True,
        )


class _Sockets:
    """Sockets that share what arrives, each read by a thread."""

    def __init__(self, sockets: Sequence[Socket], cpus: Sequence[int | None], check: Check) -> None:
        self._check = check
        self._stop = _native.StopFlag()
        self._threads = [_Reader(socket, cpu, self._stop) for socket, cpu in zip(sockets, cpus, strict=True)]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End every thread; harmless twice."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def close(self) -> None:
        """End every thread and close its socket."""
        self.stop()
        for thread in self._threads:
            thread.socket.close()

    @property
    def received(self) -> int:
        """Frames of ours so far."""
        return sum(thread.socket.received for thread in self._threads)

    def finish(self, sent: int | None) -> Arrived:
        """Stop, take in what has arrived by now, and say what did."""
        _await(self, sent)
        self.stop()
        reports = [thread.result() for thread in self._threads]
        latency: Counter[int] = Counter()
        for report in reports:
            latency.update(dict(report.latency_ns))
        content, numbered = self._check.content or self._check.numbered, self._check.numbered
        return Arrived(
            received=sum(report.received for report in reports),
            foreign=sum(report.foreign for report in reports),
            corrupted=sum(report.corrupted for report in reports) if content else None,
            distinct=sum(report.distinct for report in reports) if numbered else None,
            duplicates=sum(report.duplicates for report in reports) if numbered else None,
            reordered=sum(report.reordered for report in reports) if numbered else None,
            beyond_window=sum(report.beyond_window for report in reports) if numbered else None,
            kernel_dropped=sum(report.kernel_dropped for report in reports),
            latency_ns=sorted(latency.items()),
            latency_most_ns=max(report.latency_most_ns for report in reports) if latency else None,
            latency_note=self._check.latency_note,
            by_socket=[report.received for report in reports],
            cpus=[thread.cpu for thread in self._threads],
            cpu_ns=sum(report.cpu_ns for report in reports),
            drained=all(report.drained for report in reports),
        )


class _Reader(threading.Thread):
    def __init__(self, socket: Socket, cpu: int | None, stop: _native.StopFlag) -> None:
        super().__init__(name="sink")
        self.socket, self.cpu, self._stop_flag = socket, cpu, stop
        self._report: _native.RxReport | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._report = self.socket.run(self._stop_flag, self.cpu)
        except BaseException as failure:  # noqa: BLE001 - carried to the main thread, raised there
            self._failure = failure

    def result(self) -> _native.RxReport:
        if self._failure is not None:
            raise self._failure
        if self._report is None:
            raise RuntimeError("a sink's thread ended without a report")
        return self._report
