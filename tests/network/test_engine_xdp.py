"""Live frames against a real kernel, as root: exact counts at device and peer, and the table's bytes."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from labkit._native import Progress, StopFlag, monotonic_ns
from labkit.engines.base import EngineConfig, EngineReport
from labkit.engines.choose import choose
from labkit.errors import CapabilityMissingError, LabError, WorkloadError
from labkit.linux.ethtool import Ethtool
from labkit.linux.link_stats import LinkStats
from labkit.traffic.flows import Flow, udp_flow
from labkit.traffic.table import FrameTable
from labkit.traffic.vary import randoms
from tests.network.private import Veth, in_private_network, veth_pair
from tests.network.test_engine_kernel import STOP_LIMIT_NS, frame, tagged

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("LABKIT_USERNS") == "1",
    reason="live frames need root outside of any user namespace",
)
pytestmark = [pytest.mark.network, pytest.mark.user, as_root]

ALL_PROTOCOLS = 3
BUFFER_BYTES = 64 << 20
SO_RCVBUFFORCE = 33
MAGIC = 0xBE9BE955


@contextlib.contextmanager
def napi_veth() -> Iterator[Veth]:
    """A veth pair whose peer has a NAPI, without which no frame of an XDP program arrives."""
    with veth_pair() as veth, contextlib.closing(Ethtool()) as ethtool:
        ethtool.set_features(veth.peer_ifindex, {"gro": True})
        yield veth


def send(veth: Veth, frames: list[bytes] | FrameTable, **asked: object) -> EngineReport:
    table = frames if isinstance(frames, FrameTable) else FrameTable.of(frames)
    values = {"ifindex": veth.ifindex, "batch": choose("xdp_live").default_batch} | asked
    progress = Progress()
    report = choose("xdp_live").run(table, EngineConfig(**values), StopFlag(), progress)
    assert report.sent is None
    assert (progress.sent, progress.refused) == (report.attempted, report.refused)
    return report


def received(veth: Veth) -> int:
    """What the peer's stack dropped as somebody else's: a counter that the sender's end does not write."""
    with contextlib.closing(LinkStats()) as stats:
        return stats.read(veth.peer_ifindex)["rx_otherhost_dropped"]


