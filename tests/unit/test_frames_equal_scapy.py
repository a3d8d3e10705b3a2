"""Every frame that numpy patches is byte for byte the frame that scapy builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
    PadN,
    RouterAlert,
)
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from labkit.errors import WorkloadError
from labkit.traffic.flows import Flow, choices

WIDTHS = {
    "Ether": {"dst": 48, "src": 48, "type": 16},
    "Dot1AD": {"prio": 3, "dei": 1, "vlan": 12, "type": 16},
    "Dot1Q": {"prio": 3, "dei": 1, "vlan": 12, "type": 16},
    "IP": {
        "version": 4,
        "ihl": 4,
        "tos": 8,
        "id": 16,
        "flags": 3,
        "frag": 13,
        "ttl": 8,
        "proto": 8,
        "chksum": 16,
        "src": 32,
        "dst": 32,
    },
    "IPv6": {"version": 4, "tc": 8, "fl": 20, "plen": 16, "nh": 8, "hlim": 8, "src": 128, "dst": 128},
    "IPv6ExtHdrHopByHop": {"nh": 8, "len": 8},
    "IPv6ExtHdrDestOpt": {"nh": 8},
    "IPv6ExtHdrRouting": {"nh": 8, "type": 8, "reserved": 32},
    "IPv6ExtHdrSegmentRouting": {"nh": 8, "lastentry": 8, "tag": 16},
    "IPv6ExtHdrFragment": {"nh": 8, "res1": 8, "offset": 13, "res2": 2, "m": 1, "id": 32},
    "ICMP": {"code": 8, "chksum": 16, "id": 16, "seq": 16},
    "ICMPv6EchoRequest": {"type": 8, "code": 8, "cksum": 16, "id": 16, "seq": 16},
    "UDP": {"sport": 16, "dport": 16, "len": 16},
    "TCP": {
        "sport": 16,
        "dport": 16,
        "seq": 32,
        "ack": 32,
        "dataofs": 4,
        "reserved": 3,
        "flags": 9,
        "window": 16,
        "chksum": 16,
        "urgptr": 16,
    },
}
SOMETIMES = {"ICMP.type": 8, "ICMPv6ND_NS.tgt": 128}
"""Widths of fields that vary in some packets only."""
AS_TEXT: dict[int, Callable[[int], str]] = {
    48: lambda number: number.to_bytes(6, "big").hex(":"),
    32: lambda number: ".".join(map(str, number.to_bytes(4, "big"))),
    128: lambda number: number.to_bytes(16, "big").hex(":", 2),
}


def scapys_frame(packet: Any, chosen: dict[str, int], pad_bytes: int | None) -> bytes:
    built = packet.copy()
    for name, number in chosen.items():
        layer, _, field = name.partition(".")
        bits = SOMETIMES.get(name) or WIDTHS[layer][field]
        address = field in {"src", "dst", "tgt"}
        built[layer].setfieldval(field, AS_TEXT[bits](number) if address else number)
    return bytes(built).ljust(pad_bytes or 0, b"\0")


EXTENSIONS: list[Callable[[], Any]] = [
    lambda: IPv6ExtHdrHopByHop(options=[RouterAlert(value=1)]),
    lambda: IPv6ExtHdrDestOpt(options=[PadN(optdata=b"abc")]),
    lambda: IPv6ExtHdrRouting(addresses=["2001:db8::7", "2001:db8::9"], segleft=2),
    lambda: IPv6ExtHdrRouting(addresses=["2001:db8::7"], segleft=0),
    lambda: IPv6ExtHdrSegmentRouting(addresses=["2001:db8::a", "2001:db8::b"]),
    lambda: IPv6ExtHdrFragment(id=7, m=1),
]


@st.composite
def packets(draw: st.DrawFn) -> Any:
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    for tag in draw(st.sampled_from([[], [Dot1Q], [Dot1AD], [Dot1AD, Dot1Q], [Dot1Q, Dot1Q]])):
        packet /= tag(vlan=draw(st.integers(0, 4095)), prio=draw(st.integers(0, 7)))
    on_ipv6 = draw(st.booleans())
    if on_ipv6:
        packet /= IPv6(src="2001:db8::1", dst="2001:db8::2", fl=draw(st.integers(0, 0xFFFFF)))
        for extension in draw(st.lists(st.sampled_from(EXTENSIONS), max_size=3, unique=True)):
            packet /= extension()
    else:
        packet /= IP(src="192.0.2.1", dst="198.51.100.2", tos=draw(st.integers(0, 255)))
    kind = draw(st.sampled_from(["UDP", "TCP", "ICMP"]))
    if kind == "UDP":
        packet /= UDP(sport=draw(st.integers(0, 65535)))
    elif kind == "TCP":
        options = [[], [("MSS", 1460)], [("NOP", None), ("Timestamp", (1, 2))]]
        packet /= TCP(options=draw(st.sampled_from(options)), flags=draw(st.integers(0, 511)))
    else:
        numbers = {"id": draw(st.integers(0, 65535)), "seq": draw(st.integers(0, 65535))}
        packet /= ICMPv6EchoRequest(**numbers) if on_ipv6 else ICMP(**numbers)
    load = draw(st.binary(max_size=40))
    return packet / Raw(load) if load else packet


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_packets_fields_and_values_build_as_scapy_builds_them(data: st.DataObject) -> None:
    packet = data.draw(packets())
    names = [f"{layer}.{field}" for layer in WIDTHS if packet.haslayer(layer) for field in WIDTHS[layer]]
    varied = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
    widths = [WIDTHS[name.partition(".")[0]][name.partition(".")[2]] for name in varied]
    rows = data.draw(
        st.lists(st.tuples(*(st.integers(0, 2**bits - 1) for bits in widths)), min_size=1, max_size=5)
    )
    pad_bytes = data.draw(st.sampled_from([None, 60]))
    lists = {name: choices([row[column] for row in rows]) for column, name in enumerate(varied)}
    table = Flow(packet, lists, pad_bytes=pad_bytes).table()
    assert [table.frame(index) for index in range(len(table))] == [
        scapys_frame(packet, dict(zip(varied, row, strict=True)), pad_bytes) for row in rows
    ]


@pytest.mark.parametrize("layer", ["IP", "IPv6"])
def test_every_checksum_value_of_udp_is_scapys_and_none_is_zero(layer: str) -> None:
    ip = IP(src="192.0.2.1", dst="198.51.100.2") if layer == "IP" else IPv6(src="::1", dst="::2")
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / UDP(dport=9) / Raw(b"odd")
    table = Flow(packet, {"UDP.sport": choices(list(range(65536)))}, pad_bytes=None).table()
    start = 14 + len(ip) + 6
    rows = np.frombuffer(table.block, np.uint8).reshape(65536, -1)
    sums = rows[:, start].astype(int) << 8 | rows[:, start + 1]
    assert 0 not in sums
    assert len(set(sums.tolist())) == 65535
    for port in (0, 1, int(np.argmax(sums == 0xFFFF)), 65535):
        assert table.frame(port) == scapys_frame(packet, {"UDP.sport": port}, None)


def test_checksum_set_by_hand_stays_as_set() -> None:
    packet = Ether(src="02:00:00:00:00:01") / IP(chksum=0x1234) / UDP(chksum=0) / Raw(b"x" * 18)
    table = Flow(
        packet, {"IP.src": choices(["192.0.2.1", "192.0.2.9"]), "UDP.sport": choices([1, 2])}
    ).table()
    for index in range(2):
        assert table.frame(index)[24:26] == b"\x12\x34"
        assert table.frame(index)[40:42] == b"\0\0"


def test_icmp_below_varying_addresses_is_scapys() -> None:
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(dst="198.51.100.2") / ICMP()
    table = Flow(packet, {"IP.src": choices(["10.0.0.1", "10.0.0.2"])}).table()
    for index, number in enumerate((0x0A000001, 0x0A000002)):
        assert table.frame(index) == scapys_frame(packet, {"IP.src": number}, 60)


def test_field_on_which_other_bytes_depend_is_refused() -> None:
    below_udp = Ether() / IP() / UDP()
    with pytest.raises(WorkloadError, match=r"IP\.len cannot vary"):
        Flow(below_udp, {"IP.len": choices([28, 29])})


def test_types_of_icmp_vary_as_long_as_the_rest_of_the_message_stays() -> None:
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    packet /= IP(src="192.0.2.1", dst="198.51.100.2") / ICMP(id=5, seq=6)
    table = Flow(packet, {"ICMP.type": choices([8, 0, 15])}).table()
    for index, number in enumerate((8, 0, 15)):
        assert table.frame(index) == scapys_frame(packet, {"ICMP.type": number}, 60)
    # a redirect has no id, a time stamp has three more numbers: the third value tells, not the second
    for odd in (5, 13):
        with pytest.raises(WorkloadError, match=r"ICMP\.type cannot vary"):
            Flow(packet, {"ICMP.type": choices([8, 0, odd])})
    error = Ether() / IP() / ICMP(type=3) / Raw(b"x" * 28)
    assert Flow(error, {"ICMP.nexthopmtu": choices([1400, 1500])}).table().frame(1)[40:42] == b"\x05\xdc"
    with pytest.raises(
        WorkloadError, match=r"no field of ICMP that can vary; those are type, code, chksum, r"
    ):
        Flow(error, {"ICMP.id": choices([1, 2])})


def test_icmp_message_of_zeros_has_scapys_checksum() -> None:
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    packet /= IP(src="192.0.2.1", dst="198.51.100.2") / ICMP(type=0)
    table = Flow(packet, {"ICMP.seq": choices([1, 0, 0xFFFF])}).table()
    for index, number in enumerate((1, 0, 0xFFFF)):
        assert table.frame(index) == scapys_frame(packet, {"ICMP.seq": number}, 60)
    assert [table.frame(index)[36:38].hex() for index in range(3)] == ["fffe", "ffff", "0000"]


def test_neighbours_are_solicited_with_scapys_bytes_and_their_own_group() -> None:
    packet = Ether(src="02:00:00:00:00:01", dst="33:33:00:00:00:01") / IPv6(src="2001:db8::1")
    packet /= ICMPv6ND_NS(tgt="2001:db8::2") / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:01")
    table = Flow(packet, {"ICMPv6ND_NS.tgt": choices(["2001:db8::2", "2001:db8::ffff"])}).table()
    for index, last in enumerate((0x2, 0xFFFF)):
        frame = table.frame(index)
        assert frame == scapys_frame(packet, {"ICMPv6ND_NS.tgt": (0x20010DB8 << 96) + last}, 60)
        assert frame[38:54].hex() == "ff02" + "0" * 27 + "1"


def test_routed_ipv6_destination_varies_and_is_not_in_the_checksum() -> None:
    packet = Ether() / IPv6() / IPv6ExtHdrRouting(addresses=["2001:db8::9"], segleft=1) / UDP()
    table = Flow(packet, {"IPv6.dst": choices(["2001:db8::3", "2001:db8::4"])}).table()
    assert table.frame(0)[-2:] == table.frame(1)[-2:]
    with pytest.raises(WorkloadError, match=r"IPv6ExtHdrRouting\.segleft cannot vary"):
        Flow(packet, {"IPv6ExtHdrRouting.segleft": choices([1, 1, 0])})


def test_extension_header_moves_the_ports_along() -> None:
    packet = (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IPv6(src="2001:db8::1", dst="2001:db8::2")
        / IPv6ExtHdrDestOpt()
        / UDP()
    )
    table = Flow(packet, {"UDP.sport": choices([5, 6])}).table()
    for index in range(2):
        assert table.frame(index) == scapys_frame(packet, {"UDP.sport": 5 + index}, 60)
