"""Receiving sinks at one end of a veth pair, against frames that the test sends in an order of its own."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from labkit import _native
from labkit.agent.protocol import Run
from labkit.agent.sink_records import Arrived, SinkConfig
from labkit.agent.sinks import Place, Sink, receiving
from labkit.engines.base import EngineConfig
from labkit.errors import CapabilityMissingError, LabError
from labkit.traffic.table import FrameTable
from tests.network.private import Veth, in_private_network, veth_pair
from tests.stamped_frames import stamped

pytestmark = pytest.mark.network

both = pytest.mark.parametrize("sink", ["rx_ring", "socket"])
in_own_user_namespace = os.geteuid() != 0 or os.environ.get("LABKIT_USERNS") == "1"
needs_root = pytest.mark.skipif(in_own_user_namespace, reason="an XDP program takes root of the machine")

NEIGHBOUR = bytes.fromhex("ffffffffffff020000000007") + b"\x08\x06" + bytes(46)
DISCOVERY = bytes.fromhex("333300000001020000000001") + b"\x86\xdd" + bytes(60)


def table(size: int = 4, **more: Any) -> FrameTable:
    return FrameTable.of(stamped(0, fill=index, **more) for index in range(size))


def numbered(places: Sequence[int], size: int = 4, **more: Any) -> list[bytes]:
    """Frames as an engine numbers them: frame k is frame k % size of the table."""
    return [stamped(place, fill=place % size, **more) for place in places]


def request(sink: str, *, count: int | None = None, **config: Any) -> Run:
    return Run(
        engine="sendmmsg",
        sink=sink,
        config=EngineConfig(ifindex=1, batch=64, count=count, duration_ns=1, stamp=True),
        workers=1,
        sample_every_ns=1,
        peer_counters=[],
        sink_config=SinkConfig(**config),
    )


def place(veth: Veth) -> Place:
    return Place(ifindex=veth.peer_ifindex, inside=contextlib.nullcontext, promiscuous=False)


@contextlib.contextmanager
def receiver(veth: Veth, asked: Run, frames: FrameTable) -> Iterator[Sink]:
    with receiving(asked, frames, _native.Progress(), [0], place(veth)) as sink:
        yield sink


def send(veth: Veth, frames: Sequence[bytes], *, from_peer: bool = False) -> None:
    """Hand `frames` over in this order, one after the other."""
    ifname = socket.if_indextoname(veth.peer_ifindex if from_peer else veth.ifindex)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((ifname, 0))
        for frame in frames:
            sender.send(frame)


def arrived(veth: Veth, sink: str, sent: Sequence[bytes], frames: FrameTable, **config: Any) -> Arrived:
    with receiver(veth, request(sink, **config), frames) as receiving_sink:
        send(veth, sent)
        return receiving_sink.finish(len(sent))


@both
@pytest.mark.parametrize(
    ("order", "distinct", "duplicates", "reordered"),
    [
        (range(300), 300, 0, 0),
        ([0, 1, 2, 5, 4, 3, 6], 7, 0, 2),
        ([0, 1, 1, 2, 2, 2, 3], 4, 3, 0),
        ([0, 9, 3, 3, 10], 4, 1, 1),
    ],
)
@in_private_network
def test_disorder_on_the_wire_is_told_as_it_was_sent(
    sink: str, order: Sequence[int], distinct: int, duplicates: int, reordered: int
) -> None:
    with veth_pair() as veth:
        told = arrived(veth, sink, numbered(order), table())
        assert (told.received, told.foreign, told.corrupted) == (len(order), 0, 0)
        assert (told.distinct, told.duplicates, told.reordered) == (distinct, duplicates, reordered)
        assert (told.kernel_dropped, told.drained) == (0, True)
        assert veth.counter("tx_packets") == len(order)


@both
@in_private_network
def test_corruption_on_the_wire_is_told_and_its_numbers_are_lost(sink: str) -> None:
    with veth_pair() as veth:
        frames = numbered(range(40))
        for number, at in ((3, 20), (7, 41), (11, 43), (12, 47), (20, -1)):
            spoilt = bytearray(frames[number])
            spoilt[at] ^= 0x10
            frames[number] = bytes(spoilt)
        told = arrived(veth, sink, frames, table())
        assert (told.received, told.corrupted, told.distinct, told.foreign) == (40, 5, 35, 0)


@both
@pytest.mark.parametrize(
    "shape",
    [
        {"tags": b"\x81\x00\x20\x05"},
        {"tags": b"\x88\xa8\x00\x05\x81\x00\x00\x07"},
        {"ipv6": True},
        {"payload_bytes": 1400},
        {"checksum": False},
    ],
    ids=["vlan", "qinq", "ipv6", "long", "unsummed"],
)
@in_private_network
def test_frames_of_every_shape_are_known_again(sink: str, shape: dict[str, Any]) -> None:
    with veth_pair() as veth:
        told = arrived(veth, sink, numbered(range(100), **shape), table(**shape))
        assert (told.received, told.distinct, told.corrupted, told.foreign) == (100, 100, 0, 0)


@both
@in_private_network
def test_stray_frames_are_foreign_and_those_of_the_peer_itself_are_not_seen(sink: str) -> None:
    with veth_pair() as veth:
        with receiver(veth, request(sink), table()) as receiving_sink:
            send(veth, [DISCOVERY, *numbered(range(20)), NEIGHBOUR, *numbered(range(20, 50)), DISCOVERY])
            send(veth, [DISCOVERY, *numbered(range(50, 60))], from_peer=True)
            told = receiving_sink.finish(50)
        assert (told.received, told.distinct, told.corrupted) == (50, 50, 0)
        assert told.foreign == 3
        assert veth.counter("tx_packets") == told.received + told.foreign + (told.kernel_dropped or 0)


@both
@in_private_network
def test_two_sockets_share_the_flows_and_count_each_frame_once(sink: str) -> None:
    with veth_pair() as veth:
        flows = range(32)
        frames = FrameTable.of(stamped(0, port=1000 + flow) for flow in flows)
        sent = [stamped(place, port=1000 + place % 32) for place in range(3200)]
        told = arrived(veth, sink, sent, frames, sockets=2)
        assert (told.received, told.distinct, told.duplicates, told.reordered) == (3200, 3200, 0, 0)
        assert len(told.by_socket) == 2
        assert min(told.by_socket) > 0
        assert sum(told.by_socket) == 3200


@in_private_network
def test_ring_without_room_drops_and_the_kernel_says_how_many() -> None:
    with veth_pair() as veth:
        frames, sent = table(), numbered(range(2000))
        ring = _native.RxRing(
            _native.FrameTable(frames.block, frames.offsets, frames.lengths),
            _native.Progress(),
            ifindex=veth.peer_ifindex,
            addresses=True,
            content=True,
            numbered=True,
            first_number=0,
            burst_frames=None,
            promiscuous=False,
            block_bytes=4096,
            blocks=4,
            retire_ms=1,
        )
        send(veth, sent)  # nobody reads meanwhile
        stop = _native.StopFlag()
        stop.set()
        report = ring.run(stop, None)
        assert 0 < report.received < 400
        assert report.received + report.kernel_dropped == 2000 == veth.counter("tx_packets")
        # the ring kept the first of them, and every number that is missing is one that the kernel dropped
        assert (report.distinct, report.reordered, report.drained) == (report.received, 0, True)


@both
@in_private_network
def test_sink_of_a_device_that_goes_down_still_ends(sink: str) -> None:
    with veth_pair() as veth, receiver(veth, request(sink), table()) as receiving_sink:
        send(veth, numbered(range(10)))
        veth.take_peer_down()
        assert receiving_sink.finish(10).received == 10


@both
@in_private_network
def test_sink_on_no_interface_says_so(sink: str) -> None:
    nowhere = Place(ifindex=4321, inside=contextlib.nullcontext, promiscuous=False)
    with (
        pytest.raises(LabError, match=f"{sink}: no receiving on interface number 4321"),
        receiving(request(sink), table(), _native.Progress(), [0], nowhere),
    ):
        pass


@needs_root
@in_private_network
def test_xdp_program_counts_all_and_is_gone_afterwards() -> None:
    with veth_pair() as veth:
        for _ in range(2):  # a second one finds no other program
            told = arrived(veth, "xdp_drop", [*numbered(range(1001)), NEIGHBOUR], table())
            assert (told.received, told.foreign, told.distinct) == (1002, None, None)
        assert veth.ip.get_links(veth.peer_ifindex)[0].get_nested("IFLA_XDP", "IFLA_XDP_ATTACHED") in (
            0,
            None,
        )
        assert arrived(veth, "socket", numbered(range(10)), table()).received == 10


@needs_root
@in_private_network
def test_interface_with_another_program_is_refused() -> None:
    with (
        veth_pair() as veth,
        receiver(veth, request("xdp_drop"), table()),
        pytest.raises(CapabilityMissingError, match="another XDP program is on the interface"),
        receiver(veth, request("xdp_drop"), table()),
    ):
        pass
