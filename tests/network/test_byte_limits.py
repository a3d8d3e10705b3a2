"""Byte queue limits of real devices: a veth has none, an ifb device a directory that proves nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from labkit.analysis.queue_limits import bql_series
from labkit.errors import LabError
from labkit.records import Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow

pytestmark = pytest.mark.network
FLOW = udp_flow(frame_bytes=1514, flows=16)
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
NO_DIRECTORY_SINCE = (6, 9)
"""Devices that send without a lock or queue of their own lost it (net/core/net-sysfs.c, netdev_uses_bql)."""
ABSENT = {"limit_bytes": None, "inflight_bytes": None, "limit_min": None, "limit_max": None}


@pytest.fixture(scope="module")
def rig() -> Iterator[VethRig]:
    with VethRig() as opened:
        yield opened


def test_veth_has_none_and_says_so(rig: VethRig) -> None:
    trial = rig.run(Workload(flow=FLOW, engine="sendmmsg"), duration_s=0.3)
    if KERNEL < NO_DIRECTORY_SINCE:
        assert trial.environment["bql"]["state"] == "directory without driver support"
        return
    assert trial.environment["bql"] == {"state": "none", **ABSENT}
    assert {(each.bql_limit_bytes, each.bql_inflight_bytes) for each in trial.samples} == {(None, None)}
    with pytest.raises(LabError, match="veth0 has no byte queue limits"):
        bql_series(trial)


def test_ifbs_directory_stays_at_0_and_is_no_proof(rig: VethRig) -> None:
    trial = rig.run(Workload(flow=FLOW, engine="sendmmsg", sink="ifb"), duration_s=0.3)
    assert trial.device_sent
    assert trial.samples
    assert trial.environment["bql"]["state"] == "directory without driver support"
    assert trial.environment["bql"]["limit_bytes"] == {"first": 0, "last": 0, "min": 0, "max": 0}
    assert {(each.bql_limit_bytes, each.bql_inflight_bytes) for each in trial.samples} == {(0, 0)}
    with pytest.raises(LabError, match="ifb0 has the directory"):
        bql_series(trial)


def test_ifb_without_a_packet_proves_nothing(rig: VethRig) -> None:
    trial = rig.run(Workload(flow=FLOW, engine="sendmmsg", sink="ifb"), count=0)
    assert trial.environment["bql"]["state"] is None
