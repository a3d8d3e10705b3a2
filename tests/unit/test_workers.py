"""What each of several senders is asked, and what all did together."""

from __future__ import annotations

import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.agent import workers
from labkit.agent.protocol import Run
from labkit.agent.workers import merged, sending_pids, shares
from labkit.engines.base import EngineConfig, EngineReport
from labkit.errors import WorkloadError

CONFIG = EngineConfig(ifindex=1, batch=64, count=1001, rate_pps=3000.0)
REPORT = EngineReport(
    sent=10,
    refused=1,
    refused_by_errno={"ENOBUFS": 1},
    super_packets=None,
    partial_returns=0,
    calls=2,
    start_ns=100,
    end_ns=200,
    cpu_ns=90,
    involuntary_switches=0,
    qdisc_bypass=True,
    fatal_errno=None,
    ended_by="count",
    gaps=[(64, 3), (128, 1)],
    burst_frames=1,
)


def asked(workers: int, config: EngineConfig = CONFIG) -> Run:
    return Run(
        engine="send", sink="stack", config=config, workers=workers, sample_every_ns=1, peer_counters=[]
    )


@given(count=st.integers(0, 10_000), workers=st.integers(1, 8))
def test_parts_of_the_count_add_up_and_differ_by_one_at_most(count: int, workers: int) -> None:
    config = msgspec.structs.replace(CONFIG, count=count)
    counts = [share.count or 0 for share in shares(asked(workers, config), 7, set(range(8)))]
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1


def test_each_worker_has_a_cpu_a_queue_and_its_part_of_the_rate() -> None:
    parts = shares(asked(3), 7, {0, 2, 5})
    assert [(part.cpu, part.queue, part.ifindex, part.rate_pps) for part in parts] == [
        (5, 0, 7, 1000.0),
        (2, 1, 7, 1000.0),
        (0, 2, 7, 1000.0),
    ]


def test_first_worker_has_the_cpu_that_was_asked_for() -> None:
    parts = shares(asked(2, msgspec.structs.replace(CONFIG, cpu=0)), 7, {0, 1, 2})
    assert [part.cpu for part in parts] == [0, 2]


def test_more_workers_than_cpus_are_refused() -> None:
    with pytest.raises(WorkloadError, match="cpus 3: this process may use 2 CPUs"):
        shares(asked(3), 7, {0, 1})


def test_reports_add_up_from_the_first_start_to_the_last_end() -> None:
    late = msgspec.structs.replace(
        REPORT, start_ns=150, end_ns=260, ended_by="stop", gaps=[(64, 1), (256, 2)], qdisc_bypass=False
    )
    both = merged([REPORT, late])
    assert (both.sent, both.refused, both.refused_by_errno) == (20, 2, {"ENOBUFS": 2})
    assert (both.start_ns, both.end_ns, both.cpu_ns, both.ended_by) == (100, 260, 180, "stop")
    assert both.gaps == [(64, 4), (128, 1), (256, 2)]
    assert (both.qdisc_bypass, both.super_packets, both.burst_frames) == (False, None, 1)


def test_unknown_of_one_is_unknown_of_all() -> None:
    unknown = msgspec.structs.replace(REPORT, sent=None, gaps=None)
    assert merged([REPORT, unknown]).sent is None
    assert merged([REPORT, unknown]).gaps is None


def test_copied_once_is_copied() -> None:
    def together(*answers: bool | None) -> bool | None:
        return merged([msgspec.structs.replace(REPORT, zero_copy=answer) for answer in answers]).zero_copy

    assert together(True, True) is True
    assert together(True, False) is False
    assert together(None, None) is None


def test_beside_pktgens_threads_this_process_only_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = {"kpktgend_0": [12, 80], "kpktgend_2": [14]}
    monkeypatch.setattr(workers, "named", lambda name: threads.get(name, []))
    assert sending_pids("pktgen", [0, 2, 3]) == {12, 80, 14}
    assert sending_pids("sendmmsg", [0, 2]) == {os.getpid()}
