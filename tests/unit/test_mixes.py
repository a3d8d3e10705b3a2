"""Mixes keep their exact ratio in any window, and tell their lengths honestly."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from labkit.analysis.explain import explain
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.records import Workload
from labkit.rigs.choose import rig
from labkit.traffic.flows import count, udp_flow
from labkit.traffic.mixes import imix_flow
from labkit.traffic.show import craft_text
from labkit.traffic.sizes import mean_wire_bytes
from labkit.traffic.table import FrameTable
from labkit.units import gbit_per_s
from tests.unit.test_cli import TRIAL


def lengths_of(table: FrameTable) -> list[int]:
    return [len(table.frame(index)) for index in range(len(table))]


@pytest.mark.parametrize("flows", [1, 5, 12, 64, 1000])
def test_any_twelve_frames_hold_seven_four_and_one(flows: int) -> None:
    table = imix_flow(flows).table()
    lengths = lengths_of(table)
    assert len(lengths) % 12 == len(lengths) % flows == 0
    for start in range(len(lengths)):
        window = [lengths[(start + k) % len(lengths)] for k in range(12)]
        assert collections.Counter(window) == {60: 7, 590: 4, 1514: 1}
    ports = [int.from_bytes(table.frame(index)[34:36], "big") for index in range(len(table))]
    assert ports == [1024 + index % flows for index in range(len(table))]


def test_frames_of_a_mix_are_scapys() -> None:
    table = imix_flow(5, vary={"IP.ttl": count(1, 5)}).table()
    for index in range(len(table)):
        frame = table.frame(index)
        packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        packet /= IP(src="192.0.2.1", dst="198.51.100.2", ttl=1 + index % 5)
        packet /= UDP(sport=1024 + index % 5, dport=9) / Raw(bytes(len(frame) - 42))
        assert frame == bytes(packet)


def test_lengths_and_means_are_those_of_the_mix() -> None:
    told = imix_flow().describe()
    assert told["sizes"] == {"60": 112, "590": 64, "1514": 16}
    assert (told["shortest_frame_bytes"], told["frame_bytes"]) == (60, 1514)
    assert told["mean_frame_bytes"] == pytest.approx(357.83, abs=0.01)
    assert told["mean_wire_bytes"] == pytest.approx(381.83, abs=0.01)
    # what fills 10 Gbit/s: not line rate of the longest frame, nor of the mean one
    assert gbit_per_s(3_273_680, told["mean_wire_bytes"]) == pytest.approx(10, abs=1e-5)
    assert json.loads(json.dumps(told)) == told
    assert imix_flow().frame_bytes == 1514
    assert "192 frames of 60 to 1514 bytes, 357.8 on average (381.83 on the wire), seed 0" in craft_text(
        imix_flow()
    )


def test_short_frames_count_as_the_wire_carries_them() -> None:
    assert mean_wire_bytes({}, 42) == 84
    assert mean_wire_bytes({}, 1514) == 1538


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({"vlan": 7}, {60, 594, 1518}),
        ({"vlan": (30, 7)}, {62, 598, 1522}),
        ({"ipv6": True}, {62, 590, 1514}),
        ({"pktgen_header": True, "ipv6": True}, {78, 590, 1514}),
    ],
)
def test_tags_and_longer_headers_lengthen_the_frames(options: dict[str, Any], lengths: set[int]) -> None:
    assert set(lengths_of(imix_flow(4, **options).table())) == lengths


def test_mix_has_no_other_length() -> None:
    with pytest.raises(WorkloadError, match="IMIX has its own frame lengths"):
        imix_flow(frame_bytes=60)
    with pytest.raises(WorkloadError, match="it has its own lengths, so frame_bytes 64 is left out"):
        imix_flow().with_frame_bytes(64)
    with pytest.raises(WorkloadError, match="empty flow"):
        imix_flow(0)


def test_simulated_sender_names_a_rig_that_has_mixes() -> None:
    with (
        rig("sim:ixgbe") as sim,
        pytest.raises(CapabilityMissingError, match=r"60 to 1514 bytes.* try rig 'vm:e1000e'"),
    ):
        sim.run(Workload(flow=imix_flow(), engine="pktgen"))


def test_explanation_of_a_mixed_trial_has_the_wire_time_of_the_mix() -> None:
    mixed = {"flow": imix_flow().describe()}
    trial = TRIAL.__class__(
        **{**{f: getattr(TRIAL, f) for f in TRIAL.__struct_fields__}, "environment": mixed}
    )
    assert explain(trial).wire_ns["10G"] == pytest.approx(305.47, abs=0.01)
    assert explain(TRIAL).wire_ns["10G"] == pytest.approx(67.2)


def test_pktgens_header_is_what_the_kernel_writes_and_counts_every_frame() -> None:
    """Magic, sequence, seconds, microseconds: struct pktgen_hdr of net/core/pktgen.c, big-endian."""
    table = udp_flow(flows=3, pktgen_header=True, vary={"IP.ttl": count(1, 5)}).table()
    headers = [table.frame(index)[42:58].hex() for index in range(len(table))]
    assert headers == [f"be9be955{index:08x}{0:016x}" for index in range(5)]
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    packet /= IP(src="192.0.2.1", dst="198.51.100.2", ttl=2) / UDP(sport=1025, dport=9)
    assert table.frame(1) == bytes(packet / Raw(bytes.fromhex(headers[1]) + bytes(2)))
    own = udp_flow(flows=2, pktgen_header=True, vary={"Pktgen.seq_num": count(7, 2)}).table()
    assert own.frame(1)[46:50] == bytes([0, 0, 0, 8])
    mixed = imix_flow(5, pktgen_header=True).table()
    numbers = [int.from_bytes(mixed.frame(index)[46:50], "big") for index in range(len(mixed))]
    assert numbers == list(range(60))
    again = imix_flow(5, pktgen_header=True, vary={"Pktgen.seq_num": count(3, 5)}).table()
    assert again.frame(6)[46:50] == bytes([0, 0, 0, 4])
    with pytest.raises(WorkloadError, match="the shortest has 58 bytes"):
        udp_flow(50, pktgen_header=True)
