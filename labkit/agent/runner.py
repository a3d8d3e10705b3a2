"""One run in the agent: the engine on a thread of its own, live samples meanwhile, counters around it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

from labkit._native import Progress, StopFlag
from labkit.agent.channel import Channel
from labkit.agent.host import Host
from labkit.agent.protocol import Live, Measured, Reading, Run, Stop
from labkit.counters.deltas import counter_deltas
from labkit.engines.base import Engine, EngineReport
from labkit.engines.choose import choose
from labkit.linux.kernel_log import KernelLog
from labkit.linux.latency import cpus_kept_awake
from labkit.linux.links import LinkFacts
from labkit.linux.machine import runqueue_wait_ns, steal_ns
from labkit.records import Frames, Sample
from labkit.units import NS_PER_S

SETTLE_NS = 100_000_000
SETTLE_STEP_S = 0.002


class _Engine(threading.Thread):
    """Runs the engine once; writes to `wake_fd` when it has ended, however it ended."""

    def __init__(self, run: Callable[[], EngineReport], wake_fd: int) -> None:
        super().__init__(name="engine")
        self._run_engine = run
        self._wake_fd = wake_fd
        self.report: EngineReport | None = None
        self.failure: BaseException | None = None
        self.runqueue_wait_ns: int | None = None

    def run(self) -> None:
        try:
            waited_before = runqueue_wait_ns()
            self.report = self._run_engine()
            waited_after = runqueue_wait_ns()
            if waited_before is not None and waited_after is not None:
                self.runqueue_wait_ns = waited_after - waited_before
        except BaseException as failure:  # noqa: BLE001 - carried to the main thread, raised there
            self.failure = failure
        finally:
            os.eventfd_write(self._wake_fd, 1)


def run_once(channel: Channel, host: Host, frames: Frames, request: Run, log: KernelLog) -> Measured:
    """Send `frames` as `request` says; live samples and the Stop message pass over `channel` meanwhile.

    Raises
    ------
    Closed
        The client is gone; the engine has been stopped.
    """
    allowed = os.sched_getaffinity(0)
    cpu = request.config.cpu if request.config.cpu is not None else max(allowed)
    config = msgspec.structs.replace(request.config, cpu=cpu, ifindex=host.ifindex(request.sink))
    engine: Engine = choose(request.engine)
    stop, progress = StopFlag(), Progress()
    log.warnings()
    stolen_before = steal_ns(cpu)
    if host.empty_queue(request.sink):
        _settled(host, request.sink)
    link_before = host.link(request.sink)
    before = host.read(request.sink)
    with _eventfd() as wake_fd, cpus_kept_awake() as awake:
        thread = _Engine(lambda: engine.run(frames, config, stop, progress), wake_fd)
        thread.start()
        try:
            with _away_from(cpu, allowed):
                _watch(channel, host, request, before, progress, stop, wake_fd)
        finally:
            stop.set()
            thread.join()
    if thread.failure is not None:
        raise thread.failure
    if thread.report is None:
        raise RuntimeError("the engine's thread ended without a report")
    at_end, _ = host.read_links(request.sink)
    after, settled = _settled(host, request.sink)
    stolen_after = steal_ns(cpu)
    device, counter, peer = host.counter(request.sink)
    return Measured(
        report=thread.report,
        device=device,
        device_counter=counter,
        peer_device=peer,
        before=before,
        at_end=at_end,
        after=after,
        settled=settled,
        carrier=_kept_carrier(link_before, host.link(request.sink)),
        cpu=cpu,
        cpus_kept_awake=awake.held,
        runqueue_wait_ns=thread.runqueue_wait_ns,
        steal_ns=None if stolen_before is None or stolen_after is None else stolen_after - stolen_before,
        kernel_warnings=log.warnings(),
    )


def _kept_carrier(before: LinkFacts, after: LinkFacts) -> bool:
    """Whether the link had carrier from the first to the last frame; a short loss shows in the count."""
    return after.carrier and after.carrier_changes == before.carrier_changes


def _watch(
    channel: Channel,
    host: Host,
    request: Run,
    before: Reading,
    progress: Progress,
    stop: StopFlag,
    wake_fd: int,
) -> None:
    """Send a live sample every `sample_every_ns` until the engine has ended or Stop came.

    Nothing behind a Stop is read here: it is the next request.
    """
    started_ns = time.monotonic_ns()
    next_ns = started_ns + request.sample_every_ns
    while True:
        left_s = max(0, next_ns - time.monotonic_ns()) / NS_PER_S
        message = channel.receive(left_s, wake_fd)
        if isinstance(message, Stop):
            stop.set()
        if stop.is_set() or _readable(wake_fd):
            return
        if time.monotonic_ns() >= next_ns:
            next_ns += request.sample_every_ns
            sample = _sample(host, request, before, progress, started_ns)
            channel.send(Live(sample=sample, number=request.number))


def _sample(host: Host, request: Run, before: Reading, progress: Progress, started_ns: int) -> Sample:
    """Counts so far; a counter that fell, or is missing, is unknown for this sample and ends nothing."""
    device, peer = host.read_links(request.sink)
    _, counter, _ = host.counter(request.sink)
    moved = counter_deltas(before.peer, peer)
    counts = [moved.get(name) for name in request.peer_counters]
    known = [count for count in counts if count is not None]
    return Sample(
        at_ns=time.monotonic_ns() - started_ns,
        engine_sent=progress.sent,
        engine_refused=progress.refused,
        device_sent=counter_deltas(before.device, device).get(counter),
        peer_received=sum(known) if counts and len(known) == len(counts) else None,
    )


def _settled(host: Host, sink: str) -> tuple[Reading, bool]:
    """Counters once the queue is empty and two reads agree, within 100 ms; whether it came to that."""
    deadline = time.monotonic_ns() + SETTLE_NS
    last = host.read(sink)
    while time.monotonic_ns() < deadline:
        time.sleep(SETTLE_STEP_S)
        now = host.read(sink)
        still = now.device == last.device and now.peer == last.peer
        if still and now.qdisc_dropped == last.qdisc_dropped and not now.qdisc_queued:
            return now, True
        last = now
    return last, False


def _readable(eventfd: int) -> bool:
    try:
        os.eventfd_read(eventfd)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _eventfd() -> Iterator[int]:
    descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _away_from(cpu: int, allowed: set[int]) -> Iterator[None]:
    """Keep this thread off the sender's CPU, where there is another one."""
    others = allowed - {cpu}
    if not others:
        yield
        return
    os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
