"""Super-packets against a real kernel: engine and twin alike. What arrives is what a receiver sees."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from labkit.engines.base import EngineReport
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.linux.ethtool import Ethtool
from tests.network.private import Veth, in_private_network, veth_pair
from tests.network.test_engine_kernel import frame, send

pytestmark = pytest.mark.network

both = pytest.mark.parametrize("name", ["gso", "gso-twin"])
MACS = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
ALL_PROTOCOLS = 3


def udp4(payload: bytes, port: int = 9) -> bytes:
    return bytes(MACS / IP(src="10.0.0.1", dst="10.0.0.2", id=7) / UDP(sport=port, dport=9) / payload)


def udp6(payload: bytes, port: int = 9) -> bytes:
    return bytes(MACS / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=port, dport=9) / payload)


@contextlib.contextmanager
def receiver(veth: Veth) -> Iterator[socket.socket]:
    """A socket that sees what arrives at the peer."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) as tap:
        tap.bind((socket.if_indextoname(veth.peer_ifindex), ALL_PROTOCOLS))
        tap.settimeout(5)
        yield tap


def arrived(name: str, frames: list[bytes], count: int, batch: int) -> tuple[EngineReport, list[bytes]]:
    with veth_pair() as veth, receiver(veth) as tap, contextlib.closing(Ethtool()) as ethtool:
        # a veth that may leave checksums to the hardware never fills them in
        ethtool.set_features(veth.ifindex, {"tx_checksum": False})
        report = send(name, veth, frames, count=count, batch=batch)
        return report, [tap.recv(65536) for _ in range(veth.counter("tx_packets"))]


@both
@pytest.mark.parametrize("build", [udp4, udp6])
@pytest.mark.parametrize("payload_bytes", [1, 18, 1000])
@in_private_network
def test_segments_are_the_frame_itself_with_right_checksums(
    name: str, build: object, payload_bytes: int
) -> None:
    assert callable(build)
    wanted = [build(bytes([65 + place]) * payload_bytes, port=place + 1) for place in range(3)]
    report, seen = arrived(name, wanted, count=22, batch=5)
    assert (report.sent, report.super_packets, report.calls) == (22, 5, 5)
    assert len(seen) == 22
    for place, got in enumerate(seen):
        # each frame a batch long in a row; IPv4 identifications count up within it
        packet = Ether(wanted[place // 5 % 3])
        if IP in packet:
            packet[IP].id += place % 5
            del packet[IP].chksum
        assert got == bytes(packet)


@both
@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 1001])
@in_private_network
def test_exactly_count_frames_reach_the_device(name: str, count: int) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], count=count)
        assert report.sent == veth.counter("tx_packets") == count
        assert veth.counter("tx_bytes") == 60 * count
        assert report.super_packets == report.calls == -(-count // 64)


@both
@in_private_network
def test_device_that_cuts_up_itself_counts_super_packets(name: str) -> None:
    with veth_pair() as veth:
        with contextlib.closing(Ethtool()) as ethtool:
            ethtool.set_features(veth.ifindex, {"tx_udp_segmentation": True})
        report = send(name, veth, [frame(60)], count=6400)
        assert (report.sent, report.super_packets) == (6400, 100)
        assert veth.counter("tx_packets") == 100


@both
@in_private_network
def test_segment_over_the_mtu_is_refused_though_the_kernel_would_take_it(name: str) -> None:
    with veth_pair() as veth:
        assert send(name, veth, [frame(1514)], count=42).sent == 42
        report = send(name, veth, [frame(1515)], count=84)
        assert (report.sent, report.refused_by_errno, report.super_packets) == (0, {"EMSGSIZE": 84}, 0)
        assert veth.counter("tx_packets") == 42


@both
@in_private_network
def test_more_segments_than_an_ip_packet_holds_are_refused_with_the_number(name: str) -> None:
    with veth_pair() as veth, pytest.raises(WorkloadError, match="ask for batch 44 or less"):
        send(name, veth, [frame(1514)], count=84, batch=45)


@both
@in_private_network
def test_largest_super_packet_is_sent_or_refused_whole(name: str) -> None:
    with veth_pair() as veth:
        try:
            sent, said = send(name, veth, [frame(60)], count=256, batch=128).sent, ""
        except CapabilityMissingError as older:
            sent, said = 0, str(older)
        assert sent == 256 or "refuses super-packets of 128 UDP segments; it may take 64" in said
        assert sent == veth.counter("tx_packets")


WRONG = {
    "tagged": (bytes(Ether() / Dot1Q() / IP() / UDP() / b"a"), "neither IPv4 nor IPv6"),
    "arp": (frame(60, ethertypes=b"\x08\x06"), "neither IPv4 nor IPv6"),
    "tcp": (frame(60)[:23] + b"\x06" + frame(60)[24:], "IPv4 without UDP"),
    "padded": (udp4(b"abc").ljust(60, b"\0"), "IPv4 says another length"),
    "fragment": (bytes(Ether() / IP(flags="MF") / UDP() / b"abc"), "a fragment"),
    "empty": (udp4(b""), "no payload"),
    "checksum-0": (bytes(Ether() / IP() / UDP(chksum=0) / b"abc"), "a UDP checksum of 0"),
    "short": (frame(30), "too short"),
    "short6": (udp6(b"")[:61], "too short"),
    "icmp6": (bytes(Ether() / IPv6(nh=58) / bytes(9)), "IPv6 without UDP"),
    "length6": (udp6(b"abc") + b"x", "IPv6 says another length"),
    "udp-length": (bytes(Ether() / IP() / UDP(len=9) / b"abc"), "UDP says another length"),
    "version": (frame(60)[:14] + b"\x65" + frame(60)[15:], "no IPv4 header"),
}


@both
@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=list(WRONG))
@in_private_network
def test_frame_that_is_no_plain_udp_is_refused_with_its_number(name: str, wrong: bytes, words: str) -> None:
    with veth_pair() as veth:
        with pytest.raises(WorkloadError, match=rf"gso: frame 1: {words}.*take engine 'sendmmsg'"):
            send(name, veth, [frame(60), wrong], count=10, batch=2)
        assert veth.counter("tx_packets") == 0
