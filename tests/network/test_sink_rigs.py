"""Receiving sinks on rigs: what arrives is what the device sent, and what was lost has a number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.experiment.latency import latency_at_load
from labkit.experiment.trial import run_trial
from labkit.records import Sample, Trial, Workload
from labkit.rigs.device import DeviceRig
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow
from tests.network.nic_host import RX, TX, add_veth, in_private_host
from tests.network.nic_host import needs_root as needs_root_agent

pytestmark = pytest.mark.network
FLOW = udp_flow(frame_bytes=80, flows=64)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("LABKIT_USERNS") == "1",
    reason="an XDP program takes root of the machine",
)
both = pytest.mark.parametrize("sink", ["rx_ring", "socket"])


@pytest.fixture(params=["own", "userns"])
def rig(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[VethRig]:
    if request.param == "userns":
        monkeypatch.setenv("LABKIT_USERNS", "1")
    with VethRig() as made:
        yield made


@pytest.fixture
def root_rig() -> Iterator[VethRig]:
    with VethRig() as made:
        yield made


def told(trial: Trial) -> dict[str, Any]:
    sink: dict[str, Any] = trial.environment["sink"]
    return sink


def assert_accounted(trial: Trial) -> None:
    """Every frame that left was received or dropped for want of room, and no count is missing."""
    assert trial.reconciled is True
    assert trial.device_sent is not None
    assert trial.peer_received is not None
    assert trial.peer_dropped is not None
    assert trial.device_sent == trial.peer_received + trial.peer_dropped
    assert (told(trial)["foreign"], told(trial)["drained"]) in {(0, True), (None, True)}


def once(rig: VethRig, workload: Workload, *, settings: None, duration_s: float) -> Trial:
    """A run that is not repeated where something disturbed it."""
    assert settings is None
    return rig.run(workload, duration_s=duration_s)


@both
@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring", "gso", "af_xdp"])
def test_exactly_what_was_sent_arrives(rig: VethRig, sink: str, engine: str) -> None:
    trial = run_trial(rig, Workload(FLOW, engine, sink=sink, stamp=True), count=1001, warmup_s=0)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (1001, 1001, 1001)
    assert_accounted(trial)
    names = ("lost", "duplicates", "reordered", "corrupted", "kernel_dropped")
    assert [told(trial)[name] for name in names] == [0, 0, 0, 0, 0]
    assert trial.environment["peer_counter"] == f"veth1 {sink}"
    assert trial.difference_reason is None


@both
def test_timed_run_at_full_speed_loses_nothing_without_a_number(rig: VethRig, sink: str) -> None:
    samples: list[Sample] = []
    workload = Workload(FLOW, "sendmmsg", sink=sink, stamp=True)
    trial = rig.run(workload, duration_s=0.5, on_sample=samples.append)
    assert_accounted(trial)
    assert told(trial)["lost"] == trial.peer_dropped
    assert trial.peer_received is not None
    assert trial.peer_received > 1000
    counts = [sample.peer_received or 0 for sample in samples]
    assert counts == sorted(counts)
    assert 0 < counts[-1] <= trial.peer_received
    assert told(trial)["latency_ns"] is None
    assert "no due times" in told(trial)["latency_note"]


def test_frames_without_numbers_are_compared_and_their_losses_are_unknown(rig: VethRig) -> None:
    trial = rig.run(Workload(FLOW, "sendmmsg", sink="rx_ring"), count=1000)
    assert_accounted(trial)
    assert (told(trial)["corrupted"], told(trial)["lost"], told(trial)["duplicates"]) == (0, None, None)


def test_own_numbers_of_a_flow_are_read(rig: VethRig) -> None:
    flow = udp_flow(frame_bytes=80, flows=512, pktgen_header=True)
    trial = rig.run(Workload(flow, "sendmmsg", sink="socket"), count=500)
    assert (told(trial)["lost"], told(trial)["reordered"], told(trial)["received"]) == (0, 0, 500)


def test_sockets_of_a_group_share_the_flows(rig: VethRig) -> None:
    workload = Workload(FLOW, "sendmmsg", sink="rx_ring", stamp=True, sink_sockets=2, sink_cpu=0)
    trial = rig.run(workload, count=5000)
    assert_accounted(trial)
    assert (sum(told(trial)["by_socket"]), told(trial)["lost"]) == (5000, 0)
    assert min(told(trial)["by_socket"]) > 0
    assert told(trial)["cpus"] == [0, 0]


def test_frames_wait_in_a_block_until_it_retires(rig: VethRig) -> None:
    middle = {}
    for retire_ms in (1, 800):
        workload = Workload(
            FLOW, "sendmmsg", sink="rx_ring", stamp=True, rate_pps=200, sink_retire_ms=retire_ms
        )
        trial = rig.run(workload, duration_s=1.6)
        assert_accounted(trial)
        middle[retire_ms] = told(trial)["latency_ns"]["p50"]
    # in the middle half of 800 ms, against a millisecond: a machine would have to stand still in between
    assert middle[1] < 100_000_000 < middle[800]


@both
@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring", "gso", "af_xdp"])
def test_paced_frames_of_each_engine_arrive_once_in_order_and_timed(
    rig: VethRig, sink: str, engine: str
) -> None:
    trial = rig.run(Workload(FLOW, engine, sink=sink, stamp=True, rate_pps=20_000), duration_s=0.3)
    assert_accounted(trial)
    names = ("lost", "duplicates", "reordered", "corrupted", "latency_note")
    assert [told(trial)[name] for name in names] == [0, 0, 0, 0, None]
    assert 0 < told(trial)["latency_ns"]["p50"] <= told(trial)["latency_ns"]["max"]


def test_latency_rises_from_quantile_to_quantile(rig: VethRig) -> None:
    workload = Workload(FLOW, "sendmmsg", sink="socket", stamp=True, rate_pps=2000)
    latency = told(rig.run(workload, duration_s=0.3))["latency_ns"]
    assert list(latency) == ["p50", "p90", "p99", "p99.9", "p99.99", "max"]
    assert list(latency.values()) == sorted(latency.values())
    assert latency["p50"] > 0


@both
def test_latency_is_measured_at_parts_of_the_rate_that_was_found(rig: VethRig, sink: str) -> None:
    found = latency_at_load(rig, Workload(FLOW, "sendmmsg", sink=sink), duration_s=0.1, measure=once)
    assert [point.trial.rate_pps for point in found.points] == [
        pytest.approx(share * found.found_pps) for share in (0.1, 0.5, 0.9)
    ]
    for point in found.points:
        assert_accounted(point.trial)
        assert point.latency_ns == told(point.trial)["latency_ns"]
        assert point.latency_ns is not None


def test_several_senders_are_received_together(rig: VethRig) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two senders take two CPUs")
    trial = rig.run(Workload(FLOW, "sendmmsg", sink="rx_ring", cpus=2), count=4001)
    assert_accounted(trial)
    assert (told(trial)["received"], told(trial)["corrupted"], told(trial)["lost"]) == (4001, 0, None)


def test_cpu_and_block_that_cannot_be_are_refused(rig: VethRig) -> None:
    with pytest.raises(WorkloadError, match="sink_cpu 4000 is not allowed here"):
        rig.run(Workload(FLOW, "sendmmsg", sink="rx_ring", sink_cpu=4000), count=1)
    with pytest.raises(CapabilityMissingError, match="sink 'stack' only counts"):
        rig.check(Workload(FLOW, "sendmmsg", sink_retire_ms=1))
    assert rig.run(Workload(FLOW, "sendmmsg", sink="rx_ring"), count=100).peer_received == 100


def test_sink_of_the_rig_takes_what_a_workload_asks_of_it() -> None:
    with VethRig(sink="rx_ring") as rig:
        trial = rig.run(Workload(FLOW, "sendmmsg", sink_retire_ms=2, sink_block_bytes=65536), count=100)
        assert (trial.sink, trial.peer_received) == ("rx_ring", 100)


@needs_root
@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring", "gso", "af_xdp", "xdp_live"])
def test_program_counts_every_frame_that_the_device_sent(root_rig: VethRig, engine: str) -> None:
    workload = Workload(FLOW, engine, sink="xdp_drop")
    counted = root_rig.run(workload, count=1001)
    assert (counted.device_sent, counted.peer_received, counted.peer_dropped) == (1001, 1001, 0)
    timed = root_rig.run(workload, duration_s=0.3)
    for trial in (counted, timed):
        assert_accounted(trial)
        assert trial.environment["peer_counter"] == "veth1 xdp_drop"
    # the program is off again: the stack gets at frames
    assert root_rig.run(Workload(FLOW, "sendmmsg"), count=100).peer_received == 100


def test_program_is_refused_in_a_user_namespace_with_another_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_USERNS", "1")
    with VethRig() as rig:
        for check in (True, False):
            with pytest.raises(CapabilityMissingError, match=r"needs CAP_BPF .* take sink 'rx_ring'"):
                rig.run(Workload(FLOW, "sendmmsg", sink="xdp_drop"), count=1, check=check)


@needs_root
def test_program_wants_frames_in_a_page() -> None:
    with VethRig(mtu=9000) as rig, pytest.raises(CapabilityMissingError, match="lower the MTU"):
        rig.run(Workload(FLOW, "sendmmsg", sink="xdp_drop"), count=1)


@pytest.mark.user
@needs_root_agent
@in_private_host
def test_port_of_a_device_has_the_same_sinks(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        assert rig.info.sinks == ("wire", "port", "rx_ring", "socket", "xdp_drop", "stack")
        for sink in ("rx_ring", "socket", "xdp_drop"):
            trial = rig.run(Workload(FLOW, "sendmmsg", sink=sink, stamp=True), count=1001)
            assert (trial.device_sent, trial.peer_received) == (1001, 1001)
            assert trial.reconciled is True
            assert told(trial)["lost"] == (None if sink == "xdp_drop" else 0)
    with DeviceRig(TX, state=tmp_path) as rig, pytest.raises(CapabilityMissingError, match="rx_ring"):
        rig.run(Workload(FLOW, "sendmmsg", sink="rx_ring"), count=1)
