"""Bad input is named before anything is built: the field, the value, and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Timestamp
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from labkit.errors import WorkloadError
from labkit.traffic.flows import Flow, choices, count, parse_vary, randoms, udp_flow
from labkit.traffic.limits import check_frames, longest_legal_bytes
from labkit.traffic.table import FrameTable

NO_MAC = "six pairs of hex digits"


@pytest.mark.parametrize(
    ("craft", "said"),
    [
        (lambda: Ether() / Dot1Q(vlan=4096) / IP() / UDP(), r"Dot1Q\.vlan: 4096 .* 0\.\.4095"),
        (lambda: Ether() / Dot1Q(prio=9) / IP() / UDP(), r"Dot1Q\.prio: 9 .* 0\.\.7"),
        (lambda: Ether(dst="nonsense") / IP() / UDP(), rf"Ether\.dst: 'nonsense' .* {NO_MAC}"),
        (lambda: Ether(dst="00-11-22-33-44-55") / IP() / UDP(), rf"Ether\.dst: .* {NO_MAC}"),
        (lambda: Ether(src="00:11:22:33:44") / IP() / UDP(), rf"Ether\.src: .* {NO_MAC}"),
        (lambda: Ether() / IP() / UDP(dport=70000), r"UDP\.dport: 70000 .* 0\.\.65535"),
        (lambda: Ether() / IP(ttl=300) / UDP(), r"IP\.ttl: 300 .* 0\.\.255"),
        (lambda: Ether() / IP(ttl=-1) / UDP(), r"IP\.ttl: -1 .* 0\.\.255"),
        (lambda: Ether() / IP() / UDP() / Raw(bytes(65508)), r"IP\.len: 65536 .* 0\.\.65535"),
        (lambda: Ether() / IPv6() / UDP() / Raw(bytes(65528)), r"IPv6\.plen: 65536 .* 0\.\.65535"),
        (lambda: Ether() / IPv6(fl=1 << 20) / UDP(), r"IPv6\.fl: 1048576 .* 0\.\.1048575"),
        (lambda: Ether() / IP() / TCP(seq=1 << 32), r"TCP\.seq: 4294967296 .* 0\.\.4294967295"),
        (lambda: Ether() / IP() / TCP(flags=600), r"TCP\.flags: .*600.* 0\.\.511"),
        (lambda: Ether() / IP() / TCP(options=[("MSS", 70000)]), r"cannot build .*options.*65535"),
        (lambda: Ether() / IP(options=[IPOption_Timestamp(flg=16)]) / UDP(), r"IPOption_Timestamp\.flg: 16"),
        (lambda: Ether() / IP() / ICMP(id=70000), r"ICMP\.id: 70000 .* 0\.\.65535"),
        (lambda: Ether() / IP() / UDP() / VXLAN(vni=1 << 24), r"VXLAN\.vni: 16777216 .* 0\.\.16777215"),
        (lambda: Ether() / IP(ttl=[1, 2]) / UDP(), r"IP\.ttl: \[1, 2\] .* 0\.\.255"),
        (lambda: Ether() / IP(dst="10.0.0.0/30") / UDP(), r"IP\.dst: .* an IPv4 address"),
        (lambda: Ether() / IP(src="1.2") / UDP(), r"IP\.src: '1\.2' .* an IPv4 address"),
        (lambda: IP() / UDP(), "begins with Ether, not IP"),
        (lambda: None, "begins with Ether, not NoneType"),
    ],
)
def test_packet_with_a_value_out_of_range_is_refused(craft: Callable[[], Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        Flow(craft())


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("Dot1Q.vlan", count(4090, 7), r"Dot1Q\.vlan: 4096 .* 0\.\.4095"),
        ("Dot1Q.prio", choices([0, 9]), r"Dot1Q\.prio: 9 .* 0\.\.7"),
        ("Ether.dst", choices(["nonsense"]), NO_MAC),
        ("Ether.dst", choices(["00-11-22-33-44-55"]), NO_MAC),
        ("Ether.dst", count("00:11:22:33:44", 2), NO_MAC),
        ("UDP.dport", count(70000, 1), r"UDP\.dport: 70000 .* 0\.\.65535"),
        ("UDP.dport", count(3, 5, -1), r"UDP\.dport: -1 .* 0\.\.65535"),
        ("IP.ttl", randoms(2, 0, 300), r"IP\.ttl: 300 .* 0\.\.255"),
        ("IP.ttl", randoms(2, 9, 8), "low must not exceed high"),
        ("IP.src", choices(["10.0.0.256"]), "an IPv4 address"),
        ("IP.ttl", choices([1.5]), r"IP\.ttl: 1\.5"),  # type: ignore[list-item]
        ("UDP.port", count(1, 1), r"no field of UDP that can vary; those are sport, dport, len, chksum"),
        ("TCP.sport", count(1, 1), r"no layer 'TCP'; it has Ether, Dot1Q, IP, UDP"),
        ("IP.options", count(1, 1), "no field of IP that can vary"),
        ("sport", count(1, 1), "no layer 'sport'"),
    ],
)
def test_varied_value_out_of_range_and_unknown_names_are_refused(name: str, values: Any, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        Flow(Ether() / Dot1Q() / IP() / UDP(), {name: values})


def test_empty_flows_and_names_instead_of_addresses_are_refused() -> None:
    for make in (lambda: count(1, 0), lambda: choices([]), lambda: randoms(0), lambda: udp_flow(flows=0)):
        with pytest.raises(WorkloadError, match="empty flow"):
            make()
    with pytest.raises(WorkloadError, match="same value"):
        count(1, 2, 0)
    with pytest.raises(WorkloadError, match=r"src: 'example\.org' .* an IPv4 address"):
        udp_flow(src="example.org")
    with pytest.raises(WorkloadError, match="seed -1"):
        udp_flow(seed=-1)
    for frame_bytes in ("60", 60.5, True):
        with pytest.raises(WorkloadError, match=f"frame_bytes {frame_bytes!r}: give a whole number"):
            udp_flow(frame_bytes=frame_bytes)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match=r"vlan \(1, 2, 3\): .* two as \(outer, inner\)"):
        udp_flow(vlan=(1, 2, 3))  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match=r"Dot1AD\.vlan: 4096"):
        udp_flow(vlan=(4096, 1))
    with pytest.raises(WorkloadError, match="a frame of 13 bytes cannot hold the headers"):
        udp_flow(frame_bytes=13)
    with pytest.raises(WorkloadError, match="UDP ports 'nine' and 9 are out of range"):
        udp_flow(sport="nine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "generator"),
    [
        ("UDP.sport=1024:64", "UDP.sport", count(1024, 64)),
        ("UDP.sport = 1024:64:-2", "UDP.sport", count(1024, 64, -2)),
        ("IP.src=10.0.0.1:5", "IP.src", count("10.0.0.1", 5)),
        ("Ether.src=[02:00:00:00:00:01]:64", "Ether.src", count("02:00:00:00:00:01", 64)),
        ("IPv6.src=[2001:db8::1]:64:16", "IPv6.src", count("2001:db8::1", 64, 16)),
        ("IP.ttl=1, 2,0x10", "IP.ttl", choices([1, 2, 16])),
        ("IPv6.dst=2001:db8::1,2001:db8::2", "IPv6.dst", choices(["2001:db8::1", "2001:db8::2"])),
        ("TCP.flags=SA", "TCP.flags", choices(["SA"])),
        ("UDP.dport=random:16", "UDP.dport", randoms(16)),
        ("IP.dst=random:16:10.0.0.0-10.0.0.255", "IP.dst", randoms(16, "10.0.0.0", "10.0.0.255")),
        ("IP.ttl=random:4:0-9", "IP.ttl", randoms(4, 0, 9)),
    ],
)
def test_vary_is_read_from_text(text: str, name: str, generator: object) -> None:
    assert parse_vary(text) == (name, generator)


@pytest.mark.parametrize(
    "text", ["", "UDP.sport", "UDP.sport=", "sport=1", "UDP.sport=1,,2", "UDP.sport=random"]
)
def test_text_that_varies_nothing_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"NAME=start:n\[:step\]"):
        parse_vary(text)


def framed(frame_bytes: int, ethertypes: str = "0800") -> bytes:
    return (bytes(12) + bytes.fromhex(ethertypes)).ljust(frame_bytes, b"\0")


@pytest.mark.parametrize(
    ("mtu", "types", "legal_bytes"),
    [
        (1500, "0800", 1514),
        (1500, "8100 0001 0800", 1518),
        (9000, "0800", 9014),
        (68, "0800", 82),
        (1500, "88a8 0001 0800", 1514),
        (1500, "88a8 0001 8100 0001 0800", 1514),
        (1500, "8100 0001 8100 0001 0800", 1518),
    ],
)
def test_largest_legal_frame_is_taken_and_one_byte_more_named(mtu: int, types: str, legal_bytes: int) -> None:
    short, exact, over = (framed(size, types) for size in (40, legal_bytes, legal_bytes + 1))
    assert longest_legal_bytes(mtu, exact) == legal_bytes
    check_frames(FrameTable.of([short, exact]), mtu)
    said = rf"frame 1 has {legal_bytes + 1} bytes.* MTU {mtu} the largest legal frame has {legal_bytes} bytes"
    with pytest.raises(WorkloadError, match=said):
        check_frames(FrameTable.of([exact, over]), mtu)


def test_frames_without_an_ethernet_header_and_no_frames_are_refused() -> None:
    check_frames(FrameTable.of([framed(14)]), 1500)
    with pytest.raises(WorkloadError, match="13 bytes is shorter"):
        check_frames(FrameTable.of([framed(14), bytes(13)]), 1500)
    with pytest.raises(WorkloadError, match="empty flow"):
        check_frames(FrameTable.of([]), 1500)


@pytest.mark.parametrize("frame_bytes", ["60", 60.0, True, 65_554, 99_999_999_999])
def test_frame_length_that_no_device_takes_is_refused_before_it_is_built(frame_bytes: object) -> None:
    with pytest.raises(WorkloadError, match="whole number"):
        udp_flow(frame_bytes=frame_bytes)
