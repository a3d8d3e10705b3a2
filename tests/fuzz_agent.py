"""Hostile streams for the agent's server, and what must hold however it answers them."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

from labkit.agent import protocol
from labkit.agent.channel import MAX_MESSAGE_BYTES, Channel
from labkit.agent.device import StateFolders
from labkit.agent.protocol import Answer, Message, Opened, Request
from labkit.agent.readings import Reading
from labkit.agent.server import Server
from labkit.errors import LabError
from labkit.factors import Scalar
from labkit.linux.kernel_log import KernelLog
from labkit.linux.links import LinkFacts
from labkit.nic.apply import SettingsHost
from labkit.nic.journal import MemoryJournal
from labkit.nic.put_back import notes_of
from tests.fuzz_inputs import refused

LINK = LinkFacts(
    name="fake0",
    ifindex=1,
    mac="02:00:00:00:00:01",
    mtu=1500,
    up=True,
    carrier=True,
    carrier_changes=2,
    operational=True,
    txqueuelen=1000,
)
READING = Reading(
    device={}, peer={}, peer_queue_dropped=None, qdisc_dropped=0, qdisc_queued=0, softnet_dropped=None
)
NO_INTERFACE = 2**31 - 1
"""No kernel numbers an interface so: an engine that is started sends nothing."""
ODD_LENGTHS = [0, 1, 2, 255, 65_536, MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 1, 2**31, 2**32 - 1]
ODD_NUMBERS = [0, 1, -1, 2, 64, 2**31, 2**32, 2**63 - 1, -(2**63), 2**64 - 1]
ODD_VALUES = [
    *(None, True, False, *ODD_NUMBERS, 0.0, -1.5, 1e300, float("inf"), float("nan")),
    *("", "stack", "mtu", "send", "gso", "\x00", b"\xff", b"", bytes(9), [], {}, [[]], ["rx_packets"]),
]
ODD_FIELDS = ["number", "cpu", "rate_pps", "ring_frames", "odd"]
BOMBS = {
    "array": b"\xdd\xff\xff\xff\xff",
    "map": b"\xdf\xff\xff\xff\xff",
    "text": b"\xdb\xff\xff\xff\xff",
    "bytes": b"\xc6\xff\xff\xff\xff",
    "nested": b"\x91" * 100_000,
}
"""MessagePack that announces more than is there, or lies deep within itself."""
BOMB_HEADS = [
    b"",
    b"\x82\xa4type\xa3Run\xadpeer_counters",
    b"\x82\xa4type\xa5Apply\xa8settings",
    b"\x82\xa4type\xa4Look\xa4sink",
    b"\x82\xa4type\xa4Stop\xa3odd",
]
"""What stands before one: nothing, or a message up to a list, a map, a text or an unknown field."""


class MtuKnob:
    """A setting that the fake device keeps."""

    name = "mtu"
    resets_link = False

    def __init__(self) -> None:
        self.value: Scalar = 1500

    def read(self) -> Scalar:
        return self.value

    def write(self, value: Scalar) -> None:
        self.value = value


class FakeHost:
    """A device that is none; `labkit.agent.host.Host`."""

    private = True
    settles_within_ns = 100_000_000
    keeps_time = True

    def __init__(self) -> None:
        knobs = {"mtu": MtuKnob()}
        self._settings = SettingsHost("fake0", knobs, MemoryJournal(), lambda: True)
        self.closed = False

    def look(self, sink: str) -> Opened:
        return Opened(
            privilege="none",
            link=LINK,
            peer=None,
            peer_counters=[],
            settings=self._settings.current(),
            driver=None,
            interrupts=None,
            notes=[],
        )

    def link(self, sink: str) -> LinkFacts:
        return LINK

    def counter(self, sink: str) -> tuple[str, str, str | None]:
        return "fake0", "tx_packets", None

    def ifindex(self, sink: str) -> int:
        return NO_INTERFACE

    def far(self, sink: str) -> None:
        return None

    def read(self, sink: str) -> Reading:
        return READING

    def read_links(self, sink: str) -> tuple[dict[str, int], dict[str, int]]:
        return {}, {}

    def byte_limits(self, sink: str) -> None:
        return None

    def empty_queue(self, sink: str) -> bool:
        return False

    def receiver(self, *_: object) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def preview(self, settings: Mapping[str, Scalar]) -> str:
        self._settings.check(settings)
        return "nothing"

    def apply(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        return self._settings.apply(settings)

    def restore(self, level: int) -> list[str]:
        return notes_of(self._settings.restore(level))

    def close(self) -> None:
        self.closed = True


class FakeServer(Server):
    """The agent's server, but that what it opens is no device."""

    def __init__(self, channel: Channel, log: KernelLog, folders: StateFolders) -> None:
        super().__init__(channel, log, folders)
        self.hosts: list[FakeHost] = []
        openers = (protocol.Open, protocol.OpenDevice, protocol.OpenGuest)
        self._answers |= dict.fromkeys(openers, self._open_fake)

    def _open_fake(self, _: Message) -> Message:
        if self._host is not None:
            raise LabError("agent: a rig is open already")
        self.hosts.append(FakeHost())
        self._host = self.hosts[-1]
        return self._host.look("stack")


