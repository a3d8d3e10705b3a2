"""Typed messages between the notebook's process and its agent: length-prefixed MessagePack on a byte stream.

No message carries a path, a command or a pickled object. The first message each way states the version.
A message of length 0 ends the stream, whoever else still holds its descriptors.
"""

from __future__ import annotations

import os
import select
import struct
import time
from typing import Final, TypeAlias

import msgspec

from labkit.engines.base import EngineConfig, EngineReport
from labkit.errors import LabError
from labkit.linux.links import LinkFacts
from labkit.records import Privilege, Sample, Scalar

PROTOCOL_VERSION: Final = 3
MAX_MESSAGE_BYTES: Final = 1 << 28
_PREFIX = struct.Struct("!I")
END: Final = _PREFIX.pack(0)
"""The last bytes of a stream."""
LONGEST_WAIT_S = 3600.0


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all messages; the class name travels as its tag.

    Attributes
    ----------
    number : int
        Which request this is, or which one it answers: the answer to a request that its asker gave up
        (Ctrl-C) must not pass for the answer to the next one.
    """

    number: int = 0


class Hello(Message, frozen=True, kw_only=True):
    """Client: first message. Answer: Welcome."""

    version: int


class Open(Message, frozen=True, kw_only=True):
    """Client: make the veth rig. Answer: Opened."""

    force_user_namespace: bool
    settings: dict[str, Scalar]
    peer_carrier: bool


class OpenDevice(Message, frozen=True, kw_only=True):
    """Client: hold an interface of the agent's network namespace. Answer: Opened.

    Attributes
    ----------
    port : str or None
        A second interface that frames arrive at.
    i_know : str or None
        The interface's name once more, where something depends on it.
    ssh_connection : str or None
        SSH_CONNECTION of the user's own process: sudo takes it away.
    """

    name: str
    port: str | None
    i_know: str | None
    ssh_connection: str | None


class RestoreAll(Message, frozen=True, kw_only=True):
    """Client: put back what dead laboratories left. Answer: Told."""


class Preview(Message, frozen=True, kw_only=True):
    """Client: say what applying `settings` would do. Answer: Told."""

    settings: dict[str, Scalar]


class Look(Message, frozen=True, kw_only=True):
    """Client: read the state of the links that `sink` uses. Answer: Opened."""

    sink: str


class Load(Message, frozen=True, kw_only=True):
    """Client: keep these frames for the runs to come. Answer: Done."""

    block: bytes
    offsets: bytes
    lengths: bytes


class Apply(Message, frozen=True, kw_only=True):
    """Client: turn settings, originals kept. Answer: Applied."""

    settings: dict[str, Scalar]


class Restore(Message, frozen=True, kw_only=True):
    """Client: put back what every Apply beyond the first `level` changed. Answer: Done."""

    level: int


class Run(Message, frozen=True, kw_only=True):
    """Client: send the loaded frames once. Answers: Live, ..., Measured."""

    engine: str
    sink: str
    config: EngineConfig
    sample_every_ns: int
    peer_counters: list[str]


class Stop(Message, frozen=True, kw_only=True):
    """Client: end the run in progress. No answer of its own."""


class Welcome(Message, frozen=True, kw_only=True):
    """Agent: its side of the version, and who it is."""

    version: int
    pid: int


class Opened(Message, frozen=True, kw_only=True):
    """Agent: state of the rig."""

    privilege: Privilege
    link: LinkFacts
    peer: LinkFacts | None
    peer_counters: list[str]
    settings: dict[str, Scalar]
    private_sysfs: bool
    driver: str | None
    notes: list[str]


class Told(Message, frozen=True, kw_only=True):
    """Agent: lines for people."""

    lines: list[str]


class Done(Message, frozen=True, kw_only=True):
    """Agent: done, nothing to say."""


class Applied(Message, frozen=True, kw_only=True):
    """Agent: every setting in force, as read back."""

    accepted: dict[str, Scalar]


class Live(Message, frozen=True, kw_only=True):
    """Agent: one live sample of the run in progress."""

    sample: Sample


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Raw counters at one instant; what is not counted here is None or absent."""

    device: dict[str, int]
    peer: dict[str, int]
    peer_queue_dropped: int | None
    qdisc_dropped: int | None
    qdisc_queued: int | None
    softnet_dropped: int | None


class Measured(Message, frozen=True, kw_only=True):
    """Agent: one run, raw.

    Attributes
    ----------
    device, device_counter : str
        Whose counter says what left, and which.
    peer_device : str or None
        Whose counters say what arrived.
    at_end : dict of str to int
        Device counters as the engine ended; what `after` has more left a queue later.
    settled : bool
        Whether the queue was empty and two reads in a row agreed in the end.
    """

    report: EngineReport
    before: Reading
    device: str
    device_counter: str
    peer_device: str | None
    at_end: dict[str, int]
    after: Reading
    settled: bool
    carrier: bool
    cpu: int | None
    runqueue_wait_ns: int | None
    steal_ns: int | None
    kernel_warnings: list[str] | None


class Failed(Message, frozen=True, kw_only=True):
    """Agent: the request failed; the client raises the error of that name with the kernel's words kept."""

    kind: str
    message: str
    errno: int | None
    kernel_text: str | None


Request: TypeAlias = (
    Hello | Open | OpenDevice | RestoreAll | Preview | Look | Load | Apply | Restore | Run | Stop
)
Answer: TypeAlias = Welcome | Opened | Told | Done | Applied | Live | Measured | Failed


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
        """Bytes of one whole message; a LabError says when it is too long."""
        body = self._encoder.encode(message)
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
        except msgspec.MsgspecError as odd:
            raise LabError(f"agent protocol: unreadable message: {odd}") from odd
