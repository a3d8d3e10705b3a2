"""A TCP stream between two cards of an emulated machine: every byte, the one CPU, the driver's limits."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import labkit as lk
from labkit.engines.peer_process import PROGRAMS
from labkit.records import Trial
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

TCP = lk.Workload(lk.udp_flow(), engine="tcp")


def told(trial: Trial) -> dict[str, Any]:
    found: dict[str, Any] = trial.environment["tcp"]
    return found


@pytest.mark.parametrize(("message_bytes", "count"), [(None, 300), (1500, 777), (1_000_000, 3)])
def test_every_byte_of_a_count_of_writes_arrives(
    e1000e: VmRig, message_bytes: int | None, count: int
) -> None:
    asked = lk.Workload(lk.udp_flow(), engine="tcp", message_bytes=message_bytes)
    trial = e1000e.run(asked, count=count, duration_s=30)
    expected = (message_bytes or 16_384) * count
    assert (told(trial)["bytes_sent"], told(trial)["bytes_received"]) == (expected, expected)
    assert (trial.reconciled, trial.difference_reason) == (True, None)
    assert trial.environment["ended_by"] == "count"


def test_stream_tells_its_cost_on_the_one_cpu_and_its_limits_are_at_work(e1000e: VmRig) -> None:
    trial = e1000e.run(TCP, duration_s=0.6)
    seen = told(trial)
    assert trial.environment["ended_by"] == "duration"
    assert trial.reconciled
    assert 0 < seen["cpu_local_pct"] <= 100
    assert seen["sdem_local_us_per_kb"] > 0
    assert (seen["cpu_remote_pct"], seen["sdem_remote_us_per_kb"]) == (None, None)
    assert "share one CPU" in seen["cpus_are"]
    assert trial.environment["bql"]["state"] == "at work"
    assert any(sample.bql_limit_bytes for sample in trial.samples)
    assert lk.oscillation(trial).unit == "Mbit/s"


def test_stop_ends_a_stream_and_frames_are_sent_as_ever_behind_it(e1000e: VmRig) -> None:
    trial = e1000e.run(TCP, duration_s=30, on_sample=lambda _: e1000e.stop())
    assert trial.environment["ended_by"] == "stop"
    assert trial.reconciled
    after = e1000e.run(lk.Workload(lk.udp_flow(), engine="pktgen"), count=1000, duration_s=30)
    assert (after.device_sent, after.peer_received) == (1000, 1000)


def test_stream_of_iperf3_is_told_by_the_device(e1000e: VmRig) -> None:
    if shutil.which("iperf3", path=PROGRAMS) is None:
        pytest.skip("no iperf3: make system-packages")
    trial = e1000e.run(lk.Workload(lk.udp_flow(), engine="iperf3_tcp"), duration_s=0.5)
    assert told(trial)["device_mbit"] > 0
    assert told(trial)["throughput_mbit"] is None
