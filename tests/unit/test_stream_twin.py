"""A stream's native loop does what its slow twin does: bytes, ends and errors, over socket pairs."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from labkit import _native
from labkit._native import StopFlag
from labkit.engines.reference_stream import StreamCounts, stream

MS = 1_000_000
Ends: TypeAlias = tuple[socket.socket, socket.socket]


def twin(ends: Ends, stop: StopFlag, **asked: Any) -> StreamCounts:
    return stream(*ends, stop, **asked)


def native(ends: Ends, stop: StopFlag, **asked: Any) -> StreamCounts:
    writer, reader = ends
    config = _native.StreamConfig(
        send_fd=writer.fileno(), receive_fd=reader.fileno(), interval_ns=MS, most_intervals=100, **asked
    )
    seen = _native.tcp_stream(config, stop)
    return StreamCounts(**{name: getattr(seen, name) for name in StreamCounts.__struct_fields__})


@pytest.fixture
def ends() -> Iterator[Ends]:
    writer, reader = socket.socketpair()
    with writer, reader:
        yield writer, reader


both = pytest.mark.parametrize("run", [twin, native])


@both
@pytest.mark.parametrize(
    ("message_bytes", "count"), [(1, 1000), (1500, 77), (16_384, 100), (1 << 20, 3), (5, 0)]
)
def test_count_of_writes_arrives_whole(run: Any, ends: Ends, message_bytes: int, count: int) -> None:
    total = message_bytes * count
    assert run(ends, StopFlag(), message_bytes=message_bytes, count=count) == StreamCounts(
        bytes_sent=total,
        bytes_received=total,
        drained=True,
        send_errno=None,
        receive_errno=None,
        ended_by="count",
    )


@both
def test_duration_ends_a_stream_and_what_is_on_its_way_arrives(run: Any, ends: Ends) -> None:
    seen = run(ends, StopFlag(), message_bytes=16_384, duration_ns=20 * MS)
    assert (seen.ended_by, seen.drained) == ("duration", True)
    assert seen.bytes_sent == seen.bytes_received > 0


@both
def test_stop_beforehand_ends_a_stream_without_a_byte(run: Any, ends: Ends) -> None:
    stop = StopFlag()
    stop.set()
    seen = run(ends, stop, message_bytes=16_384, duration_ns=10**12)
    assert (seen.ended_by, seen.bytes_sent, seen.bytes_received, seen.drained) == ("stop", 0, 0, True)


@both
def test_reader_that_is_shut_breaks_the_writing(run: Any, ends: Ends) -> None:
    ends[1].shutdown(socket.SHUT_RD)
    seen = run(ends, StopFlag(), message_bytes=16_384, duration_ns=10**12)
    assert (seen.ended_by, seen.send_errno, seen.bytes_sent) == ("error", errno.EPIPE, 0)


def test_twin_waits_for_what_nobody_reads_no_longer_than_asked(ends: Ends) -> None:
    other, unread = socket.socketpair()
    with other, unread:
        seen = stream(ends[0], unread, StopFlag(), message_bytes=10, count=1, drain_ns=5 * MS)
    assert (seen.bytes_sent, seen.bytes_received, seen.drained) == (10, 0, False)
