"""Paced runs against a real kernel: counts that are exact, gaps that add up. Engine and twin alike."""

from __future__ import annotations

import ctypes

import pytest

from labkit._native import Progress, StopFlag
from labkit.engines.base import EngineConfig
from labkit.traffic.table import FrameTable
from tests.network.private import in_private_network, veth_pair
from tests.network.test_engine_kernel import ENGINES, every_engine, frame, send

pytestmark = pytest.mark.network

PR_GET_TIMERSLACK = 30


@every_engine
@pytest.mark.parametrize(("rate_pps", "count"), [(1_000.0, 100), (20_000.0, 2_000), (200_000.0, 20_000)])
@in_private_network
def test_count_of_a_rate_leaves_whole_and_no_sooner(name: str, rate_pps: float, count: int) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], rate_pps=rate_pps, count=count)
        assert report.sent == veth.counter("tx_packets") == count
        assert report.elapsed_ns >= count * 1e9 / rate_pps
        assert report.gaps is not None
        assert report.burst_frames is not None
        assert sum(calls for _, calls in report.gaps) == report.calls - 1
        assert sum(floor_ns * calls for floor_ns, calls in report.gaps) <= report.elapsed_ns
        together = ENGINES[name].default_batch if rate_pps >= 50_000 or "gso" in name else 1
        assert report.burst_frames == min(together, rate_pps / 1_000)
        assert report.calls == -(-count // report.burst_frames)


@every_engine
@in_private_network
def test_unpaced_run_has_no_gaps(name: str) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], count=1000)
        assert (report.gaps, report.burst_frames) == (None, None)


@every_engine
@in_private_network
def test_timers_are_exact_during_the_run_only(name: str) -> None:
    libc = ctypes.CDLL(None)
    before_ns = libc.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)
    assert before_ns > 1
    with veth_pair() as veth:
        assert send(name, veth, [frame(60)], rate_pps=10_000.0, count=10).sent == 10
    assert libc.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == before_ns


@every_engine
@in_private_network
def test_progress_says_when_frames_are_due(name: str) -> None:
    with veth_pair() as veth:
        progress = Progress()
        config = EngineConfig(ifindex=veth.ifindex, batch=1, count=3, rate_pps=8_000.0)
        report = ENGINES[name].run(FrameTable.of([frame(60)]), config, StopFlag(), progress)
        assert (progress.start_ns, progress.frame_ns) == (report.start_ns, 125_000.0)
