"""Whole messages over a byte stream."""

from __future__ import annotations

import fcntl
import os
import resource
import struct
from collections.abc import Iterator

import pytest

from labkit.agent.channel import END, MAX_MESSAGE_BYTES, Channel, Closed
from labkit.agent.protocol import Answer, Done, Failed, Hello, Load, Request, Welcome
from labkit.errors import LabError


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    for descriptor in (read_fd, write_fd):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_message_arrives_as_it_was_sent(pipe: tuple[int, int]) -> None:
    channel = Channel(*pipe, Answer)
    sent = Failed(kind="LabError", message="no", errno=22, kernel_text=None)
    channel.send(sent)
    assert channel.receive(1.0) == sent


def test_message_in_pieces_waits_for_its_end(pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    whole_read, whole_write = os.pipe()
    Channel(whole_read, whole_write, Request).send(Hello(version=7))
    body = os.read(whole_read, 1000)
    os.close(whole_read)
    os.close(whole_write)
    channel = Channel(read_fd, write_fd, Request)
    for piece in (body[:3], body[3:-1]):
        os.write(write_fd, piece)
        assert channel.receive(0.0) is None
    os.write(write_fd, body[-1:])
    assert channel.receive(1.0) == Hello(version=7)


def test_two_messages_in_one_read_come_one_by_one(pipe: tuple[int, int]) -> None:
    channel = Channel(*pipe, Answer)
    channel.send(Done())
    channel.send(Welcome(version=1, pid=2))
    assert [channel.receive(1.0), channel.receive(1.0)] == [Done(), Welcome(version=1, pid=2)]


def test_end_of_stream_is_closed(pipe: tuple[int, int]) -> None:
    os.close(pipe[1])
    with pytest.raises(Closed):
        Channel(*pipe, Answer).receive(1.0)


def test_absent_reader_is_closed(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    with pytest.raises(Closed):
        Channel(*pipe, Answer).send(Done())


def test_announced_giant_is_refused_before_it_is_read(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], struct.pack("!I", MAX_MESSAGE_BYTES + 1))
    with pytest.raises(LabError, match="announced"):
        Channel(*pipe, Answer).receive(1.0)


def test_giant_is_refused_before_it_is_sent(pipe: tuple[int, int]) -> None:
    giant = Load(block=bytes(MAX_MESSAGE_BYTES), offsets=b"", lengths=b"")
    with pytest.raises(LabError, match="over the limit"):
        Channel(*pipe, Answer).send(giant)
    os.set_blocking(pipe[0], False)
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 1)


def test_message_of_the_other_direction_is_unreadable(pipe: tuple[int, int]) -> None:
    Channel(*pipe, Answer).send(Hello(version=1))
    with pytest.raises(LabError, match="unreadable"):
        Channel(*pipe, Answer).receive(1.0)


def test_noise_is_unreadable(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], struct.pack("!I", 4) + b"nope")
    with pytest.raises(LabError, match="unreadable"):
        Channel(*pipe, Answer).receive(1.0)


def test_readable_wake_descriptor_ends_the_wait(pipe: tuple[int, int]) -> None:
    wake = os.eventfd(1)
    try:
        assert Channel(*pipe, Answer).receive(None, wake) is None
    finally:
        os.close(wake)


def test_end_of_the_stream_can_be_said_in_so_many_words(pipe: tuple[int, int]) -> None:
    channel = Channel(*pipe, Answer)
    channel.send(Done())
    channel.write(END)
    assert channel.receive(1.0) == Done()
    with pytest.raises(Closed):
        channel.receive(1.0)


def test_end_of_the_other_process_ends_the_stream_behind_what_it_sent(pipe: tuple[int, int]) -> None:
    life_fd, dead = os.pipe()
    channel = Channel(*pipe, Answer, life_fd=life_fd)
    channel.send(Done())
    os.close(dead)
    try:
        assert channel.receive(1.0) == Done()
        with pytest.raises(Closed):
            channel.receive(1.0)
    finally:
        os.close(life_fd)


def test_descriptors_beyond_1024_are_waited_for(pipe: tuple[int, int]) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2048:
        pytest.skip("this user may not open 2048 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2048), before[1]))
    far = fcntl.fcntl(pipe[0], fcntl.F_DUPFD_CLOEXEC, 1500)
    try:
        assert Channel(far, pipe[1], Answer).receive(0.0) is None
    finally:
        os.close(far)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_number_that_no_message_holds_is_an_error(pipe: tuple[int, int]) -> None:
    channel = Channel(*pipe, Request)
    with pytest.raises(LabError, match="a number is too large"):
        channel.send(Hello(version=2**70))
