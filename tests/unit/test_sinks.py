"""Receiving sinks without a socket: what they can tell, what may be asked of them, what a trial says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from labkit import _native
from labkit.agent.protocol import Run
from labkit.agent.sink_check import Check, check_of
from labkit.agent.sink_records import Arrived, SinkConfig
from labkit.agent.sinks import cpus_of
from labkit.engines.base import EngineConfig, EngineReport
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.records import Workload
from labkit.rigs.arrived import latency_of, lost, sink_told
from labkit.rigs.catalog import DEVICE, VETH, check_workload
from labkit.rigs.sink_checks import check_block
from labkit.traffic.flows import udp_flow
from labkit.traffic.table import FrameTable
from tests.stamped_frames import stamped
from tests.unit.test_assemble import REPORT

FLOW = udp_flow(frame_bytes=60, flows=4)
ARRIVED = Arrived(
    received=90,
    foreign=3,
    corrupted=1,
    distinct=85,
    duplicates=4,
    reordered=2,
    beyond_window=0,
    kernel_dropped=7,
    latency_ns=[(1000, 50), (2000, 40), (9000, 9), (50000, 1)],
    latency_most_ns=51234,
    latency_note=None,
    by_socket=[90],
    cpus=[1],
    cpu_ns=1,
    drained=True,
)


def check(engine: str = "sendmmsg", *, own_numbers: bool = False, workers: int = 1, **config: Any) -> Check:
    table = FrameTable.of(stamped(number if own_numbers else 0) for number in range(8))
    request = Run(
        engine=engine,
        sink="rx_ring",
        config=EngineConfig(ifindex=1, **({"batch": 64, "duration_ns": 1} | config)),
        workers=workers,
        sample_every_ns=1,
        peer_counters=[],
    )
    return check_of(request, _native.FrameTable(table.block, table.offsets, table.lengths))


def test_stamps_of_one_sender_number_frames() -> None:
    for engine in ("send", "sendmmsg", "tx_ring", "af_xdp"):
        assert (check(engine, stamp=True).numbered, check(engine, stamp=True).content) == (True, True)
    for engine in ("gso", "xdp_live"):
        assert (check(engine, stamp=True).numbered, check(engine, stamp=True).content) == (True, False)


def test_stamps_of_several_senders_number_nothing_and_hide_the_content() -> None:
    told = check(stamp=True, workers=2)
    assert (told.numbered, told.content, told.addresses) == (False, False, True)


@pytest.mark.parametrize(("count", "numbered"), [(8, True), (9, False), (None, False)])
def test_own_numbers_of_a_table_serve_until_it_is_sent_again(count: int | None, *, numbered: bool) -> None:
    told = check(own_numbers=True, count=count)
    assert (told.numbered, told.content) == (numbered, True)


def test_frames_of_other_programs_are_told_by_their_addresses_or_not_at_all() -> None:
    trafgen, iperf3 = check("trafgen"), check("iperf3")
    assert (trafgen.addresses, trafgen.content, trafgen.numbered) == (True, False, False)
    assert (iperf3.addresses, iperf3.content, iperf3.numbered) == (False, False, False)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"stamp": True}, "an unpaced sender has no due times"),
        ({"stamp": True, "rate_pps": 1e3, "workers": 2}, "several senders"),
        ({"rate_pps": 1e3}, "no running number"),
    ],
)
def test_latency_that_nobody_can_tell_has_a_reason(asked: dict[str, Any], why: str) -> None:
    told = check(**asked)
    assert told.burst_frames is None
    assert why in (told.latency_note or "")


@pytest.mark.parametrize(("rate_pps", "burst"), [(1e3, 1), (49e3, 1), (62.5e3, 62), (1e6, 64)])
def test_frames_of_a_paced_batch_are_due_together(rate_pps: float, burst: int) -> None:
    told = check(stamp=True, rate_pps=rate_pps)
    assert (told.burst_frames, told.latency_note) == (burst, None)


def test_frames_of_a_slow_super_packet_are_due_together() -> None:
    assert check("gso", stamp=True, rate_pps=5000.0, batch=60).burst_frames == 5


def test_sink_reads_on_the_cpu_asked_for_or_one_that_does_not_send() -> None:
    assert cpus_of(SinkConfig(), [3], {0, 1, 3}) == [0, 1]
    assert cpus_of(SinkConfig(), [0, 1], {0, 1}) == [None]
    assert cpus_of(SinkConfig(cpu=1), [1], {0, 1}) == [1]
    with pytest.raises(WorkloadError, match="sink_cpu 7 is not allowed here; allowed: 0, 1"):
        cpus_of(SinkConfig(cpu=7), [1], {0, 1})


def test_lost_is_what_was_sent_and_never_came_whole() -> None:
    report = msgspec.structs.replace(REPORT, sent=100)
    assert lost(ARRIVED, report) == 15
    assert lost(msgspec.structs.replace(ARRIVED, distinct=None), report) is None
    assert lost(ARRIVED, msgspec.structs.replace(REPORT, sent=None, attempted=86)) == 1
    assert lost(ARRIVED, msgspec.structs.replace(REPORT, sent=None, attempted=None)) is None


def test_quantiles_are_the_middles_of_the_buckets_that_their_shares_reach() -> None:
    told, note = latency_of(ARRIVED, REPORT)
    assert note is None
    assert told == {"p50": 1015, "p90": 2031, "p99": 9252, "p99.9": 51013, "p99.99": 51013, "max": 51234}


def test_no_quantile_is_above_the_maximum() -> None:
    alone = msgspec.structs.replace(ARRIVED, latency_ns=[(50000, 1)], latency_most_ns=50100)
    told, _ = latency_of(alone, REPORT)
    assert told is not None
    assert set(told.values()) == {50100}


@pytest.mark.parametrize(
    ("arrived", "report", "why"),
    [
        ({"latency_note": "unpaced"}, {}, "unpaced"),
        ({}, {"partial_returns": 1}, "took a part of their batch"),
        ({"latency_ns": [], "latency_most_ns": None}, {}, "no frame arrived"),
    ],
)
def test_trial_without_latency_says_why(arrived: dict[str, Any], report: dict[str, Any], why: str) -> None:
    seen: EngineReport = msgspec.structs.replace(REPORT, **report)
    told, note = latency_of(msgspec.structs.replace(ARRIVED, **arrived), seen)
    assert told is None
    assert why in (note or "")


def test_super_packet_that_arrived_whole_hides_losses() -> None:
    report = msgspec.structs.replace(REPORT, sent=100, super_packets=2)
    assert sink_told(ARRIVED, report, 2)["sink"]["lost"] is None
    assert sink_told(ARRIVED, report, 100)["sink"]["lost"] == 15
    assert sink_told(None, report, 100) == {}


@pytest.mark.parametrize(
    ("sink", "asked", "why"),
    [
        ("socket", {"sink_retire_ms": 5}, "sink 'socket' has no sink_retire_ms"),
        ("socket", {"sink_block_bytes": 4096}, "sink 'socket' has no sink_block_bytes"),
        ("xdp_drop", {"sink_cpu": 0}, "sink 'xdp_drop' has no sink_cpu"),
        ("xdp_drop", {"sink_sockets": 2}, "sink 'xdp_drop' has no sink_sockets"),
        ("stack", {"sink_sockets": 2}, "only counts and has no sink_sockets"),
    ],
)
def test_what_a_sink_never_has_is_refused_with_another_sink(
    sink: str, asked: dict[str, int], why: str
) -> None:
    with pytest.raises(CapabilityMissingError, match=why) as refused:
        check_workload(VETH, Workload(FLOW, "send", sink=sink, **asked))
    assert "rx_ring" in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"sink_retire_ms": 0}, "sink_retire_ms 0 is outside 1..1000"),
        ({"sink_sockets": 0}, "sink_sockets 0 is outside 1..64"),
        ({"sink_cpu": -1}, "sink_cpu -1 is outside"),
        ({"sink_block_bytes": 5000}, "whole pages"),
    ],
)
def test_what_makes_no_sense_of_a_ring_is_refused(asked: dict[str, int], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        check_workload(VETH, Workload(FLOW, "send", sink="rx_ring", **asked))


def test_sink_named_instead_has_the_factor_and_counting_ones_are_not_named() -> None:
    for sink, asked, instead in (
        ("socket", "sink_retire_ms", "take sink 'rx_ring'"),
        ("xdp_drop", "sink_retire_ms", "take sink 'rx_ring'"),
        ("xdp_drop", "sink_sockets", "take sink 'rx_ring' or 'socket'"),
        ("stack", "sink_sockets", "take one of sinks rx_ring, socket, where the rig has it"),
    ):
        with pytest.raises(CapabilityMissingError) as refused:
            check_workload(VETH, Workload(FLOW, "send", sink=sink, **{asked: 2}))
        assert str(refused.value).endswith(instead)


def test_block_has_to_hold_the_longest_frame() -> None:
    frames = udp_flow(frame_bytes=4000).table()
    check_block(Workload(FLOW, "send", sink="rx_ring", sink_block_bytes=8192), frames)
    with pytest.raises(WorkloadError, match="the longest frame of 4000 bytes needs a block of 8192"):
        check_block(Workload(FLOW, "send", sink="rx_ring", sink_block_bytes=4096), frames)


def test_real_rigs_have_the_receiving_sinks() -> None:
    for info in (VETH, DEVICE):
        assert {"rx_ring", "socket", "xdp_drop"} <= set(info.sinks)
