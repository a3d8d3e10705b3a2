"""Real-time priority of the sending thread: held while it sends, put back, refused with what it takes."""

from __future__ import annotations

import os
import resource
import threading

import pytest

from labkit._native import Progress, StopFlag
from labkit.engines.base import EngineConfig, EngineReport
from labkit.errors import CapabilityMissingError
from labkit.traffic.table import FrameTable
from tests.network.private import Veth, in_private_network, veth_pair
from tests.network.test_engine_kernel import ENGINES, every_engine, frame, send

pytestmark = pytest.mark.network

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("LABKIT_USERNS") == "1",
    reason="real-time priority needs root outside any user namespace",
)
LIMIT_S = 30


def watched(name: str, veth: Veth) -> tuple[EngineReport, tuple[int, int], tuple[int, int]]:
    """A run's report, and policy and priority of its thread within the run and behind it."""
    engine, stop, progress = ENGINES[name], StopFlag(), Progress()
    config = EngineConfig(
        ifindex=veth.ifindex, batch=1, duration_ns=LIMIT_S * 10**9, rate_pps=1_000.0, realtime_priority=7
    )
    reports, thread_ids, behind = [], [], []

    def sending() -> None:
        thread_ids.append(threading.get_native_id())
        reports.append(engine.run(FrameTable.of([frame(60)]), config, stop, progress))
        behind.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))

    thread = threading.Thread(target=sending)
    thread.start()
    while progress.sent == 0 and thread.is_alive():
        threading.Event().wait(0.001)
    within = (os.sched_getscheduler(thread_ids[0]), os.sched_getparam(thread_ids[0]).sched_priority)
    stop.set()
    thread.join()
    return reports[0], within, behind[0]


@needs_root
@every_engine
@in_private_network
def test_sender_is_real_time_while_it_sends(name: str) -> None:
    with veth_pair() as veth:
        report, within, behind = watched(name, veth)
        assert report.sent == veth.counter("tx_packets") > 0
        assert within == (os.SCHED_FIFO, 7)
        assert behind == (os.SCHED_OTHER, 0)


@every_engine
@in_private_network
def test_priority_comes_back_after_an_error(name: str) -> None:
    before = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    with veth_pair() as veth, pytest.raises(Exception, match=r"ENODEV|ENXIO|CAP_SYS_NICE"):
        send(name, veth, [frame(60)], count=1, ifindex=4321, realtime_priority=3)
    assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == before


@every_engine
def test_user_namespace_refuses_with_what_it_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_USERNS", "1")

    @in_private_network
    def refused() -> str:
        # what an ordinary user is allowed; root's own limit may be more
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
        with veth_pair() as veth:
            with pytest.raises(CapabilityMissingError) as caught:
                send(name, veth, [frame(60)], count=1, realtime_priority=50)
            assert veth.counter("tx_packets") == 0
        return str(caught.value)

    said = refused()
    assert "realtime_priority 50 needs CAP_SYS_NICE in the initial user namespace" in said
    assert "ulimit -r 50" in said
    assert "EPERM" in said
