"""Engine `tcp`: a stream of bytes through the stack's own sockets, to a reader at the receiving end."""

from __future__ import annotations

import os
import socket
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from labkit import _native
from labkit.engines.base import EndedBy, EngineConfig, EngineReport, check, explained
from labkit.engines.iperf3 import THERE, FarEnd, addressed, needed
from labkit.engines.stream_records import StreamReport
from labkit.errors import LabError, WorkloadError, errno_name
from labkit.linux.link_stats import LinkStats
from labkit.linux.machine import cpu_busy_ns
from labkit.linux.namespaces import inside
from labkit.records import Frames
from labkit.units import NS_PER_S

MESSAGE_BYTES: Final = 16_384
"""Of one write: what netperf's TCP_STREAM takes on Linux, the default of the sending socket's buffer
(net.ipv4.tcp_wmem; the column "Send Message Size" of a run without -m)."""
CONNECT_S: Final = 2.0
INTERVAL_NS: Final = NS_PER_S // 10
SHORTEST_INTERVAL_NS: Final = 1_000_000
INTERVALS: Final = 20
"""Of a run shorter than two seconds."""
MOST_INTERVALS: Final = 6_000
"""Ten minutes' worth; a longer run has longer intervals."""


class Tcp:
    """One thread writes messages of the workload's length, over and over; a second one reads them.

    The reader lives at the receiving end, on a CPU of its own where there is one. The stack makes the
    frames: the workload's flow is not sent, and `sent` is None in the report. A count is one of writes. At
    the end the stream is closed and what is on its way is read, for 2 s at the most; that time is part of
    the run, so that bytes and time belong together.

    Parameters
    ----------
    far : FarEnd or None
        Where the reader lives.
    """

    name = "tcp"
    default_batch = 1
    max_batch = 1

    def __init__(self, far: FarEnd | None = None) -> None:
        self._far = far

    def placed(self, far: FarEnd | None) -> Tcp:
        """The same with its reader at `far`."""
        return Tcp(far)

    def usual_batch(self, frames: Frames) -> int:  # noqa: ARG002 - frames matter to gso alone
        """One write a call."""
        return self.default_batch

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what a stream cannot be asked."""
        for asked, what, why in (
            (config.rate_pps is not None, "rate_pps", "its acknowledgements are its clock"),
            (config.batch != 1, "batch", "the stack makes its frames"),
            (config.stamp, "stamp", "the stack makes its frames"),
            (config.qdisc_bypass, "qdisc_bypass", "its segments go through the queueing discipline"),
            (config.realtime_priority is not None, "realtime_priority", "its reader might never run"),
        ):
            if asked:
                raise WorkloadError(f"tcp: {why}; leave {what} out")
        check(self.name, self.max_batch, frames, config)
        check_message(self.name, config)

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Write and read until duration, count of writes, stop or an error.

        Raises
        ------
        CapabilityMissingError
            Nothing lives where frames arrive.
        LabError
            The far end does not answer.
        """
        del progress  # it counts frames
        self.check(frames, config)
        far = needed(self._far, self.name)
        stats = LinkStats()
        try:
            with addressed(config.ifindex, far), connected(far) as (writer, reader):
                return _streamed(config, stop, stats, writer, reader)
        finally:
            stats.close()


def check_message(engine: str, config: EngineConfig) -> None:
    """Raise `WorkloadError` for writes of no bytes, or of more than the engine takes."""
    asked = config.message_bytes
    if asked is not None and not 1 <= asked <= _native.MOST_MESSAGE_BYTES:
        raise WorkloadError(f"{engine}: message_bytes {asked}: give 1 to {_native.MOST_MESSAGE_BYTES}")


