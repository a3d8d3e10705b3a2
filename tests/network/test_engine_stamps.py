"""Stamps as they arrive: numbers in order, checksums right, times that the run had. Engine and twin alike."""

from __future__ import annotations

import contextlib
import mmap
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from labkit.engines.base import EngineReport
from labkit.errors import WorkloadError
from labkit.linux.ethtool import Ethtool
from tests.network.private import Veth, in_private_network, veth_pair
from tests.network.test_engine_kernel import ENGINES, every_engine, frame, send

pytestmark = pytest.mark.network

MACS = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
ALL_PROTOCOLS = 3
# linux/if_packet.h
SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, TPACKET_V2, TP_STATUS_USER = 263, 5, 10, 1, 1
SLOTS, SLOT_BYTES, BLOCK_BYTES = 4096, 512, 4096
LIMIT_S = 20
HEADER = struct.Struct("!4I")
FLOWS = {
    "ipv4": MACS / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=9) / bytes(18),
    "ipv6": MACS / IPv6(src="fd00::1", dst="fd00::2") / UDP(dport=9) / bytes(17),
    "tagged": MACS / Dot1Q(vlan=5) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=9) / bytes(200),
}


def flow(name: str, frames: int) -> list[bytes]:
    packet = FLOWS[name].copy()
    made = []
    for port in range(1, frames + 1):
        packet[UDP].sport = port
        made.append(bytes(packet))
    return made


@contextlib.contextmanager
def mapped_receiver(veth: Veth) -> Iterator[Callable[[int], list[bytes]]]:
    """What arrives at the peer, in memory enough for all of it; the kernel takes off an outer tag."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        request = struct.pack("=4I", BLOCK_BYTES, SLOTS * SLOT_BYTES // BLOCK_BYTES, SLOT_BYTES, SLOTS)
        tap.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        with mmap.mmap(tap.fileno(), SLOTS * SLOT_BYTES) as memory:
            tap.bind((socket.if_indextoname(veth.peer_ifindex), ALL_PROTOCOLS))

            def first(count: int) -> list[bytes]:
                return [_slot(memory, place * SLOT_BYTES) for place in range(count)]

            yield first


def _slot(memory: mmap.mmap, at: int) -> bytes:
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        status, _, kept_bytes, mac_at = struct.unpack_from("=IIIH", memory, at)
        if status & TP_STATUS_USER:
            return memory[at + mac_at : at + mac_at + kept_bytes]
    raise TimeoutError(f"slot {at // SLOT_BYTES} is still empty after {LIMIT_S} s")


def arrived(name: str, frames: list[bytes], count: int, **asked: object) -> tuple[EngineReport, list[bytes]]:
    with veth_pair() as veth, mapped_receiver(veth) as first, contextlib.closing(Ethtool()) as ethtool:
        # a veth that may leave checksums to the hardware never fills in those of super-packets
        ethtool.set_features(veth.ifindex, {"tx_checksum": False})
        report = send(name, veth, frames, count=count, stamp=True, **asked)
        return report, first(report.sent or 0)


def stamp_of(got: bytes, kind: str) -> tuple[int, int, int]:
    """Number and microseconds of a stamp, and the flow's port."""
    at = len(got) - len(FLOWS[kind][UDP].payload)
    magic, number, seconds, microseconds = HEADER.unpack_from(got, at)
    assert magic == 0xBE9BE955
    return number, 1_000_000 * seconds + microseconds, int.from_bytes(got[at - 8 : at - 6], "big")


def checked(got: bytes, kind: str) -> int:
    """The ones' complement sum of a datagram and its pseudo header: 0 where the checksum is right."""
    udp_at = len(got) - len(FLOWS[kind][UDP].payload) - 8
    addresses = got[22:54] if kind == "ipv6" else got[26:34]
    summed = addresses + got[udp_at:] + bytes(len(got[udp_at:]) % 2)
    words: tuple[int, ...] = struct.unpack(f"!{len(summed) // 2}H", summed)
    return (sum(words) + 17 + len(got) - udp_at) % 0xFFFF


@pytest.mark.parametrize("frames", [1, 3, 500])
@pytest.mark.parametrize(
    ("name", "kind"),
    # super-packets have no tags
    [(name, kind) for name in ENGINES for kind in FLOWS if "gso" not in name or kind != "tagged"],
)
@in_private_network
def test_every_frame_arrives_numbered_and_with_a_right_checksum(name: str, kind: str, frames: int) -> None:
    began_us = time.time_ns() // 1_000
    report, seen = arrived(name, flow(kind, frames), count=2000)
    ended_us = time.time_ns() // 1_000
    assert (report.sent, report.refused) == (2000, 0)
    assert {checked(got, kind) for got in seen} == {0}
    stamps = [stamp_of(got, kind) for got in seen]
    assert [number for number, _, _ in stamps] == list(range(2000))
    times = [at_us for _, at_us, _ in stamps]
    assert times == sorted(times)
    assert began_us <= times[0] <= times[-1] <= ended_us
    if "gso" not in name:
        assert [port for _, _, port in stamps] == [place % frames + 1 for place in range(2000)]


@every_engine
@pytest.mark.parametrize("rate_pps", [20_000.0, 200_000.0])
@in_private_network
def test_paced_frames_carry_their_due_times(name: str, rate_pps: float) -> None:
    _, seen = arrived(name, flow("ipv4", 3), count=1000, rate_pps=rate_pps)
    stamps = [stamp_of(got, "ipv4") for got in seen]
    first_us = stamps[0][1]
    for number, at_us, _ in stamps:
        assert abs(at_us - first_us - number * 1e6 / rate_pps) <= 1


@every_engine
@in_private_network
def test_frame_without_room_is_refused_before_anything_is_sent(name: str) -> None:
    with veth_pair() as veth:
        with pytest.raises(WorkloadError, match=rf"{ENGINES[name].name}: frame 1: 57 bytes .* it takes 58"):
            send(name, veth, [frame(58), frame(57)], count=10, stamp=True)
        assert veth.counter("tx_packets") == 0


@pytest.mark.parametrize(
    "name", ["sendmmsg", "sendmmsg-twin", "tx_ring", "tx_ring-twin", "af_xdp", "af_xdp-twin"]
)
@in_private_network
def test_refused_frame_keeps_its_number(name: str) -> None:
    too_long = bytes(MACS / IP(dst="10.0.0.2") / UDP(sport=3) / bytes(1600))
    frames = [*flow("ipv4", 2), too_long, *flow("ipv4", 1)]
    report, seen = arrived(name, frames, count=100)
    assert (report.sent, report.refused_by_errno) == (75, {"EMSGSIZE": 25})
    numbers = [stamp_of(got, "ipv4")[0] for got in seen]
    assert numbers == [number for number in range(100) if number % 4 != 2]
