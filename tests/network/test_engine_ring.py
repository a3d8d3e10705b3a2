"""What only a mapped ring can get wrong, against a real kernel: engine and twin alike."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest

from labkit.engines.base import EngineConfig
from labkit.engines.reference_calls import SOL_PACKET
from labkit.engines.reference_ring import ring_call
from labkit.errors import CapabilityMissingError
from labkit.traffic.table import FrameTable
from tests.network.private import Veth, in_private_network, veth_pair
from tests.network.test_engine_kernel import frame, send

pytestmark = pytest.mark.network

PACKET_LOSS = 14  # linux/if_packet.h

both = pytest.mark.parametrize("name", ["tx_ring", "tx_ring-twin"])


def left_or_queued(veth: Veth) -> int:
    """Frames that left and frames in the queue, of a moment at which none went from one to the other."""
    for _ in range(20):
        before = veth.counter("tx_packets")
        queue = veth.ip.get_qdiscs(veth.ifindex)[0].get_nested("TCA_STATS2", "TCA_STATS_QUEUE")
        if veth.counter("tx_packets") == before:
            return before + int(queue["qlen"])
    raise AssertionError("the queue is never still")


@both
@pytest.mark.parametrize("at", [0, 1, 30, 62, 63])
@pytest.mark.parametrize("bad", [frame(13), frame(1515), frame(1519)], ids=["short", "long", "longer"])
@in_private_network
def test_refused_slot_strands_nothing(name: str, at: int, bad: bytes) -> None:
    """A frame that the kernel marks as of wrong format, wherever it lies, round after round of the ring."""
    with veth_pair() as veth:
        frames = [frame(60)] * 64
        frames[at] = bad
        report = send(name, veth, frames, count=6400, batch=64, ring_frames=128, duration_ns=10**10)
        assert (report.sent, report.refused, report.ended_by) == (6300, 100, "count")
        assert report.sent == veth.counter("tx_packets")
        assert veth.counter("tx_bytes") == 60 * 6300


@both
@pytest.mark.parametrize("ring_frames", [64, 128, 4096])
@pytest.mark.parametrize("size", [1, 3, 64, 65, 500])
@in_private_network
def test_every_frame_leaves_whatever_the_ring(name: str, ring_frames: int, size: int) -> None:
    with veth_pair() as veth:
        frames = [frame(60 + place) for place in range(size)]
        report = send(name, veth, frames, count=2003, batch=64, ring_frames=ring_frames)
        assert report.sent == veth.counter("tx_packets") == 2003
        assert veth.counter("tx_bytes") == sum(60 + place % size for place in range(2003))
        assert (report.calls, report.partial_returns) == (32, 0)


@both
@in_private_network
def test_slots_on_their_way_are_waited_for(name: str) -> None:
    with veth_pair() as veth:
        # 125 frames a second, and never more than 64 on their way: the ring is full at once
        veth.ip.tc("add", "tbf", veth.ifindex, handle="1:", rate="1mbit", burst=2000, limit=1 << 20)
        report = send(name, veth, [frame(1000)], batch=16, ring_frames=64, duration_ns=300_000_000)
        assert (report.refused, report.ended_by) == (0, "duration")
        assert 64 < report.sent < 64 + 80
        assert report.sent == left_or_queued(veth)


@both
@in_private_network
def test_raised_mtu_is_noticed(name: str) -> None:
    with veth_pair() as veth:
        assert send(name, veth, [frame(2000)], count=10).refused_by_errno == {"EMSGSIZE": 10}
        veth.set_mtu(9000)
        assert send(name, veth, [frame(2000)], count=10).sent == 10


@both
@in_private_network
def test_ring_without_memory_is_refused_with_a_smaller_one(name: str) -> None:
    with veth_pair() as veth:
        now_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now_bytes + (4 << 20),) * 2)
        with pytest.raises(
            CapabilityMissingError, match="65536 slots of 128 bytes; ask for ring_frames 32768"
        ):
            send(name, veth, [frame(60)], count=1, batch=64, ring_frames=65536)
        assert send(name, veth, [frame(60)], count=1, batch=64, ring_frames=64).sent == 1


@pytest.mark.parametrize(("loss", "counted", "left"), [(0, 1, 1), (1, 3, 2)])
@in_private_network
def test_packet_loss_would_count_a_refused_frame_as_sent(loss: int, counted: int, left: int) -> None:
    """Why the engine leaves it off: the slot of a frame that the kernel skips comes back as a sent one's."""
    frames = [frame(60), frame(13), frame(60)]
    with veth_pair() as veth, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((socket.if_indextoname(veth.ifindex), 0))
        sock.setsockopt(SOL_PACKET, PACKET_LOSS, loss)
        config = EngineConfig(ifindex=veth.ifindex, batch=3, count=3)
        with ring_call(sock, FrameTable.of(frames), config) as call:
            assert (call(frames), veth.counter("tx_packets")) == (counted, left)
