"""What only an AF_XDP socket can get wrong, against a real kernel: engine and twin alike."""

from __future__ import annotations

import ctypes
import resource
import socket
import struct
import threading

import pytest

from labkit._native import Progress, StopFlag
from labkit.engines.base import EngineConfig, EngineReport
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.traffic.table import FrameTable
from tests.network.private import Veth, in_private_network, veth_pair, wait_for_link
from tests.network.test_engine_kernel import ENGINES, frame, send, tagged

pytestmark = pytest.mark.network

both = pytest.mark.parametrize("name", ["af_xdp", "af_xdp-twin"])

CAP_IPC_LOCK = 14
ALL_PROTOCOLS = 3
ATTEMPTS = 10**12
"""More frames than any test waits for."""


@both
@pytest.mark.parametrize("at", [0, 1, 30, 31, 32, 62, 63])
@pytest.mark.parametrize(
    ("bad", "why"),
    [(frame(13), "EINVAL"), (frame(1515), "EMSGSIZE"), (frame(1518), "EMSGSIZE"), (tagged(1519), "EMSGSIZE")],
    ids=["short", "long", "untagged", "longer"],
)
@in_private_network
def test_frame_that_is_refused_strands_nothing(name: str, at: int, bad: bytes, why: str) -> None:
    """Wherever it lies, round after round of the ring; the kernel looks at neither length itself."""
    with veth_pair() as veth:
        frames = [frame(60)] * 64
        frames[at] = bad
        report = send(name, veth, frames, count=6400, batch=64, ring_frames=128, duration_ns=10**10)
        assert (report.sent, report.refused_by_errno, report.ended_by) == (6300, {why: 100}, "count")
        assert report.sent == veth.counter("tx_packets")
        assert veth.counter("tx_bytes") == 60 * 6300


@both
@pytest.mark.parametrize("at", [0, 1, 30, 31, 32, 62, 63])
@in_private_network
def test_frame_that_the_device_drops_is_refused_and_never_sent(name: str, at: int) -> None:
    with veth_pair() as veth:
        veth.ip.link("set", index=veth.peer_ifindex, mtu=1000)
        frames = [frame(60)] * 64
        frames[at] = frame(1400)
        report = send(name, veth, frames, count=6400, batch=64, ring_frames=128, duration_ns=10**10)
        assert (report.sent, report.refused_by_errno, report.ended_by) == (6300, {"EBUSY": 100}, "count")
        assert report.sent == veth.counter("tx_packets")
        assert veth.counter("tx_bytes") == 60 * 6300


@both
@pytest.mark.parametrize("ring_frames", [16, 64, 2048])
@pytest.mark.parametrize("size", [1, 3, 64, 65, 500])
@in_private_network
def test_every_frame_leaves_whatever_the_ring(name: str, ring_frames: int, size: int) -> None:
    with veth_pair() as veth:
        frames = [frame(60 + place) for place in range(size)]
        report = send(name, veth, frames, count=2003, batch=min(64, ring_frames), ring_frames=ring_frames)
        assert report.sent == veth.counter("tx_packets") == 2003
        assert veth.counter("tx_bytes") == sum(60 + place % size for place in range(2003))
        assert (report.refused, report.partial_returns) == (0, 0)


@both
@in_private_network
def test_flow_larger_than_the_memory_leaves_in_order(name: str) -> None:
    with veth_pair() as veth:
        lengths = [1100 + place % 397 for place in range(3000)]
        frames = [frame(length) for length in lengths]
        report = send(name, veth, frames, count=6007, batch=64, ring_frames=64)
        assert report.sent == veth.counter("tx_packets") == 6007
        assert veth.counter("tx_bytes") == 2 * sum(lengths) + sum(lengths[:7])


@both
@pytest.mark.parametrize("size", [70, 5000], ids=["copied-once", "copied-on-use"])
@in_private_network
def test_frames_arrive_as_they_are(name: str, size: int) -> None:
    with veth_pair() as veth, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        tap.bind((socket.if_indextoname(veth.peer_ifindex), ALL_PROTOCOLS))
        tap.settimeout(5)
        frames = [frame(1040) + place.to_bytes(4, "big") + bytes(place % 50) for place in range(size)]
        sent = send(name, veth, frames, count=90, batch=33, ring_frames=64).sent
        assert sent == 90
        assert [tap.recv(65536) for _ in range(sent)] == [frames[place % size] for place in range(90)]


