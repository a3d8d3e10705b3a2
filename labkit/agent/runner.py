"""One run in the agent: engines on threads of their own, live samples meanwhile, counters around it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from labkit.agent.channel import Channel
from labkit.agent.host import Host
from labkit.agent.protocol import Failed, Live, Measured, Run, Stop
from labkit.agent.queue_limits import ByteLimits
from labkit.agent.readings import Reading
from labkit.agent.sampling import sampling
from labkit.agent.sinks import Sink
from labkit.agent.workers import Senders, merged, sending_pids, shares
from labkit.counters.deltas import counter_deltas
from labkit.engines.base import EngineConfig
from labkit.engines.choose import choose, placed
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import PEER_NAMES, UNTOLD_NAMES
from labkit.linux.kernel_log import KernelLog
from labkit.linux.latency import cpus_kept_awake
from labkit.linux.links import LinkFacts
from labkit.linux.machine import kept_off, steal_ns
from labkit.records import Frames, Sample
from labkit.units import NS_PER_S

SETTLE_STEP_S = 0.002
SHORTEST_SAMPLE_NS = 1_000_000
"""Samples that come quicker would fill the stream with themselves."""


def run_once(channel: Channel, host: Host, frames: Frames, request: Run, log: KernelLog) -> Measured:
    """Send `frames` as `request` says; live samples and the Stop message pass over `channel` meanwhile.

    Raises
    ------
    Closed
        The client is gone; the engine has been stopped.
    CapabilityMissingError
        A profile is wanted and cannot be taken here; nothing was sent.
    """
    if request.sample_every_ns < SHORTEST_SAMPLE_NS:
        raise WorkloadError(f"sample every {request.sample_every_ns} ns: give {SHORTEST_SAMPLE_NS} or more")
    if request.engine in PEER_NAMES and not host.private:
        raise CapabilityMissingError(
            f"{request.engine}: other programs are run in private namespaces only; take rig 'veth'"
        )
    allowed = os.sched_getaffinity(0)
    configs = shares(request, host.ifindex(request.sink), allowed)
    for config in configs:
        choose(request.engine).check(frames, config)
    cpus = [config.cpu for config in configs if config.cpu is not None]
    longest_s = (request.config.duration_ns or NS_PER_S) / NS_PER_S
    with sampling(cpus, longest_s, wanted=request.profile, limited=host.keeps_time) as sampler:
        measured = _sent(channel, host, frames, request, log, configs)
        if sampler is None:
            return measured
        samples = sampler.samples(measured.workers, sending_pids(request.engine, cpus))
        return msgspec.structs.replace(measured, samples=samples)


def _sent(
    channel: Channel,
    host: Host,
    frames: Frames,
    request: Run,
    log: KernelLog,
    configs: Sequence[EngineConfig],
) -> Measured:
    cpus = [config.cpu for config in configs if config.cpu is not None]
    log.warnings()
    stolen_before = _stolen_ns(cpus)
    if host.empty_queue(request.sink):
        _settled(host, request.sink)
    link_before = host.link(request.sink)
    with _eventfd() as wake_fd, cpus_kept_awake() as awake:
        engine = placed(choose(request.engine), host.far(request.sink))
        senders = Senders(engine, frames, configs, lambda: os.eventfd_write(wake_fd, 1))
        with host.receiver(request, frames, senders.progress, cpus) as sink:
            limits, before = [host.byte_limits(request.sink)], host.read(request.sink)
            try:
                senders.start()
                with kept_off(cpus):
                    _watch(channel, host, request, before, senders, sink, wake_fd)
            finally:
                senders.stop()
                senders.join()
            workers = senders.reports()
            at_end, _ = host.read_links(request.sink)
            after, settled = _settled(host, request.sink)
            limits.append(host.byte_limits(request.sink))
            arrived = None if sink is None else sink.finish(_moved(host, request, before, after))
    stolen_after = _stolen_ns(cpus)
    device, counter, peer = host.counter(request.sink)
    return Measured(
        report=merged([worker.report for worker in workers]),
        workers=workers,
        device=device,
        device_counter=counter,
        peer_device=peer,
        before=before,
        at_end=at_end,
        after=after,
        settled=settled,
        carrier=_kept_carrier(link_before, host.link(request.sink)),
        cpu=cpus[0],
        cpus_kept_awake=awake.held,
        runqueue_wait_ns=senders.runqueue_wait_ns,
        steal_ns=None if stolen_before is None or stolen_after is None else stolen_after - stolen_before,
        kernel_warnings=log.warnings(),
        arrived=arrived,
        byte_limits=[each for each in limits if each is not None],
    )


def _moved(host: Host, request: Run, before: Reading, after: Reading) -> int | None:
    """What the device counted as sent in between."""
    _, counter, _ = host.counter(request.sink)
    return counter_deltas(before.device, after.device).get(counter)


def _kept_carrier(before: LinkFacts, after: LinkFacts) -> bool:
    """Whether the link had carrier from the first to the last frame; a short loss shows in the count."""
    return after.carrier and after.carrier_changes == before.carrier_changes


def _watch(
    channel: Channel,
    host: Host,
    request: Run,
    before: Reading,
    senders: Senders,
    sink: Sink | None,
    wake_fd: int,
) -> None:
    """Send a live sample every `sample_every_ns` until the senders have ended or Stop came.

    Nothing behind a Stop is read here: it is the next request.
    """
    started_ns = time.monotonic_ns()
    next_ns = started_ns + request.sample_every_ns
    while True:
        left_s = max(0, next_ns - time.monotonic_ns()) / NS_PER_S
        message = channel.receive(left_s, wake_fd)
        if isinstance(message, Stop):
            senders.stop()
            return
        if message is not None:
            told = f"agent: a run is in progress, and {type(message).__name__} has to wait for its end"
            refused = Failed(kind="RigBusyError", message=told, errno=None, kernel_text=None)
            channel.send(msgspec.structs.replace(refused, number=message.number))
        if _readable(wake_fd) and senders.ended:
            return
        if time.monotonic_ns() >= next_ns:
            next_ns = next_due_ns(next_ns, time.monotonic_ns(), request.sample_every_ns)
            sample = _sample(host, request, before, senders, started_ns, sink)
            channel.send(Live(sample=sample, number=request.number))


def next_due_ns(due_ns: int, now_ns: int, every_ns: int) -> int:
    """When the sample behind one that was due at `due_ns` is: on the grid, unless that one came too late."""
    return max(due_ns, now_ns - every_ns // 2) + every_ns


def _sample(
    host: Host,
    request: Run,
    before: Reading,
    senders: Senders,
    started_ns: int,
    sink: Sink | None = None,
) -> Sample:
    """Counts so far; a counter that fell, or is missing, is unknown for this sample and ends nothing."""
    device, peer = host.read_links(request.sink)
    _, counter, _ = host.counter(request.sink)
    moved = counter_deltas(before.peer, peer)
    counts = [moved.get(name) for name in request.peer_counters]
    known = [count for count in counts if count is not None]
    limits = host.byte_limits(request.sink) or ByteLimits()
    counted = sum(known) if counts and len(known) == len(counts) else None
    return Sample(
        at_ns=time.monotonic_ns() - started_ns,
        engine_sent=None if request.engine in UNTOLD_NAMES else senders.sent,
        engine_refused=None if request.engine in PEER_NAMES else senders.refused,
        device_sent=counter_deltas(before.device, device).get(counter),
        peer_received=sink.received if sink is not None else counted,
        bql_limit_bytes=limits.limit_bytes,
        bql_inflight_bytes=limits.inflight_bytes,
    )


def _settled(host: Host, sink: str) -> tuple[Reading, bool]:
    """Counters once the queue is empty and two reads agree, within its time; whether it did."""
    deadline = time.monotonic_ns() + host.settles_within_ns
    last = host.read(sink)
    while time.monotonic_ns() < deadline:
        time.sleep(SETTLE_STEP_S)
        now = host.read(sink)
        still = now.device == last.device and now.peer == last.peer
        if still and now.qdisc_dropped == last.qdisc_dropped and not now.qdisc_queued:
            return now, True
        last = now
    return last, False


def _stolen_ns(cpus: list[int]) -> int | None:
    stolen = [steal_ns(cpu) for cpu in cpus]
    known = [each for each in stolen if each is not None]
    return sum(known) if len(known) == len(stolen) else None


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
