"""A workload's own commands: what is taken, and what is refused before anything is sent."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.engines.pktgen_words import parse
from labkit.errors import WorkloadError
from labkit.linux.pktgen_commands import COMMANDS, FLAGS


def lines(text: str | None) -> list[str]:
    return [asked.line for asked in parse(text)]


def test_commands_stand_between_semicolons_or_lines_with_blank_or_equals_sign() -> None:
    assert lines("flag UDPSRC_RND; vlan_id=5 ;\n tos 0a;;") == ["flag UDPSRC_RND", "vlan_id 5", "tos 0a"]
    assert lines('imix_weights "60,7 590,4 1514,1"') == ["imix_weights 60,7 590,4 1514,1"]
    assert lines(None) == lines("") == lines(" ; ") == []
    assert lines("clear_counters; flag !NO_TIMESTAMP") == ["clear_counters", "flag !NO_TIMESTAMP"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dstmac 02:00:00:00:00:01", "no command is called 'dstmac'; the kernel knows dst_mac"),
        ("srcmac 02:00:00:00:00:01", "knows src_mac"),
        ("flag NODE_ALLOC", "no flag is called that; the kernel knows NODE"),
        ("flag UDPSRC_RAND", "near it: .*UDPSRC_RND"),
        ("vlanid 5", "near it: .*vlan_id"),
        ("config 5", r"commands of Linux 6.1 to 6.12: how a later one answers is not known here"),
        ("zzzzzzzzz 5", "there are: .*pkt_size"),
        ("flag IPV6", "can only be cleared"),
        ("flag", "no flag is called that"),
        ("rate 300M", "rate: give rate_pps instead"),
        ("flows 300M", "300M is 300"),
        ("flows", "give digits alone"),
        ("flows -1", "give digits alone"),
        ("flows 65537", "give 0 to 65536"),
        ("vlan_p 10", "reads 1 digits"),
        ("vlan_cfi 2", "give 0 to 1"),
        ("queue_map_max 100000", "reads 5 digits"),
        ("udp_src_max 65536", "give 0 to 65535"),
        ("tos 0x0a", "2 hexadecimal digits without 0x"),
        ("tos a", "2 hexadecimal digits"),
        ("dst 10.0.0.256", "an IPv4 address"),
        ("dst6 10.0.0.1", "an IPv6 address"),
        ("dst_mac zz", "six bytes"),
        ("imix_weights 60;7", "size,weight pairs"),
        ("imix_weights 60,0", "a weight is 1 or more"),
        ("imix_weights " + " ".join(f"{60 + n},1" for n in range(21)), "room for 20 sizes, not for 21"),
        ("mpls " + ",".join(["0001000a"] * 16), "15 labels at the most"),
        ("mpls xyz", "hexadecimal"),
        ("clear_counters 1", "takes no value"),
        ("debug 1", "outlives a run"),
        ("count 5", r"count: give count \(of the run\) instead"),
        ("ratep 5", "give rate_pps"),
        ("delay 5", "give delay_ns"),
        ("clone_skb 5", "give clone_skb instead"),
        ("burst 5", "give batch"),
        ("xmit_mode queue_xmit", "give xmit_mode"),
        ("pkt_size 60", "give frame_bytes"),
        ("max_pkt_size 60", "give frame_bytes"),
    ],
)
def test_refused_before_anything_is_sent(text: str, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        parse(text)


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag != "IPV6"])
def test_every_flag_of_the_kernels_is_known_and_can_be_cleared(flag: str) -> None:
    assert lines(f"flag {flag}; flag !{flag}") == [f"flag {flag}", f"flag !{flag}"]


def test_table_holds_every_command_of_the_kernels() -> None:
    names = (
        "pkt_size min_pkt_size max_pkt_size imix_weights frags count delay rate ratep clone_skb burst "
        "xmit_mode dst dst_min dst_max src_min src_max dst6 dst6_min dst6_max src6 dst_mac src_mac "
        "src_mac_count dst_mac_count udp_src_min udp_src_max udp_dst_min udp_dst_max flows flowlen "
        "queue_map_min queue_map_max skb_priority node vlan_id vlan_p vlan_cfi svlan_id svlan_p svlan_cfi "
        "mpls tos traffic_class spi debug clear_counters flag"
    )
    assert COMMANDS.keys() == set(names.split())
    assert all(len(name) < 16 for name in COMMANDS)  # the kernel's buffer for a name


@given(st.text())
def test_any_text_is_taken_or_refused_in_words(text: str) -> None:
    with contextlib.suppress(WorkloadError):
        for asked in parse(text):
            assert asked.command.name in COMMANDS
            assert "\n" not in asked.line