@both
@pytest.mark.parametrize("size", [3, 70, 5000])
@in_private_network
def test_stamped_frame_that_the_device_drops_keeps_its_number(name: str, size: int) -> None:
    """Round after round of a ring that holds fewer frames than leave, or than the flow has."""
    with veth_pair() as veth, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        tap.bind((socket.if_indextoname(veth.peer_ifindex), ALL_PROTOCOLS))
        tap.settimeout(5)
        veth.ip.link("set", index=veth.peer_ifindex, mtu=1000)
        frames = [frame(1400 if place % 3 == 1 else 60) for place in range(size)]
        report = send(name, veth, frames, count=300, batch=33, ring_frames=64, stamp=True)
        wanted = [number for number in range(300) if number % size % 3 != 1]
        assert (report.sent, report.refused_by_errno) == (len(wanted), {"EBUSY": 300 - len(wanted)})
        arrived = [tap.recv(65536) for _ in wanted]
        assert [int.from_bytes(got[46:50], "big") for got in arrived] == wanted


@both
@in_private_network
def test_peer_down_refuses_every_frame(name: str) -> None:
    with veth_pair() as veth:
        veth.take_peer_down()
        report = send(name, veth, [frame(60)], count=100)
        assert (report.sent, report.refused_by_errno, report.ended_by) == (0, {"EBUSY": 100}, "count")
        assert (veth.counter("tx_packets"), veth.counter("tx_dropped")) == (0, 100)


@both
@pytest.mark.parametrize("qdisc_bypass", [False, True])
@in_private_network
def test_queueing_discipline_is_passed_by_and_the_report_says_so(name: str, qdisc_bypass: bool) -> None:
    with veth_pair() as veth:
        veth.ip.tc("add", "tbf", veth.ifindex, handle="1:", rate="1mbit", burst=2000, limit=3000)
        report = send(name, veth, [frame(1000)], count=320, qdisc_bypass=qdisc_bypass)
        assert (report.sent, report.refused, report.qdisc_bypass) == (320, 0, True)
        assert report.zero_copy is False
        assert veth.counter("tx_packets") == 320


@both
@in_private_network
def test_raised_mtu_is_noticed(name: str) -> None:
    with veth_pair() as veth:
        assert send(name, veth, [frame(2000)], count=10).refused_by_errno == {"EMSGSIZE": 10}
        veth.set_mtu(3000)
        assert send(name, veth, [frame(2000)], count=10).sent == 10


@both
@in_private_network
def test_runs_back_to_back_wait_for_the_queue(name: str) -> None:
    with veth_pair() as veth:
        for _ in range(5):
            assert send(name, veth, [frame(60)], count=10).sent == 10
        assert veth.counter("tx_packets") == 50


@both
@in_private_network
def test_largest_batch_is_sent_whole(name: str) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], count=2048, batch=1024)
        assert (report.sent, report.partial_returns) == (2048, 0)
        # one call a batch where the kernel lets a socket ask for that, else one for 32 frames
        assert report.calls in {2, 64}
        with pytest.raises(WorkloadError, match="1 to 1024"):
            send(name, veth, [frame(60)], count=4096, batch=4096)
        assert veth.counter("tx_packets") == 2048


@both
@in_private_network
def test_queue_that_is_not_there_is_refused_with_its_number(name: str) -> None:
    with veth_pair() as veth:
        with pytest.raises(CapabilityMissingError, match=r"no queue 7.*tx_channels"):
            send(name, veth, [frame(60)], count=1, queue=7)
        assert veth.counter("tx_packets") == 0


@both
@in_private_network
def test_queue_that_only_receives_ends_the_run_instead_of_standing_still(name: str) -> None:
    with veth_pair() as veth:
        veth.ip.link("add", ifname="wide0", kind="veth", peer={"ifname": "wide1"}, num_rx_queues=2)
        ends = [veth.ip.link_lookup(ifname=each)[0] for each in ("wide0", "wide1")]
        for ifindex in ends:
            veth.ip.link("set", index=ifindex, state="up")
        for ifindex in ends:
            wait_for_link(veth.ip, ifindex, ready=True)
        assert send(name, veth, [frame(60)], count=5, ifindex=ends[0]).sent == 5
        report = send(name, veth, [frame(60)], count=5, ifindex=ends[0], queue=1)
        assert (report.sent, report.fatal_errno, report.ended_by) == (0, "ENXIO", "error")


