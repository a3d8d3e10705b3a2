"""What flows promise: exact bytes, exactly N flows, the same for the same seed, sizes as asked."""

from __future__ import annotations

import collections
import hashlib
import json
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scapy.config import conf
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Padding, Raw
from scapy.volatile import RandIP, RandShort

from labkit.errors import WorkloadError
from labkit.traffic.flows import Flow, choices, count, randoms, udp_flow
from labkit.traffic.show import craft_text
from labkit.traffic.table import FrameTable

MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
UDP4_ZERO_SUM = (
    "02000000000202000000000108004500002e0001000040118e87c0000201c633640200090009001affff1371"
    "00000000000000000000000000000000"
)
UDP6_ZERO_SUM = (
    "02000000000202000000000186dd60000000001a114020010db800000000000000000000000120010db8"
    "00000000000000000000000200090009001affffa43300000000000000000000000000000000"
)
QINQ = (
    "02000000000202000000000188a8001e810000640800450000260001000040118e8fc0000201c633640200090009"
    "0012b92678787878787878787878"
)


def addressed(**fields: Any) -> Any:
    return Ether(**MACS) / IP(src="192.0.2.1", dst="198.51.100.2", **fields)


def all_frames(flow: Flow) -> list[bytes]:
    table = flow.table()
    return [table.frame(index) for index in range(len(table))]


def test_udp_checksum_that_computes_to_zero_is_sent_as_ones() -> None:
    payload = bytes.fromhex("1371") + bytes(16)
    packet = addressed() / UDP(sport=9, dport=9) / Raw(payload)
    assert Flow(packet).table().frame(0).hex() == UDP4_ZERO_SUM
    # patched into that value from a neighbour, not built there
    assert Flow(packet, {"UDP.sport": count(8, 2)}).table().frame(1).hex() == UDP4_ZERO_SUM


def test_udp_checksum_that_computes_to_zero_is_sent_as_ones_on_ipv6() -> None:
    payload = bytes.fromhex("a433") + bytes(16)
    packet = Ether(**MACS) / IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP(sport=9, dport=9) / Raw(payload)
    assert Flow(packet, {"UDP.sport": count(8, 2)}).table().frame(1).hex() == UDP6_ZERO_SUM


def test_explicit_udp_checksum_zero_stays_on_ipv4_and_is_refused_on_ipv6() -> None:
    assert Flow(addressed() / UDP(chksum=0), {"UDP.sport": count(1, 2)}).table().frame(1)[40:42] == b"\0\0"
    on_ipv6 = Ether() / IPv6() / UDP(chksum=0)
    with pytest.raises(WorkloadError, match=r"UDP\.chksum: 0 is out of range on IPv6"):
        Flow(on_ipv6)
    with pytest.raises(WorkloadError, match=r"UDP\.chksum: 0 is out of range on IPv6"):
        Flow(Ether() / IPv6() / UDP(), {"UDP.chksum": choices([7, 0])})


def test_stacked_tags_keep_their_types() -> None:
    ports = UDP(sport=9, dport=9) / Raw(b"x" * 10)
    ip = IP(src="192.0.2.1", dst="198.51.100.2")
    packet = Ether(**MACS) / Dot1AD(vlan=30) / Dot1Q(vlan=100) / ip / ports
    assert Flow(packet, {"Dot1Q.vlan": count(99, 2)}).table().frame(1).hex() == QINQ
    tagged = udp_flow(vlan=(30, 100), sport=9, flows=2, vary={"Dot1AD.vlan": choices([30, 0xABC])})
    assert [frame[12:22].hex() for frame in all_frames(tagged)] == [
        "88a8001e810000640800",
        "88a80abc810000640800",
    ]


def test_two_tags_of_the_same_type_stay_two() -> None:
    ip = IP(src="192.0.2.1", dst="198.51.100.2")
    packet = Ether(**MACS) / Dot1Q(vlan=30) / Dot1Q(vlan=100) / ip / UDP(dport=9)
    frame = Flow(packet).table().frame(0)
    assert frame[12:22].hex(" ", 2) == "8100 001e 8100 0064 0800"
    assert frame == bytes(packet).ljust(60, b"\0")


@pytest.mark.parametrize(("payload", "built"), [(0, 42), (17, 59), (18, 60), (19, 61)])
def test_short_frames_are_padded_to_60_with_zero_bytes_unless_switched_off(payload: int, built: int) -> None:
    packet = addressed() / UDP() / Raw(b"x" * payload) if payload else addressed() / UDP()
    plain = Flow(packet, pad_bytes=None).table().frame(0)
    assert plain == bytes(packet)
    assert len(plain) == built
    assert Flow(packet).table().frame(0) == plain + bytes(max(0, 60 - built))


def test_n_flows_are_exactly_n_even_when_they_are_all_there_are() -> None:
    flow = Flow(addressed() / UDP(), {"IP.src": randoms(256, "10.0.0.0", "10.0.0.255")}, seed=7)
    sources = {frame[26:30] for frame in all_frames(flow)}
    assert sources == {bytes([10, 0, 0, octet]) for octet in range(256)}


