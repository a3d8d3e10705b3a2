"""What a TCP stream did, as its engine reports it; it travels within the engine's report."""

from __future__ import annotations

import msgspec


class StreamReport(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, seen by its two applications, by the sending device and by the clocks of both CPUs.

    Of another program's stream only the device is asked: the rest is not known.

    Attributes
    ----------
    message_bytes : int
        Of one write.
    bytes_sent, bytes_received : int or None
        What the writing socket took and the reading application got.
    drained : bool or None
        Whether the reader came to the stream's end.
    receive_errno : str or None
        Symbol of the error that ended the reading.
    retransmits, rtt_us, cwnd_segments, mss_bytes, data_segments : int or None
        As the kernel tells of the sending socket in the end (TCP_INFO); segments that carried data, each of
        which is a frame, however many of them one packet of the device is.
    waits : int or None
        How often the writer waited for room in the socket's buffer.
    written_ns : int or None
        CLOCK_MONOTONIC just after the last write; what came later was on its way.
    send_cpu_ns, receive_cpu_ns : int or None
        CPU time of the two threads.
    send_cpu, receive_cpu : int or None
        The CPU of each; None where a thread had none of its own.
    busy_send_ns, busy_receive_ns : int or None
        Time that these CPUs were not idle, whoever used them; None where one is the other's too.
    device_bytes : int or None
        What the sending device counted, headers included, over `device_ns` nanoseconds.
    intervals : list of (int, int)
        Nanoseconds after the start, and the bytes received by then.
    """

    message_bytes: int
    bytes_sent: int | None = None
    bytes_received: int | None = None
    drained: bool | None = None
    receive_errno: str | None = None
    retransmits: int | None = None
    rtt_us: int | None = None
    cwnd_segments: int | None = None
    mss_bytes: int | None = None
    data_segments: int | None = None
    waits: int | None = None
    written_ns: int | None = None
    send_cpu_ns: int | None = None
    receive_cpu_ns: int | None = None
    send_cpu: int | None = None
    receive_cpu: int | None = None
    busy_send_ns: int | None = None
    busy_receive_ns: int | None = None
    device_bytes: int | None = None
    device_ns: int | None = None
    intervals: list[tuple[int, int]] = []