@both
@pytest.mark.parametrize("how", ["deleted", "down"])
@in_private_network
def test_interface_that_goes_away_ends_the_run_and_keeps_the_counts(name: str, how: str) -> None:
    with veth_pair() as veth:
        run = Running(name, veth)
        run.wait_until_it_sends()
        if how == "deleted":
            veth.ip.link("del", index=veth.ifindex)
        else:
            veth.ip.link("set", index=veth.ifindex, state="down")
        report = run.ended()
        assert report.ended_by == "error"
        # a packet on its way while the interface goes down may still be dropped by the device
        assert report.fatal_errno in {"ENETDOWN", "ENXIO"}
        assert report.sent is not None
        assert report.sent > 0
        if how == "down":
            assert report.sent == veth.counter("tx_packets")


class Running:
    """An engine that sends on a thread until it is stopped or fails."""

    def __init__(self, name: str, veth: Veth) -> None:
        self.stop, self.progress = StopFlag(), Progress()
        self._reports: list[EngineReport] = []
        config = EngineConfig(ifindex=veth.ifindex, batch=64, count=ATTEMPTS, duration_ns=30 * 10**9)
        table = FrameTable.of([frame(60)])
        self._thread = threading.Thread(
            target=lambda: self._reports.append(ENGINES[name].run(table, config, self.stop, self.progress))
        )
        self._thread.start()

    def wait_until_it_sends(self) -> None:
        while self._thread.is_alive() and self.progress.sent == 0:
            threading.Event().wait(0.001)

    def ended(self) -> EngineReport:
        self._thread.join()
        return self._reports[0]


@both
@in_private_network
def test_queue_of_somebody_else_is_refused_in_time(name: str) -> None:
    with veth_pair() as veth:
        other = Running("af_xdp", veth)
        other.wait_until_it_sends()
        with pytest.raises(CapabilityMissingError, match="another AF_XDP socket holds queue 0"):
            send(name, veth, [frame(60)], count=1)
        other.stop.set()
        sent = other.ended().sent
        assert sent == veth.counter("tx_packets")


@in_private_network
def test_stop_ends_the_wait_for_a_queue() -> None:
    with veth_pair() as veth:
        other = Running("af_xdp", veth)
        other.wait_until_it_sends()
        waiting = Running("af_xdp", veth)
        waiting.stop.set()
        report = waiting.ended()
        assert (report.sent, report.calls, report.ended_by, report.elapsed_ns) == (0, 0, "stop", 0)
        other.stop.set()
        assert other.ended().sent == veth.counter("tx_packets")


@both
@in_private_network
def test_memory_that_may_not_be_locked_is_refused_with_the_limit(name: str) -> None:
    with veth_pair() as veth:
        give_up_memory_privilege()
        # a page less than the large flow wants: what else this user has locked counts (perf's buffers)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (4_190_208, 4_190_208))
        with pytest.raises(CapabilityMissingError, match=r"AF_XDP, of which .* 4190208 bytes.*ulimit -l"):
            send(name, veth, [frame(1500)] * 3000, count=1)
        assert send(name, veth, [frame(60)], count=1, batch=64, ring_frames=64).sent == 1


def give_up_memory_privilege() -> None:
    """Take CAP_IPC_LOCK, which knows no limit, from this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    assert libc.capget(header, data) == 0
    sets = list(struct.unpack("=6I", data.raw))
    sets[0] &= ~(1 << CAP_IPC_LOCK)
    assert libc.capset(header, struct.pack("=6I", *sets)) == 0


@both
@in_private_network
def test_frame_longer_than_a_page_is_refused_before_a_socket_is_opened(name: str) -> None:
    with veth_pair() as veth, pytest.raises(WorkloadError, match="holds 4096; take engine 'sendmmsg'"):
        send(name, veth, [frame(4097)], count=1)