@pytest.mark.parametrize("n", [1, 1000, 20_000, 64_000])
def test_random_values_are_distinct(n: int) -> None:
    frames = all_frames(Flow(addressed() / UDP(), {"UDP.sport": randoms(n, 1024)}, seed=3))
    assert len(frames) == len({frame[34:36] for frame in frames}) == n


def test_random_values_of_any_range_are_a_permutation_of_it() -> None:
    for span in range(1, 100):
        flow = Flow(addressed() / UDP(), {"IP.ttl": randoms(span, 100, 99 + span)}, seed=span)
        assert sorted(frame[22] for frame in all_frames(flow)) == list(range(100, 100 + span))


def test_random_values_spread_over_the_range() -> None:
    frames = all_frames(Flow(addressed() / UDP(), {"IP.src": randoms(4096, 0, 2**32 - 1)}))
    for octet in range(26, 30):
        counts = collections.Counter(frame[octet] >> 4 for frame in frames)
        # 16 bins of 256: chi squared with 15 degrees of freedom stays below 44 in all but 1 of 10 000 seeds
        assert sum((counts[bin_] - 256) ** 2 / 256 for bin_ in range(16)) < 44


def test_more_flows_than_exist_are_refused() -> None:
    with pytest.raises(WorkloadError, match="257 distinct values were asked of a range that has 256"):
        Flow(addressed() / UDP(), {"IP.ttl": randoms(257)})
    with pytest.raises(WorkloadError, match=r"64513 flows .* 64512"):
        udp_flow(flows=64_513)
    assert len(udp_flow(flows=64_512).table()) == 64_512


def test_fields_advance_together_and_the_longest_says_how_many() -> None:
    flow = Flow(addressed() / UDP(), {"UDP.sport": count(10, 5), "IP.ttl": choices([1, 2])})
    assert [(frame[22], frame[35]) for frame in all_frames(flow)] == [
        (1, 10),
        (2, 11),
        (1, 12),
        (2, 13),
        (1, 14),
    ]


def test_counts_step_down_and_carry_through_addresses() -> None:
    down = Flow(addressed() / UDP(), {"UDP.sport": count(30, 3, -10)})
    assert [frame[35] for frame in all_frames(down)] == [30, 20, 10]
    over = Flow(Ether() / IPv6() / UDP(), {"IPv6.src": count("2001:db8::ffff:ffff:ffff:ffff", 2)})
    assert [frame[22:38].hex() for frame in all_frames(over)] == [
        "20010db800000000ffffffffffffffff",
        "20010db8000000010000000000000000",
    ]


def test_random_fields_of_scapy_are_drawn_once_with_the_seed() -> None:
    def crafted(seed: int) -> list[bytes]:
        packet = Ether(**MACS) / IP(src=RandIP(), dst="198.51.100.2") / UDP(sport=RandShort())
        return all_frames(Flow(packet, {"UDP.dport": count(0, 1000)}, seed=seed))

    state = random.getstate()
    first = crafted(7)
    assert random.getstate() == state
    assert first == crafted(7)
    assert first != crafted(8)
    assert len({frame[26:36] for frame in first}) == 1
    assert len(set(first)) == 1000


SEEDED = """
import hashlib
from labkit.traffic.flows import randoms, udp_flow
vary = {"IP.src": randoms(500), "Ether.src": randoms(500), "UDP.dport": randoms(500, distinct=False)}
print(hashlib.sha256(udp_flow(64, 10, vary=vary, seed=SEED).table().block).hexdigest())
"""


def test_same_seed_gives_the_same_bytes_in_another_process() -> None:
    def digest(seed: int) -> str:
        command = [sys.executable, "-W", "error", "-c", SEEDED.replace("SEED", str(seed))]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert run.stderr == ""
        return run.stdout.strip()

    vary = {"IP.src": randoms(500), "Ether.src": randoms(500), "UDP.dport": randoms(500, distinct=False)}
    here = hashlib.sha256(udp_flow(64, 10, vary=vary, seed=5).table().block).hexdigest()
    assert digest(5) == here
    assert digest(6) != here


def test_random_streams_never_change() -> None:
    frames = all_frames(Flow(addressed() / UDP(), {"UDP.sport": randoms(3)}, seed=1))
    assert [int.from_bytes(frame[34:36], "big") for frame in frames] == [17306, 63793, 4175]


@pytest.mark.parametrize("frame_bytes", [60, 61, 64, 590, 1514, 9014])
@pytest.mark.parametrize("options", [{}, {"vlan": 7}, {"ipv6": True, "vlan": None}])
def test_frames_have_the_asked_size_and_scapys_bytes(frame_bytes: int, options: dict[str, Any]) -> None:
    if options.get("ipv6") and frame_bytes < 62:
        with pytest.raises(WorkloadError, match="the shortest has 62 bytes"):
            udp_flow(frame_bytes, **options)
        return
    flow = udp_flow(100, 3, **options).with_frame_bytes(frame_bytes)
    assert flow.frame_bytes == frame_bytes
    for index, frame in enumerate(all_frames(flow)):
        wanted = flow.packet.copy()
        wanted[UDP].sport = 1024 + index
        assert frame == bytes(wanted)
        assert len(frame) == frame_bytes