def interval_ns(duration_ns: int | None) -> int:
    """Time between two counts of what has arrived: 100 ms, less of a short run, more of a very long one."""
    if duration_ns is None:
        return INTERVAL_NS
    least = max(SHORTEST_INTERVAL_NS, duration_ns // MOST_INTERVALS)
    return max(least, min(INTERVAL_NS, duration_ns // INTERVALS))


def reader_cpu(sender: int | None, allowed: set[int]) -> int | None:
    """CPU of the reader: the first that does not send, as a sink's; where there is none, the sender's."""
    others = sorted(allowed.difference([sender] if sender is not None else []))
    return others[0] if others else sender


@contextmanager
def connected(far: FarEnd) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection to `THERE`, which is the far end's address: who writes, and who reads.

    Raises
    ------
    LabError
        The far end does not answer within 2 s.
    """
    with inside(far.network):
        listening, reader = socket.socket(), None
    writer = socket.socket()
    try:
        for end in (listening, writer):
            end.settimeout(CONNECT_S)
        listening.bind((THERE, 0))
        listening.listen(1)
        writer.connect(listening.getsockname())
        reader, _ = listening.accept()
        for end in (writer, reader):
            end.settimeout(None)
        yield writer, reader
    except OSError as refused:
        if reader is not None:
            raise
        raise LabError(
            f"tcp: no connection to the far end within {CONNECT_S:g} s; is its link up?", errno=refused.errno
        ) from refused
    finally:
        for end in (listening, writer, *([reader] if reader is not None else [])):
            end.close()


def _streamed(
    config: EngineConfig,
    stop: _native.StopFlag,
    stats: LinkStats,
    writer: socket.socket,
    reader: socket.socket,
) -> EngineReport:
    own = reader_cpu(config.cpu, os.sched_getaffinity(0))
    shared = own == config.cpu
    cpus = (config.cpu, None if shared else own)
    asked = _native.StreamConfig(
        send_fd=writer.fileno(),
        receive_fd=reader.fileno(),
        message_bytes=config.message_bytes or MESSAGE_BYTES,
        count=config.count,
        duration_ns=config.duration_ns,
        send_cpu=config.cpu,
        receive_cpu=own,
        interval_ns=interval_ns(config.duration_ns),
        most_intervals=MOST_INTERVALS + INTERVALS,
    )
    before, busy_before = stats.read(config.ifindex), [_busy_ns(cpu) for cpu in cpus]
    with explained("tcp", config.ifindex, doing="streaming"):
        seen = _native.tcp_stream(asked, stop)
    busy = [_since(_busy_ns(cpu), then) for cpu, then in zip(cpus, busy_before, strict=True)]
    after = stats.read(config.ifindex)
    return _report(
        seen,
        asked_bytes=config.message_bytes or MESSAGE_BYTES,
        cpus=cpus,
        busy=busy,
        moved=after["tx_bytes"] - before["tx_bytes"],
    )


def _busy_ns(cpu: int | None) -> int | None:
    return None if cpu is None else cpu_busy_ns(cpu)


def _since(now: int | None, then: int | None) -> int | None:
    return None if now is None or then is None else now - then


def _report(
    seen: _native.StreamReport,
    *,
    asked_bytes: int,
    cpus: tuple[int | None, int | None],
    busy: list[int | None],
    moved: int,
) -> EngineReport:
    facts = seen.tcp
    stream = StreamReport(
        message_bytes=asked_bytes,
        bytes_sent=seen.bytes_sent,
        bytes_received=seen.bytes_received,
        drained=seen.drained,
        receive_errno=_name(seen.receive_errno),
        retransmits=None if facts is None else facts.retransmits,
        rtt_us=None if facts is None else facts.rtt_us,
        cwnd_segments=None if facts is None else facts.cwnd_segments,
        mss_bytes=None if facts is None else facts.mss_bytes,
        data_segments=None if facts is None else facts.data_segments,
        waits=seen.waits,
        written_ns=seen.written_ns,
        send_cpu_ns=seen.send_cpu_ns,
        receive_cpu_ns=seen.receive_cpu_ns,
        send_cpu=cpus[0],
        receive_cpu=cpus[1],
        busy_send_ns=busy[0],
        busy_receive_ns=busy[1],
        device_bytes=moved,
        device_ns=seen.end_ns - seen.start_ns,
        intervals=seen.intervals,
    )
    return EngineReport(
        sent=None,
        refused=0,
        refused_by_errno={},
        super_packets=None,
        partial_returns=seen.short_writes,
        calls=seen.writes + 2 * seen.waits,  # a wait is a refused send() and a poll()
        start_ns=seen.start_ns,
        end_ns=seen.end_ns,
        cpu_ns=seen.send_cpu_ns,
        involuntary_switches=seen.involuntary_switches,
        qdisc_bypass=False,
        fatal_errno=_name(seen.send_errno),
        ended_by=typing.cast(EndedBy, seen.ended_by),
        stream=stream,
    )


def _name(number: int | None) -> str | None:
    return None if number is None else errno_name(number)
