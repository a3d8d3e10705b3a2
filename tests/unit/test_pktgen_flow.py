"""Frames as commands to pktgen, and frames that it cannot build."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

import labkit as lk
from labkit.engines.pktgen_flow import differences, flow_commands, header_changes, least_bytes
from labkit.engines.pktgen_words import parse
from labkit.errors import WorkloadError
from labkit.records import Frames

MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}


def asked(frames: Frames) -> dict[str, str]:
    return {each.command.name: each.value for each in flow_commands(frames)}


def packet(*layers: Any) -> Any:
    built = Ether(**MACS)
    for layer in layers:
        built = built / layer
    return built


def test_default_flow_is_ports_addresses_and_a_length() -> None:
    assert asked(lk.udp_flow(60, flows=64).table()) == {
        "pkt_size": "60",
        "dst_mac": "02:00:00:00:00:02",
        "src_mac": "02:00:00:00:00:01",
        "src_min": "192.0.2.1",
        "src_max": "192.0.2.1",
        "dst_min": "198.51.100.2",
        "dst_max": "198.51.100.2",
        "udp_src_min": "1024",
        "udp_src_max": "1088",
        "udp_dst_min": "9",
        "udp_dst_max": "9",
    }


def test_one_flow_has_one_port() -> None:
    told = asked(lk.udp_flow(60, flows=1).table())
    assert (told["udp_src_min"], told["udp_src_max"]) == ("1024", "1024")


def test_ranges_of_addresses_end_with_their_last_and_of_ports_behind_it() -> None:
    flow = lk.udp_flow(
        60,
        flows=8,
        vary={
            "IP.src": lk.count("10.0.0.1", 4),
            "IP.dst": lk.count("10.1.0.254", 8),
            "UDP.dport": lk.count(7, 2),
            "Ether.dst": lk.count("02:00:00:00:00:fe", 4),
        },
    )
    told = asked(flow.table())
    assert (told["src_min"], told["src_max"]) == ("10.0.0.1", "10.0.0.4")
    assert (told["dst_min"], told["dst_max"]) == ("10.1.0.254", "10.1.1.5")
    assert (told["udp_dst_min"], told["udp_dst_max"]) == ("7", "9")
    assert (told["dst_mac"], told["dst_mac_count"]) == ("02:00:00:00:00:fe", "4")


def test_tags_are_asked_inner_first_for_the_outer_needs_it() -> None:
    names = [each.line for each in flow_commands(lk.udp_flow(80, vlan=(5, 6)).table())]
    assert names[3:9] == ["vlan_id 6", "vlan_p 0", "vlan_cfi 0", "svlan_id 5", "svlan_p 0", "svlan_cfi 0"]
    assert "the outer tag has type 0x8100 instead of 0x88a8" in differences(
        lk.udp_flow(80, vlan=(5, 6)).table()
    )
    assert asked(lk.udp_flow(64, vlan=7).table())["vlan_id"] == "7"


def test_ipv6_has_its_own_commands() -> None:
    told = asked(lk.udp_flow(90, ipv6=True).table())
    assert (told["src6"], told["dst6"]) == ("2001:db8::1", "2001:db8::2")
    assert "src_min" not in told


def test_type_of_service_and_traffic_class_are_two_digits() -> None:
    assert asked(lk.Flow(packet(IP(tos=10), UDP(), Raw(bytes(18)))).table())["tos"] == "0a"
    v6 = packet(IPv6(tc=0x2E, src="fd00::1", dst="fd00::2"), UDP(), Raw(bytes(18)))
    assert asked(lk.Flow(v6).table())["traffic_class"] == "2e"


def test_internet_mix_is_pktgens_own() -> None:
    told = asked(lk.imix_flow().table())
    assert told["imix_weights"] == "60,7 590,4 1514,1"
    assert "pkt_size" not in told
    assert any("at random by their shares" in each for each in differences(lk.imix_flow().table()))


def test_pktgens_own_header_is_no_payload_of_meaning() -> None:
    assert asked(lk.udp_flow(60, pktgen_header=True).table())["pkt_size"] == "60"


def test_what_differs_from_the_flow_is_told() -> None:
    told = " ".join(differences(lk.udp_flow(60).table()))
    for words in ("own running number", "TTL is 32", "no UDP checksum", "IP ids count from 0"):
        assert words in told
    plain = lk.Flow(packet(IP(ttl=32), UDP(chksum=0), Raw(bytes(18))))
    told = " ".join(differences(plain.table()))
    assert "TTL" not in told
    assert "checksum" not in told


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (lk.Flow(packet(IP(), TCP(), Raw(bytes(30)))), "IP protocol 6 .* it sends plain UDP"),
        (lk.Flow(packet(IP(), ICMP(), Raw(bytes(30)))), "IP protocol 1 "),
        (lk.Flow(packet(ARP(pdst="10.0.0.1", psrc="10.0.0.2"))), "frames of type 0x0806"),
        (lk.Flow(packet(IP(frag=5), UDP(), Raw(bytes(18)))), "no fragments"),
        (lk.Flow(packet(IPv6(src="fd00::1", dst="fd00::2", fl=7), UDP(), Raw(bytes(18)))), "no flow label"),
        (lk.Flow(packet(IP(), UDP(), Raw(b"meaning" + bytes(30)))), "bytes of meaning"),
        (lk.Flow(packet(IP(), UDP(), Raw(bytes(20) + b"x"))), "bytes of meaning"),
        (lk.udp_flow(57), "frames of 57 bytes: .* these are 58 bytes at least"),
        (lk.udp_flow(77, ipv6=True), "78 bytes at least"),
        (lk.udp_flow(60, vlan=5), "62 bytes at least"),
        (lk.udp_flow(60, vary={"UDP.sport": lk.randoms(64, 1024, 65535)}), "the src port varies otherwise"),
        (lk.udp_flow(60, vary={"UDP.sport": lk.choices([5, 7])}), "use lk.count"),
        (
            lk.udp_flow(60, vary={"IP.ttl": lk.count(1, 5), "IP.tos": lk.count(0, 5)}),
            "type of service varies",
        ),
        (lk.udp_flow(90, ipv6=True, vary={"IPv6.dst": lk.count("fd00::1", 4)}), "an IPv6 address varies"),
        (lk.udp_flow(60, flows=64, sport=65472), "src ports 65472 to 65535"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_frames_that_pktgen_cannot_build_are_refused_in_words(flow: Any, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        flow_commands(flow.table())


@pytest.mark.parametrize(
    ("own", "least"),
    [
        ("", 58),
        ("vlan_id 5", 62),
        ("vlan_id 5; svlan_id 6", 66),
        ("svlan_id 6", 58),
        ("vlan_id 5; svlan_id 6; svlan_id 4096", 58),
        ("vlan_id 5; vlan_id 4096", 58),
        ("mpls 0001000a,0002000a", 66),
        ("vlan_id 5; mpls 0001000a", 62),
        ("mpls 0001000a,0002000a; vlan_id 5", 62),
        ("dst6 fd00::1", 78),
    ],
)
def test_tags_and_labels_make_the_shortest_frame_longer(own: str, least: int) -> None:
    assert least_bytes(parse(own)) == least


@pytest.mark.parametrize(
    ("own", "changes"),
    [
        ("", False),
        ("dst 198.51.100.1", True),
        ("udp_src_max 2000", True),
        ("src_mac_count 5", True),
        ("vlan_id 5; flag VID_RND", True),
        ("flag UDPCSUM", False),
        ("flag UDPSRC_RND", False),
    ],
)
def test_what_varies_from_frame_to_frame_is_known(own: str, changes: bool) -> None:
    flow = flow_commands(lk.udp_flow(60, flows=1).table())
    assert header_changes([*flow, *parse(own)]) is changes


def test_more_than_twenty_lengths_are_refused() -> None:
    from labkit.traffic.table import FrameTable

    frames = FrameTable.of(lk.udp_flow(size, flows=1).table().frame(0) for size in range(60, 81))
    with pytest.raises(WorkloadError, match="frames of 21 lengths: imix_weights has room for 20"):
        flow_commands(frames)
