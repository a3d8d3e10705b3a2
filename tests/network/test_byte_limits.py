"""Byte queue limits of real devices: a veth has none, an ifb device a directory that proves nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.agent.queue_limits import ByteLimits, byte_limits
from labkit.analysis.queue_limits import bql_series
from labkit.errors import LabError, SettingRefusedError
from labkit.records import Workload
from labkit.rigs.device import DeviceRig
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow
from tests.network.nic_host import in_private_host, journals, leave_changed, needs_root, restore_all

pytestmark = pytest.mark.network
FLOW = udp_flow(frame_bytes=1514, flows=16)
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
NO_DIRECTORY_SINCE = (6, 9)
"""Devices that send without a lock or queue of their own lost it (net/core/net-sysfs.c, netdev_uses_bql)."""
WIDE_OPEN_BYTES = 1_879_048_192
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


def add_ifb(name: str) -> None:
    with IPRoute() as ip:
        ip.link("add", ifname=name, kind="ifb")
        ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")


def first_limits(least: int = 0) -> ByteLimits:
    return ByteLimits(limit_bytes=0, inflight_bytes=0, limit_min_bytes=least, limit_max_bytes=WIDE_OPEN_BYTES)


@needs_root
@in_private_host
def test_kernel_takes_the_widest_limit_refuses_a_wider_one_and_has_its_own_back(tmp_path: Path) -> None:
    add_ifb("ifb7")
    with DeviceRig("ifb7", state=tmp_path) as rig:
        with rig.applied({"bql_limit_min": WIDE_OPEN_BYTES}) as now:
            assert now.accepted["bql_limit_min"] == WIDE_OPEN_BYTES
            assert byte_limits("ifb7") == first_limits(WIDE_OPEN_BYTES)
            assert len(journals(tmp_path)) == 1
            trial = rig.run(Workload(flow=FLOW, engine="sendmmsg"), count=640)
            assert trial.environment["bql"]["limit_min"] == WIDE_OPEN_BYTES
        assert byte_limits("ifb7") == first_limits()
        with pytest.raises(SettingRefusedError) as told, rig.applied({"bql_limit_min": WIDE_OPEN_BYTES + 1}):
            pass
    assert told.value.errno == errno.EINVAL
    assert byte_limits("ifb7") == first_limits()


@needs_root
@in_private_host
def test_limits_that_a_killed_laboratory_left_wide_open_are_put_back(tmp_path: Path) -> None:
    add_ifb("ifb7")
    leave_changed("ifb7", tmp_path, {"bql_limit_min": WIDE_OPEN_BYTES})
    assert byte_limits("ifb7") == first_limits(WIDE_OPEN_BYTES)
    assert any("bql_limit_min" in text for text in restore_all(tmp_path))
    assert byte_limits("ifb7") == first_limits()
