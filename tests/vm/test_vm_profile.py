"""Profiles of kernel pktgen in an emulated machine: whose work is whose, that all of it is there, what is left."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import labkit as lk
from labkit.analysis.cpu_profile import TOLERANCE, CpuProfile
from labkit.cli.main import main
from labkit.errors import CapabilityMissingError
from labkit.guest.machine import SENDER_MAC
from labkit.linux.perf_program import SEARCHED, find_perf
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

FRAMES = 100_000
SHORT = 10_000


@pytest.fixture(autouse=True)
def _perf() -> None:
    if find_perf() is None:
        pytest.skip("no perf (linux-perf): make system-packages")


def pktgen(flow: lk.Flow | None = None, **more: object) -> lk.Workload:
    return lk.Workload(flow or lk.udp_flow(frame_bytes=60), engine="pktgen", **more)  # type: ignore[arg-type]


def names(profile: CpuProfile) -> set[str]:
    """Functions that were met, as callers too."""
    return {name for cost in profile.functions for name in (cost.name, *cost.callers)}


def check_sum(profile: CpuProfile) -> None:
    for costs in (profile.groups, profile.functions):
        assert sum(cost.ns_per_packet for cost in costs) == pytest.approx(profile.sum_ns)
    assert profile.sum_ns == pytest.approx(profile.ns_per_packet, rel=TOLERANCE)
    assert (profile.sum_agrees, profile.lost) == (True, 0)


def share(profile: CpuProfile, *groups: str) -> float:
    return sum(cost.share for cost in profile.groups if cost.name in groups)


@pytest.mark.parametrize("dst_mac", ["02:00:00:00:00:02", SENDER_MAC], ids=["another's", "its own"])
def test_injected_frames_come_to_ip_whoever_they_are_for(e1000e: VmRig, dst_mac: str) -> None:
    asked = pktgen(lk.udp_flow(frame_bytes=60, dst_mac=dst_mac), xmit_mode="netif_receive")
    told = lk.profile(e1000e, asked, count=FRAMES)
    assert told.trial.engine_sent == told.trial.device_sent == FRAMES
    assert told.profile.invalid is None
    assert {"__netif_receive_skb_core", "ip_rcv", "pktgen_xmit"} <= names(told.profile)
    # only a frame for this machine is looked up a route for
    assert ("ip_route_input_slow" in names(told.profile)) is (dst_mac == SENDER_MAC)
    assert "e1000_xmit_frame" not in names(told.profile)
    check_sum(told.profile)


def test_sent_frames_are_the_drivers_work_and_the_far_cards(e1000e: VmRig) -> None:
    told = lk.profile(e1000e, pktgen(), count=FRAMES)
    assert told.trial.peer_received == told.trial.device_sent == FRAMES
    assert {"e1000_xmit_frame", "pktgen_xmit", "e1000_clean_rx_irq"} <= names(told.profile)
    check_sum(told.profile)
    assert share(told.profile, "driver") > 0.1
    # every group has a place: what none names is no large part
    assert share(told.profile, "other") < 0.1


def test_the_agents_looks_at_pktgen_are_another_programs(e1000e: VmRig) -> None:
    profile = lk.profile(e1000e, pktgen(xmit_mode="netif_receive"), count=FRAMES).profile
    assert 0 < share(profile, "other programs") < 0.1
    assert share(profile, "user space", "system call entry") < 0.01
    assert share(profile, "pktgen") > 0.05


def test_sampling_costs_a_guest_little_and_its_limits_are_not_of_its_clock(e1000e: VmRig) -> None:
    told = lk.profile(e1000e, pktgen(xmit_mode="netif_receive"), count=FRAMES)
    assert told.profile.rate_hz == 1999
    # a sample each 500 250 ns of the guest's time
    due = FRAMES * told.profile.ns_per_packet * 1999 / 1e9
    assert told.profile.samples == pytest.approx(due, rel=0.05)
    assert told.profile.slowed_by == pytest.approx(0, abs=0.1)


def test_user_space_engines_are_sampled_there_too(e1000e: VmRig) -> None:
    told = lk.profile(e1000e, lk.Workload(lk.udp_flow(), engine="sendmmsg"), count=SHORT)
    assert told.trial.peer_received == SHORT
    assert {"packet_sendmsg", "e1000_xmit_frame"} & names(told.profile)
    check_sum(told.profile)


def test_perf_leaves_nothing_behind_on_the_host(
    e1000e: VmRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    lk.profile(e1000e, pktgen(), count=SHORT)
    assert list(tmp_path.rglob("*")) == []


def test_the_command_tells_it_as_json(guest_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.rigs.vm.cache_dir", lambda: guest_cache.parent)
    monkeypatch.setattr("labkit.rigs.vm.CACHE", guest_cache, raising=False)
    words = ["run", "--rig", "vm:e1000e", "--engine", "pktgen", "--xmit-mode", "netif_receive"]
    told = CliRunner().invoke(main, [*words, "--count", str(SHORT), "--profile", "--json"])
    assert told.exit_code == 0, told.output
    profile = json.loads(told.stdout)["profile"]
    assert profile["invalid"] is None
    assert any(cost["name"] == "__netif_receive_skb_core" for cost in profile["functions"])