def arrived(veth: Veth, table: FrameTable, count: int, **asked: object) -> list[bytes]:
    """The frames as a socket at the peer sees them, in their order."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        tap.bind((socket.if_indextoname(veth.peer_ifindex), ALL_PROTOCOLS))
        tap.settimeout(5)
        assert send(veth, table, count=count, **asked).attempted == count
        return [tap.recv(65536) for _ in range(count)]


def sum_is_right(frame_bytes: bytes) -> bool:
    """Whether the UDP checksum over IPv4 is that of the bytes (RFC 768)."""
    udp = frame_bytes[34:]
    covered = frame_bytes[26:34] + struct.pack("!HH", 17, len(udp)) + udp + b"\0" * (len(udp) % 2)
    total = sum(struct.unpack(f"!{len(covered) // 2}H", covered))
    return total % 0xFFFF == 0 and udp[6:8] != b"\0\0"


@pytest.mark.parametrize("frames", [1, 3], ids=["alike", "differing"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1001, 20_000])
@in_private_network
def test_exactly_count_frames_arrive(count: int, frames: int) -> None:
    with napi_veth() as veth:
        table = [frame(59) + bytes([place]) for place in range(frames)]
        report = send(veth, table, count=count)
        assert report.attempted == veth.counter("tx_packets") == received(veth) == count
        assert veth.counter("tx_bytes") == 60 * count
        assert (report.refused, report.partial_returns, report.ended_by) == (0, 0, "count")
        assert report.calls == -(-count // choose("xdp_live").default_batch)
        assert report.qdisc_bypass is True


@pytest.mark.parametrize("batch", [1, 64, 100])
@in_private_network
def test_call_takes_a_batch(batch: int) -> None:
    with napi_veth() as veth:
        report = send(veth, [frame(60)], count=1001, batch=batch)
        assert (report.attempted, report.calls) == (1001, -(-1001 // batch))
        assert received(veth) == 1001


@in_private_network
def test_peer_without_napi_gets_nothing_and_no_call_says_so() -> None:
    with veth_pair() as veth:
        report = send(veth, [frame(60)], count=1001)
        assert (report.attempted, report.sent, report.refused, report.fatal_errno) == (1001, None, 0, None)
        assert veth.counter("tx_packets") == received(veth) == 0


TABLES = {
    "ports-addresses": (udp_flow(66, 2000, seed=4, vary={"IP.src": randoms(50)}), 2000),
    "seven": (udp_flow(66, 7), 7),
    "macs-numbers": (udp_flow(66, 1000, pktgen_header=True, vary={"Ether.src": randoms(1000)}), 1000),
}


@pytest.mark.parametrize(("flow", "frames"), list(TABLES.values()), ids=list(TABLES))
@in_private_network
def test_every_frame_is_the_tables_byte_for_byte(flow: Flow, frames: int) -> None:
    table = flow.table()
    with napi_veth() as veth:
        seen = arrived(veth, table, 2000)
    assert len(table) == frames
    wanted = [table.frame(place) for place in range(len(table))]
    equal = sum(got == want for got, want in zip(seen, itertools.cycle(wanted), strict=False))
    assert (equal, sum(map(sum_is_right, seen))) == (2000, 2000)


@pytest.mark.parametrize("checksum", [None, 0], ids=["summed", "no-checksum"])
@pytest.mark.parametrize("rate_pps", [None, 20_000.0])
@in_private_network
def test_stamps_count_on_tell_the_time_and_keep_the_checksum(
    checksum: int | None, rate_pps: float | None
) -> None:
    def one(port: int) -> bytes:
        macs = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
        udp = UDP(sport=port, dport=9) if checksum is None else UDP(sport=port, dport=9, chksum=checksum)
        return bytes(macs / IP(src="10.0.0.1", dst="10.0.0.2") / udp / (b"payload-" * 3))

    table = FrameTable.of(map(one, range(1, 8)))
    with napi_veth() as veth:
        before_s = int(time.time())
        seen = arrived(veth, table, 1000, stamp=True, rate_pps=rate_pps, batch=300)
        after_s = int(time.time())
    times_us = []
    for place, got in enumerate(seen):
        magic, number, seconds, microseconds = struct.unpack_from("!4I", got, 42)
        assert (magic, number) == (MAGIC, place)
        assert microseconds < 1_000_000
        times_us.append(seconds * 1_000_000 + microseconds)
        want = table.frame(place % 7)
        assert got[:40] + got[58:] == want[:40] + want[58:]
        assert sum_is_right(got) if checksum is None else got[40:42] == b"\0\0"
    assert before_s <= times_us[0] // 1_000_000 <= times_us[-1] // 1_000_000 <= after_s
    assert times_us == sorted(times_us)
    if rate_pps is not None:
        # the time at which a frame is due, however late it is
        assert {later - earlier for earlier, later in itertools.pairwise(times_us)} == {50}


@in_private_network
def test_stamp_needs_room_and_one_place() -> None:
    with napi_veth() as veth:
        with pytest.raises(WorkloadError, match=r"frame 0: .* hold no stamp"):
            send(veth, [frame(57)], count=1, stamp=True)
        summed = frame(60)[:40] + b"\x12\x34" + frame(60)[42:]
        unsummed = frame(60)[:40] + b"\0\0" + frame(60)[42:]
        with pytest.raises(WorkloadError, match=r"frame 1 has its payload at another byte .* or only one"):
            send(veth, [summed, unsummed], count=1, stamp=True)
        assert veth.counter("tx_packets") == 0


@pytest.mark.parametrize("rate_pps", [None, 2.0, 5000.0])
@in_private_network
def test_stop_from_another_thread_acts_at_once(rate_pps: float | None) -> None:
    stop, progress, stopped_at = StopFlag(), Progress(), []

    def stop_when_sending() -> None:
        while progress.sent == 0:
            threading.Event().wait(0.001)
        stopped_at.append(monotonic_ns())
        stop.set()

    with napi_veth() as veth:
        engine = choose("xdp_live")
        config = EngineConfig(
            ifindex=veth.ifindex, batch=engine.default_batch, duration_ns=30_000_000_000, rate_pps=rate_pps
        )
        other = threading.Thread(target=stop_when_sending)
        other.start()
        report = engine.run(FrameTable.of([frame(1000)]), config, stop, progress)
        took_ns = monotonic_ns() - stopped_at[0]
        other.join()
        assert report.ended_by == "stop"
        assert took_ns < STOP_LIMIT_NS
        assert report.attempted == veth.counter("tx_packets") + veth.counter("tx_dropped")


@pytest.mark.parametrize(("rate_pps", "duration_s", "frames"), [(10.5, 1.0, 11), (400.0, 0.5, 200)])
@in_private_network
def test_paced_run_sends_what_the_rate_says(rate_pps: float, duration_s: float, frames: int) -> None:
    with napi_veth() as veth:
        report = send(veth, [frame(60)], rate_pps=rate_pps, duration_ns=int(duration_s * 1e9))
        assert report.ended_by == "duration"
        assert report.attempted == veth.counter("tx_packets")
        assert frames // 2 <= report.attempted <= frames + max(1, frames // 50)


@in_private_network
def test_signals_that_interrupt_calls_cost_no_frame_and_add_none() -> None:
    seen = []
    signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    with napi_veth() as veth:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        report = send(veth, [frame(60), frame(59) + b"x"], count=200_001)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert report.partial_returns > 0
        assert report.attempted == 200_001 == veth.counter("tx_packets") + veth.counter("tx_dropped")


@pytest.mark.parametrize(
    ("legal", "too_long"), [(frame(1514), frame(1515)), (tagged(1518), tagged(1519))], ids=["1514", "tagged"]
)
@in_private_network
def test_mtu_and_header_and_one_tag_is_the_longest_frame(legal: bytes, too_long: bytes) -> None:
    with napi_veth() as veth:
        assert send(veth, [legal], count=42).attempted == veth.counter("tx_packets") == 42
        report = send(veth, [too_long], count=42)
        assert (report.attempted, report.refused_by_errno) == (0, {"EMSGSIZE": 42})
        assert veth.counter("tx_packets") == 42


@pytest.mark.parametrize("length", [13, 3800])
@in_private_network
def test_frame_that_no_page_or_header_holds_is_refused_with_words(length: int) -> None:
    with napi_veth() as veth:
        veth.set_mtu(9000)
        with pytest.raises(WorkloadError, match=f"frames of {length} bytes are no live frames.*'af_xdp'"):
            send(veth, [frame(length)], count=1)
        assert send(veth, [frame(3300)], count=5).attempted == veth.counter("tx_packets") == 5


@in_private_network
def test_frames_of_several_lengths_are_refused_with_the_lengths() -> None:
    with napi_veth() as veth, pytest.raises(WorkloadError, match=r"60 to 61 bytes.*take engine 'af_xdp'"):
        send(veth, [frame(60), frame(61)], count=1)


@in_private_network
def test_device_that_is_down_or_gone_ends_the_run() -> None:
    with napi_veth() as veth:
        veth.ip.link("set", index=veth.ifindex, state="down")
        report = send(veth, [frame(60)], count=10)
        assert (report.attempted, report.fatal_errno, report.ended_by) == (0, "ENETDOWN", "error")
        veth.ip.link("del", index=veth.ifindex)
        with pytest.raises(LabError, match=r"xdp_live: .*still there"):
            send(veth, [frame(60)], count=10)


@pytest.mark.parametrize("batch", [0, 16_385])
@in_private_network
def test_batch_beyond_a_call_is_refused(batch: int) -> None:
    with napi_veth() as veth, pytest.raises(WorkloadError, match="1 to 16384 frames a call"):
        send(veth, [frame(60)], count=1, batch=batch)


def test_user_namespace_has_no_live_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_private_network
    def within() -> None:
        with veth_pair() as veth:
            with pytest.raises(
                CapabilityMissingError, match=r"CAP_BPF.*'af_xdp', 'gso' or 'sendmmsg'"
            ) as told:
                send(veth, [frame(60)], count=1)
            assert told.value.errno is not None
            assert veth.counter("tx_packets") == 0

    monkeypatch.setenv("LABKIT_USERNS", "1")
    within()
