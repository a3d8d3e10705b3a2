"""Byte queue limits at work in a real driver, and what `limit_min` and `limit_max` make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import labkit as lk
from labkit.factors import Scalar
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

FULL = lk.Workload(lk.udp_flow(frame_bytes=1514), engine="sendmmsg")
OFF = 1_879_048_192
"""The kernel's largest limit."""


def told(rig: VmRig, settings: Mapping[str, Scalar]) -> dict[str, Any]:
    with rig.applied(settings):
        trial = rig.run(FULL, count=20_000, duration_s=30)
    assert trial.peer_received == trial.device_sent == 20_000
    bql: dict[str, Any] = trial.environment["bql"]
    assert bql["state"] == "at work"
    return bql


def test_the_limit_grows_from_nothing_to_what_one_interrupt_needs(e1000e: VmRig) -> None:
    limit = told(e1000e, {"tx_ring": 512})["limit_bytes"]  # a ring change empties the queue's memory
    assert limit["first"] == 0
    assert 20_000 < limit["last"] < 100_000


def test_limits_without_end_are_let_go_of_behind_the_block(e1000e: VmRig) -> None:
    off = told(e1000e, {"bql_limit_min": OFF})
    assert (off["limit_min"], off["limit_bytes"]["last"]) == (OFF, OFF)
    after = told(e1000e, {})
    assert after["limit_min"] == 0
    assert after["limit_bytes"]["first"] < OFF
    assert 20_000 < after["limit_bytes"]["last"] < 100_000


def test_a_largest_limit_holds_and_slows_the_sender(e1000e: VmRig) -> None:
    with e1000e.applied({"bql_limit_max": 5000}):
        held = e1000e.run(FULL, count=20_000, duration_s=30)
    assert held.environment["bql"]["limit_bytes"]["last"] == 5000
    free = e1000e.run(FULL, count=20_000, duration_s=30)
    assert free.environment["bql"]["limit_max"] == OFF
    assert free.environment["bql"]["limit_bytes"]["last"] > 5000
    assert held.pps < free.pps


def test_a_directory_is_no_proof(virtio_net: VmRig) -> None:
    trial = virtio_net.run(FULL, count=2000, duration_s=30)
    assert trial.environment["bql"]["state"] == "directory without driver support"
