"""pktgen's threads on two CPUs of an emulated machine: each its share, one queue for both, stopped as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.guest.image import GuestImage
from labkit.records import Trial
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

FRAMES = 3001
"""Odd, so that one worker has a frame more."""


@pytest.fixture(scope="module")
def two_cpus(guest_image: GuestImage, guest_cache: Path) -> Iterator[VmRig]:
    """A guest of two CPUs with two e1000e, which have one queue each."""
    with VmRig("e1000e", guest_cpus=2, cache=guest_cache) as rig:
        yield rig


def send(rig: VmRig, count: int | None = FRAMES, duration_s: float = 30, **asked: Any) -> Trial:
    workload = lk.Workload(lk.udp_flow(), engine="pktgen", cpus=2, **asked)
    return rig.run(workload, count=count, duration_s=duration_s)


def shares(trial: Trial) -> list[int]:
    return [worker["sent"] for worker in trial.environment["workers"]]


@pytest.mark.parametrize("asked", [{}, {"clone_skb": 1000}, {"xmit_mode": "queue_xmit"}], ids=str)
def test_workers_share_a_count_and_the_one_queue_without_a_warning(
    two_cpus: VmRig, asked: dict[str, Any]
) -> None:
    trial = send(two_cpus, **asked)
    assert shares(trial) == [1501, 1500]
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (FRAMES, FRAMES, FRAMES)
    assert trial.reconciled
    assert trial.environment["kernel_warnings"] == []
    devices = trial.environment["pktgen"]["devices"]
    assert [device["name"] for device in devices] == ["eth0@lk0", "eth0@lk1"]
    assert sorted(device["cpu"] for device in devices) == [0, 1]


def test_duration_ends_all_workers_and_every_frame_is_counted(two_cpus: VmRig) -> None:
    trial = send(two_cpus, count=None, duration_s=0.3, rate_pps=4000.0)
    assert trial.environment["ended_by"] == "duration"
    assert trial.engine_sent == trial.device_sent == trial.peer_received
    assert all(shares(trial))
    assert trial.environment["kernel_warnings"] == []


def test_stop_that_meets_a_worker_at_its_end_is_no_warning(two_cpus: VmRig) -> None:
    """Two frames leave at once, the second worker's whole share: it has ended as the first one is stopped."""
    trial = send(two_cpus, count=5, duration_s=0.3, rate_pps=2.0)
    assert shares(trial) == [3, 2]
    assert "kernel-log" not in trial.marks
    assert trial.environment["kernel_warnings"] == []