def test_a_size_below_the_padding_sends_it_as_asked() -> None:
    assert udp_flow(42).frame_bytes == 42
    assert udp_flow().frame_bytes == 60
    assert udp_flow(ipv6=True).frame_bytes == 62
    with pytest.raises(WorkloadError, match=r"41 bytes cannot hold .* the shortest has 42 bytes"):
        udp_flow().with_frame_bytes(41)


def test_padding_of_a_captured_packet_is_no_payload() -> None:
    captured = addressed() / UDP() / Raw(b"ab") / Padding(bytes(16))
    flow = Flow(captured).with_frame_bytes(43)
    assert flow.table().frame(0)[42:] == b"a"


def test_open_addresses_are_the_default_flows_and_nothing_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("scapy asked the host or the network")

    monkeypatch.setattr(conf.route, "route", asked)
    monkeypatch.setattr(conf.neighbor, "resolve", asked)
    frame = Flow(Ether() / IP() / UDP(sport=1024, dport=9) / Raw(bytes(18))).table().frame(0)
    assert frame == udp_flow(flows=1).table().frame(0)
    assert frame[:12].hex(":") == "02:00:00:00:00:02:02:00:00:00:00:01"


def test_flow_is_not_touched_by_later_changes_to_the_packet() -> None:
    packet = addressed() / UDP(sport=1)
    flow = Flow(packet)
    before = flow.table().block
    packet[UDP].sport = 2
    assert flow.table().block == before


def test_description_is_json_and_tells_different_bytes_apart() -> None:
    variants = [
        udp_flow(),
        udp_flow(61),
        udp_flow(flows=3),
        udp_flow(seed=1, vary={"IP.src": randoms(64)}),
        udp_flow(vlan=3),
        udp_flow(vary={"IP.ttl": choices(list(range(100)))}),
        udp_flow(vary={"IP.ttl": choices(list(range(1, 101)))}),
        Flow(addressed() / UDP() / Raw(b"x" * 1000)),
        Flow(addressed() / UDP() / Raw(b"y" * 1000)),
    ]
    told = [json.dumps(flow.describe(), sort_keys=True) for flow in variants]
    assert len(set(told)) == len(variants)
    assert json.dumps(udp_flow().describe(), sort_keys=True) == told[0]


def test_craft_text_shows_fields_variation_and_hex() -> None:
    text = craft_text(udp_flow(vlan=5, flows=3), frames=2)
    assert "3 frames of 60 bytes (84 on the wire), seed 0" in text
    assert "Dot1Q: vlan=5" in text
    assert "UDP.sport varies: count 3 start 1024 step 1" in text
    assert "0000  02 00 00 00 00 02 02 00 00 00 00 01 81 00 00 05  ................" in text
    assert text.count("\n0030  ") == 2


def test_table_refuses_frames_beyond_its_block() -> None:
    good = FrameTable.of([b"ab", b"cde"])
    assert (good.frame(1), good.shortest_bytes, good.longest_bytes) == (b"cde", 2, 3)
    with pytest.raises(ValueError, match="ends behind"):
        FrameTable(good.block[:-1], good.offsets, good.lengths)
    with pytest.raises(ValueError, match="15 bytes of offsets and 8 of lengths are no whole numbers"):
        FrameTable(good.block, good.offsets[:-1], good.lengths)
    equal = FrameTable.of([b"ab", b"cd"])
    with pytest.raises(ValueError, match="ends behind"):
        FrameTable(equal.block, equal.offsets[:8] + (3).to_bytes(8, sys.byteorder), equal.lengths)


def test_tcp_flags_may_be_named() -> None:
    flow = Flow(addressed() / TCP(), {"TCP.flags": choices(["S", "SA", 0x10])})
    assert [frame[47] for frame in all_frames(flow)] == [0x02, 0x12, 0x10]
    assert Flow(addressed() / TCP(flags="SA")).describe()["layers"][2]["fields"]["flags"] == 0x12


def test_numbers_of_other_libraries_are_described_as_plain_ones() -> None:
    values = choices(np.arange(3)), count(np.uint16(5), np.int64(2)), randoms(np.int64(2), np.uint8(1), 9)
    assert json.dumps([generator.describe() for generator in values]) == json.dumps(
        [generator.describe() for generator in (choices([0, 1, 2]), count(5, 2), randoms(2, 1, 9))]
    )


def test_scapy_loads_with_the_first_packet_and_numpy_not_for_limits() -> None:
    code = (
        "import sys, labkit.traffic.limits, labkit.traffic.table; assert 'numpy' not in sys.modules\n"
        "import labkit.traffic.flows, labkit.traffic.show; assert 'scapy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], timeout=60, check=True)
