"""What a trial tells of the kernel's pktgen, where its frames end, and which rigs have it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.agent import device as device_host
from labkit.cli.show import trial_text
from labkit.engines.pktgen_told import DeviceTold, PktgenTold
from labkit.errors import CapabilityMissingError, LabError, WorkloadError
from labkit.linux.machine import softnet_dropped, softnet_processed
from labkit.records import Workload
from labkit.rigs.catalog import DEVICE, VETH, check_workload
from labkit.rigs.pktgen_sink import sink_of
from tests.unit.test_assemble import reading, trial

FLOW = lk.udp_flow(60, flows=1)
DEVICE_TOLD = DeviceTold(
    name="eth0@lk0",
    cpu=0,
    accepted=[("queue_map_max 7", "0")],
    size_bytes=60,
    pps=5000,
    idle_ns=7000,
    errors=0,
    beyond_count=0,
    early=None,
)
TOLD = PktgenTold(
    xmit_mode="start_xmit",
    clone_skb=100_000,
    burst=1,
    commands=["count 5000"],
    frames_differ=["TTL is 32"],
    one_size=True,
    devices=[DEVICE_TOLD],
)


def told(**changed: Any) -> PktgenTold:
    return msgspec.structs.replace(TOLD, devices=[msgspec.structs.replace(DEVICE_TOLD, **changed)])


def test_trial_tells_what_the_kernel_took_otherwise_and_so_does_its_text() -> None:
    made = trial(reading(5000, peer=5000), asked={"engine": "pktgen"}, sent=5000, pktgen=TOLD)
    seen = made.environment["pktgen"]
    assert seen["accepted"] == [{"asked": "queue_map_max 7", "accepted": "0"}]
    assert (seen["pps"], seen["idle_ns"], seen["frames_differ"]) == (5000, 7000, ["TTL is 32"])
    assert "errors_note" not in seen
    assert made.reconciled
    assert (made.difference_reason, made.marks) == (None, [])
    assert "asked queue_map_max 7, accepted 0" in trial_text(made)
    assert "pktgen" not in trial(reading(5000, peer=5000)).environment


def test_burst_beyond_the_count_agrees_with_the_device_and_is_told() -> None:
    made = trial(reading(5031, peer=5031), sent=5031, pktgen=told(beyond_count=31))
    assert made.reconciled
    assert made.environment["pktgen"]["beyond_count"] == 31
    assert "31 frames more than asked: a burst is not cut" in trial_text(made)


def test_early_end_is_a_reason_and_a_mark_though_all_counts_agree() -> None:
    why = "pktgen ended by itself after 700 of 5000 frames: the link lost its carrier"
    made = trial(reading(700, peer=700), sent=700, pktgen=told(early=why), ended_by="error", carrier=False)
    assert made.reconciled
    assert made.difference_reason == why
    assert made.marks == ["ended-early", "no-carrier"]
    assert (made.engine_sent, made.device_sent) == (700, 700)
    assert "nobody here stopped it" in trial_text(made)


def test_burst_at_the_end_of_a_paced_run_is_no_rate_missed() -> None:
    """250 bursts of 8 at 10 000 frames a second have 248 gaps of 800 us: the first two leave at once."""
    asked = {"rate_pps": 10_000.0, "duration_s": 0.2}
    seen = msgspec.structs.replace(TOLD, burst=8)
    kept = trial(reading(2000, peer=2000), asked=asked, sent=2000, end_ns=198_426_000, pktgen=seen)
    assert kept.marks == []
    slow = {"rate_pps": 100.0, "duration_s": 0.2}
    assert trial(reading(20, peer=20), asked=slow, sent=20, end_ns=180_100_000, pktgen=TOLD).marks == []
    times_8 = trial(reading(2000, peer=2000), asked=asked, sent=2000, end_ns=24_900_000, pktgen=seen)
    assert times_8.marks == ["rate-missed"]


def test_length_of_a_trial_is_that_of_the_frames_that_left() -> None:
    made = trial(reading(5000, peer=5000), sent=5000, pktgen=told(size_bytes=62))
    assert made.frame_bytes == 62
    mixed = msgspec.structs.replace(told(size_bytes=590), one_size=False)
    assert trial(reading(5, peer=5), sent=5, pktgen=mixed).frame_bytes == trial(reading(5)).frame_bytes
    nothing = told(size_bytes=0, pps=0)
    assert trial(reading(0), sent=0, pktgen=nothing).frame_bytes == trial(reading(5)).frame_bytes


def test_drops_of_the_receive_path_are_told_as_meant() -> None:
    injected = msgspec.structs.replace(told(errors=5000), xmit_mode="netif_receive")
    seen = trial(reading(5000), sent=5000, pktgen=injected).environment["pktgen"]
    assert seen["errors"] == 5000
    assert "as is meant" in seen["errors_note"]


def test_netif_receive_ends_in_the_receive_path_and_nothing_else_does() -> None:
    injects = Workload(FLOW, "pktgen", xmit_mode="netif_receive")
    assert sink_of(injects, "port") == "stack"
    assert sink_of(Workload(FLOW, "pktgen"), "port") == "port"
    assert sink_of(Workload(FLOW, "pktgen", sink="wire"), "port") == "wire"
    check_workload(DEVICE, injects)
    check_workload(DEVICE, msgspec.structs.replace(injects, sink="stack"))
    with pytest.raises(WorkloadError, match=r"netif_receive sends nothing to sink 'port': .* name 'stack'"):
        check_workload(DEVICE, msgspec.structs.replace(injects, sink="port"))


@pytest.mark.parametrize("workload", [{"engine": "send"}, {"engine": "pktgen", "xmit_mode": "queue_xmit"}])
def test_receive_path_is_no_sink_of_frames_that_leave(workload: dict[str, Any]) -> None:
    with pytest.raises(CapabilityMissingError, match=r"sink 'stack' is this machine's own .* wire, port"):
        check_workload(DEVICE, Workload(FLOW, **workload, sink="stack"))
    check_workload(VETH, Workload(FLOW, "send", sink="stack"))


def test_veth_has_no_pktgen_and_says_who_has() -> None:
    with pytest.raises(CapabilityMissingError, match="rig 'veth' has no engine 'pktgen'"):
        check_workload(VETH, Workload(FLOW, "pktgen"))


def test_pktgens_options_are_refused_where_another_engine_sends() -> None:
    for name, value in (("clone_skb", 1), ("pktgen", "flag UDPCSUM")):
        with pytest.raises(LabError, match=f"engine 'send' has no {name}; take engine 'pktgen'"):
            check_workload(DEVICE, Workload(FLOW, "send", **{name: value}))


def test_frames_of_the_receive_path_are_counted_over_all_cpus(tmp_path: Any) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/softnet_stat").write_text("0000000a 00000001 00000000\n00000014 00000002 00000000\n")
    assert (softnet_processed(tmp_path), softnet_dropped(tmp_path)) == (30, 3)
    assert softnet_processed(tmp_path / "absent") is None


def test_device_counts_the_receive_path_for_that_sink_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = device_host.DeviceHost.__new__(device_host.DeviceHost)
    assert host.counter("stack") == ("softnet", "processed", None)
    monkeypatch.setattr(device_host, "softnet_processed", lambda: 42)
    assert host.read_links("stack") == ({"processed": 42}, {})
    monkeypatch.setattr(device_host, "softnet_processed", lambda: None)
    assert host.read_links("stack") == ({}, {})
