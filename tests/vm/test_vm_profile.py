"""Profiles of kernel pktgen in an emulated machine: whose work is whose, all of it there, nothing left."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import labkit as lk
from labkit.analysis.cpu_profile import TOLERANCE, CpuProfile, Profiled
from labkit.cli import run_command
from labkit.guest.machine import SENDER_MAC
from labkit.linux.perf_program import find_perf
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

FRAMES = 200_000
SHORT = 5_000
TOLD = 100_000
ANOTHERS_MAC = "02:00:00:00:00:02"
RATE_HZ = 1999


@pytest.fixture(scope="module", autouse=True)
def _perf() -> None:
    if find_perf() is None:
        pytest.skip("no perf (linux-perf): make system-packages")


def pktgen(dst_mac: str = ANOTHERS_MAC, **more: str) -> lk.Workload:
    return lk.Workload(lk.udp_flow(frame_bytes=60, dst_mac=dst_mac), engine="pktgen", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def injected(e1000e: VmRig) -> Profiled:
    """Of netif_receive, whose frames are for somebody else, as a flow's are."""
    return lk.profile(e1000e, pktgen(xmit_mode="netif_receive"), count=FRAMES)


@pytest.fixture(scope="module")
def sent(e1000e: VmRig) -> Profiled:
    return lk.profile(e1000e, pktgen(), count=FRAMES)


def names(profile: CpuProfile) -> set[str]:
    """Functions that were met, those that called others too."""
    return {name for cost in profile.functions for name in (cost.name, *cost.callers)}


def share(profile: CpuProfile, *groups: str) -> float:
    return sum(cost.share for cost in profile.groups if cost.name in groups)


def check_sum(profile: CpuProfile) -> None:
    for costs in (profile.groups, profile.functions):
        assert sum(cost.ns_per_packet for cost in costs) == pytest.approx(profile.sum_ns)
    assert profile.sum_ns == pytest.approx(profile.ns_per_packet, rel=TOLERANCE)
    assert (profile.sum_agrees, profile.lost) == (True, 0)


def test_injected_frames_come_to_ip_though_they_are_for_somebody_else(injected: Profiled) -> None:
    assert injected.trial.engine_sent == injected.trial.device_sent == FRAMES
    assert injected.profile.invalid is None
    assert {"__netif_receive_skb_core", "ip_rcv", "pktgen_xmit"} <= names(injected.profile)
    assert not {"e1000_xmit_frame", "ip_route_input_slow"} & names(injected.profile)
    check_sum(injected.profile)


def test_injected_frames_for_this_machine_are_looked_up_a_route_for(e1000e: VmRig) -> None:
    profile = lk.profile(e1000e, pktgen(SENDER_MAC, xmit_mode="netif_receive"), count=FRAMES).profile
    assert profile.invalid is None
    assert {"__netif_receive_skb_core", "ip_rcv", "ip_route_input_slow"} <= names(profile)
    check_sum(profile)


def test_sent_frames_are_the_drivers_work_and_the_far_cards(sent: Profiled) -> None:
    assert sent.trial.peer_received == sent.trial.device_sent == FRAMES
    assert {"e1000_xmit_frame", "pktgen_xmit", "e1000_clean_rx_irq"} <= names(sent.profile)
    assert share(sent.profile, "driver") > 0.1
    check_sum(sent.profile)


def test_hardly_any_function_is_in_no_group(injected: Profiled, sent: Profiled) -> None:
    assert share(injected.profile, "other") < 0.05
    assert share(sent.profile, "other") < 0.05


def test_the_agents_looks_at_pktgen_are_another_programs(injected: Profiled) -> None:
    assert 0 < share(injected.profile, "other programs") < 0.1
    assert share(injected.profile, "user space", "system call entry") < 0.01
    assert share(injected.profile, "pktgen") > 0.05


def test_samples_come_at_their_rate_by_the_guests_clock(injected: Profiled) -> None:
    profile = injected.profile
    assert profile.rate_hz == RATE_HZ
    assert profile.samples == pytest.approx(FRAMES * profile.ns_per_packet * RATE_HZ / 1e9, rel=0.05)
    assert profile.slowed_by == pytest.approx(0, abs=0.1)


def test_engines_of_user_space_are_sampled_there_too(e1000e: VmRig) -> None:
    told = lk.profile(e1000e, lk.Workload(lk.udp_flow(), engine="sendmmsg"), count=SHORT)
    assert told.trial.peer_received == SHORT
    assert {"packet_sendmsg", "packet_snd", "e1000_xmit_frame"} & names(told.profile)
    check_sum(told.profile)


def test_the_command_tells_a_profile_and_perf_leaves_no_file(
    e1000e: VmRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "open_rig", lambda *_: contextlib.nullcontext(e1000e))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    words = ["--rig", "vm:e1000e", "--engine", "pktgen", "--xmit-mode", "netif_receive", "--profile"]
    told = CliRunner().invoke(run_command.command, [*words, "--count", str(TOLD), "--json"])
    assert told.exit_code == 0, told.output
    profile = json.loads(told.stdout)["profile"]
    assert profile["invalid"] is None
    assert "__netif_receive_skb_core" in {cost["name"] for cost in profile["functions"]}
    assert list(tmp_path.rglob("*")) == []
