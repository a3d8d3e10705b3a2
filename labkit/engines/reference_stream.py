"""The slow twin of a TCP stream's native loop: one thread that writes and reads by turns. For tests."""

from __future__ import annotations

import select
import socket
import time
from typing import Final

import msgspec

from labkit._native import StopFlag
from labkit.engines.base import EndedBy

READ_BYTES: Final = 16_384
WAIT_S: Final = 0.004
DRAIN_NS: Final = 2_000_000_000


class StreamCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What does not depend on how fast a loop is, under the names of the native report."""

    bytes_sent: int
    bytes_received: int
    drained: bool
    send_errno: int | None
    receive_errno: int | None
    ended_by: EndedBy


def stream(
    writer: socket.socket,
    reader: socket.socket,
    stop: StopFlag,
    *,
    message_bytes: int,
    count: int | None = None,
    duration_ns: int | None = None,
    drain_ns: int = DRAIN_NS,
) -> StreamCounts:
    """Write messages until `count`, `duration_ns`, stop or an error; then read what is on its way."""
    writing, reading = _Writing(writer, message_bytes), _Reading(reader)
    start_ns = time.monotonic_ns()
    ended_by: EndedBy | None = None
    while ended_by is None:
        if count is not None and writing.sent >= count * message_bytes:
            ended_by = "count"
        elif stop.is_set():
            ended_by = "stop"
        elif duration_ns is not None and time.monotonic_ns() - start_ns >= duration_ns:
            ended_by = "duration"
        elif writing.step() is not None:
            ended_by = "error"
        reading.step(0.0)
    if writing.errno is None:
        writer.shutdown(socket.SHUT_WR)
    deadline_ns = time.monotonic_ns() + drain_ns
    while not reading.over and time.monotonic_ns() < deadline_ns:
        reading.step(WAIT_S)
    return StreamCounts(
        bytes_sent=writing.sent,
        bytes_received=reading.received,
        drained=reading.drained,
        send_errno=writing.errno,
        receive_errno=reading.errno,
        ended_by=ended_by,
    )


class _Writing:
    """The writing end: where it is in its message."""

    def __init__(self, sock: socket.socket, message_bytes: int) -> None:
        self._sock, self._message = sock, memoryview(bytes(message_bytes))
        self.sent = 0
        self.errno: int | None = None

    def step(self) -> int | None:
        """Write what there is room for; the errno of a connection that is broken."""
        rest = self._message[self.sent % len(self._message) :]
        try:
            self.sent += self._sock.send(rest, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return None
        except OSError as refused:
            self.errno = refused.errno
        return self.errno


class _Reading:
    """The reading end, up to the stream's end or an error."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.received = 0
        self.drained = False
        self.errno: int | None = None

    @property
    def over(self) -> bool:
        return self.drained or self.errno is not None

    def step(self, wait_s: float) -> None:
        """Read what has come, or comes within `wait_s`."""
        if self.over or not select.select([self._sock], [], [], wait_s)[0]:
            return
        try:
            got = len(self._sock.recv(READ_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return
        except OSError as refused:
            self.errno = refused.errno
            return
        self.received += got
        self.drained = got == 0