def plain_requests() -> list[dict[str, Any]]:
    """One right message of each kind, as plain values that may be spoiled."""
    config: dict[str, Any] = {"ifindex": 1, "batch": 1, "count": 3, "duration_ns": 10_000_000}
    run = {"engine": "send", "sink": "stack", "config": config, "workers": 1, "peer_counters": []}
    lengths = struct.pack("=2I", 60, 60)
    return [
        {"type": "Hello", "version": protocol.PROTOCOL_VERSION},
        {"type": "Open", "force_user_namespace": False, "settings": {}, "peer_carrier": True},
        {
            "type": "OpenDevice",
            "name": "eth7",
            "port": None,
            "i_know": None,
            "look_only": False,
            "ssh_connection": None,
        },
        {"type": "OpenGuest"},
        {"type": "RestoreAll"},
        {"type": "Forget", "device": "eth7"},
        {"type": "Preview", "settings": {"mtu": 1400}},
        {"type": "Look", "sink": "stack"},
        {"type": "Load", "block": bytes(120), "offsets": struct.pack("=2Q", 0, 60), "lengths": lengths},
        {"type": "Apply", "settings": {"mtu": 1400}},
        {"type": "Restore", "level": 0},
        {"type": "Run", **run, "sample_every_ns": 125_000_000},
        {"type": "Stop"},
    ]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Requests in any order, some with a wrong value, type or tag; then bytes, lengths and ends changed."""
    kinds = {str(plain["type"]): plain for plain in plain_requests()}
    opened = draw(st.booleans())
    names = draw(st.lists(st.sampled_from([*kinds, *(["Run", "Run", "Apply", "Load"] * opened)]), max_size=5))
    plain = [kinds[name] for name in (["Hello", "Open", "Load"] * opened)]
    bodies = [msgspec.msgpack.encode({**each, "number": number}) for number, each in enumerate(plain)]
    bodies += [_damaged(draw, {**kinds[name], "number": 3 + place}) for place, name in enumerate(names)]
    data = bytearray(b"".join(struct.pack("!I", len(body)) + body for body in bodies))
    for damage in draw(st.lists(st.sampled_from(["byte", "cut", "tail", "length"]), max_size=2)):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        if damage == "byte" and data:
            data[at] = draw(st.integers(0, 255))
        elif damage == "cut":
            del data[at:]
        elif damage == "tail":
            data += draw(st.binary(max_size=40))
        else:
            data += struct.pack("!I", draw(st.sampled_from(ODD_LENGTHS)))
    return bytes(data)


def _damaged(draw: st.DrawFn, message: dict[str, Any]) -> bytes:
    """Body of `message` as it is, with something spoiled in it, or of something else."""
    damage = draw(st.sampled_from(["none", *["value", "inner"] * 3, "tag", "bomb", "noise"]))
    if damage == "bomb":
        return draw(st.sampled_from(BOMB_HEADS)) + BOMBS[draw(st.sampled_from(sorted(BOMBS)))]
    if damage == "noise":
        return draw(st.binary(min_size=1, max_size=40))
    if damage == "value":
        _spoil(draw, message)
    elif damage == "inner":
        for name, inner in message.items():
            if isinstance(inner, dict):
                message[name] = dict(inner)
                _spoil(draw, message[name])
    elif damage == "tag":
        message["type"] = draw(st.sampled_from([*(plain["type"] for plain in plain_requests()), "Odd", 7]))
    return msgspec.msgpack.encode(message)


def _spoil(draw: st.DrawFn, message: dict[str, Any]) -> None:
    """Give one field another value, a number rather another number; or add a field that nobody knows."""
    name = draw(st.sampled_from([*sorted(message.keys() - {"type", "number"}), *ODD_FIELDS]))
    number = isinstance(message.get(name), int) and draw(st.booleans())
    message[name] = draw(st.sampled_from(ODD_NUMBERS if number else ODD_VALUES))


def check_stream(data: bytes) -> list[Message]:
    """The server answers what it can read, in words; then it ends by itself and gives back what it opened."""
    incoming, outgoing = os.memfd_create("requests"), os.memfd_create("answers")
    log = KernelLog(Path(os.devnull))
    try:
        os.write(incoming, data)
        os.lseek(incoming, 0, os.SEEK_SET)
        with tempfile.TemporaryDirectory() as folder:
            channel = Channel(incoming, outgoing, Request)
            server = FakeServer(channel, log, StateFolders.below(Path(folder)))
            words = refused(LabError, server.serve)
            assert words is None or words.startswith("agent protocol: ")
        assert all(host.closed for host in server.hosts)
        assert len(channel._buffer) <= len(data)
        return answers_of(outgoing)
    finally:
        log.close()
        os.close(incoming)
        os.close(outgoing)


def answers_of(descriptor: int) -> list[Message]:
    """Every answer that was written; each is whole and of the protocol."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    written = b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
    decoder, found = msgspec.msgpack.Decoder(Answer), []
    while written:
        (length,) = struct.unpack_from("!I", written)
        assert 0 < length <= len(written) - 4
        found.append(decoder.decode(written[4 : 4 + length]))
        written = written[4 + length :]
    for answer in found:
        assert isinstance(answer, get_args(Answer))
        if isinstance(answer, protocol.Failed):
            assert answer.message
    return found
