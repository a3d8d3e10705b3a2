"""Whole messages on a byte stream: length-prefixed MessagePack.

A message of length 0 ends the stream, whoever else still holds its descriptors.
"""

from __future__ import annotations

import os
import select
import struct
import time
from typing import Final

import msgspec

from labkit.agent.protocol import Message
from labkit.errors import LabError, WorkloadError

MAX_MESSAGE_BYTES: Final = 1 << 28
_PREFIX = struct.Struct("!I")
END: Final = _PREFIX.pack(0)
"""The last bytes of a stream."""
LONGEST_WAIT_S = 3600.0


class Closed(Exception):  # noqa: N818 - the end of a stream, not an error
    """The other side closed the stream."""


class Channel:
    """Whole messages over two descriptors.

    Parameters
    ----------
    read_fd, write_fd : int
        Ends of the byte stream; owned by the caller.
    incoming : type
        Union of the messages that may arrive.
    life_fd : int or None
        Becomes readable when the other side's process has ended (a pidfd): a process that it forked may
        still hold the stream open.
    """

    def __init__(self, read_fd: int, write_fd: int, incoming: object, *, life_fd: int | None = None) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._life_fd = life_fd
        self._decoder = msgspec.msgpack.Decoder(incoming)
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer = bytearray()

    def send(self, message: Message) -> None:
        """Write one message whole.

        Raises
        ------
        LabError
            The message is longer than the protocol allows; nothing was written.
        Closed
            The other side is gone.
        """
        self.write(self.encode(message))

    def encode(self, message: Message) -> bytes:
        """Bytes of one whole message; a LabError says when it is too long, or what cannot be written."""
        try:
            body = self._encoder.encode(message)
        except OverflowError as odd:
            raise LabError(
                f"message to the agent: a number is too large ({odd}); give a smaller one"
            ) from odd
        except UnicodeEncodeError as odd:  # of a command line that is not UTF-8
            raise WorkloadError(f"{odd.object!r} is not valid text; give it in UTF-8") from odd
        if len(body) > MAX_MESSAGE_BYTES:
            raise LabError(
                f"message of {len(body)} bytes to the agent is over the limit of {MAX_MESSAGE_BYTES}; "
                f"send fewer or shorter frames"
            )
        return _PREFIX.pack(len(body)) + body

    def write(self, encoded: bytes) -> None:
        """Write what `encode` gave, or `END`."""
        rest = memoryview(encoded)
        while rest:
            try:
                rest = rest[os.write(self._write_fd, rest) :]
            except BrokenPipeError as gone:
                raise Closed from gone

    def receive(self, timeout_s: float | None = None, wake_fd: int | None = None) -> Message | None:
        """Next message, or None when none is whole within `timeout_s` (None waits for ever).

        A readable `wake_fd` ends the wait as the time-out does; it is not read.

        Raises
        ------
        Closed
            The stream ended.
        LabError
            What arrived is not of this protocol.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (message := self._whole()) is None:
            left_s = LONGEST_WAIT_S if deadline is None else max(0.0, deadline - time.monotonic())
            ready = self._wait(min(left_s, LONGEST_WAIT_S), wake_fd)
            if self._read_fd not in ready:
                if self._life_fd in ready:
                    raise Closed
                if ready or (deadline is not None and time.monotonic() >= deadline):
                    return None
                continue
            piece = os.read(self._read_fd, 1 << 20)
            if not piece:
                raise Closed
            self._buffer += piece
        return message

    def _wait(self, wait_s: float, wake_fd: int | None) -> set[int]:
        """Descriptors that are readable (or ended) within `wait_s`; any number, which select() cannot."""
        poll = select.poll()
        for descriptor in (self._read_fd, self._life_fd, wake_fd):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(wait_s * 1000)}

    def _whole(self) -> Message | None:
        if len(self._buffer) < _PREFIX.size:
            return None
        (length,) = _PREFIX.unpack_from(self._buffer)
        if length > MAX_MESSAGE_BYTES:
            raise LabError(f"agent protocol: a message of {length} bytes was announced; the stream is broken")
        if length == 0:
            raise Closed
        end = _PREFIX.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_PREFIX.size : end])
        del self._buffer[:end]
        try:
            return self._decoder.decode(body)  # type: ignore[no-any-return]
        except (msgspec.MsgspecError, RecursionError) as odd:
            raise LabError(f"agent protocol: unreadable message: {odd}") from odd
