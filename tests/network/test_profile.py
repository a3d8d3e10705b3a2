"""Where a real packet's nanoseconds go, as perf samples the senders' CPUs: whole, and gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit as lk
from labkit.agent.sampling import SEARCHED
from labkit.analysis.cpu_profile import BY_TIMER, TOLERANCE, CpuProfile
from labkit.analysis.cpu_time import cpu_profile
from labkit.analysis.kernel_groups import INTERRUPT
from labkit.errors import AgentLostError, CapabilityMissingError, LabError, WorkloadError
from labkit.rigs.veth import VethRig

FLOW = lk.udp_flow(frame_bytes=60, flows=16)
SENDMMSG = lk.Workload(FLOW, engine="sendmmsg")
PATIENCE_S = 20.0


def missing() -> str | None:
    if os.geteuid() != 0:
        return "only root samples CPUs: sudo make test"
    return None if shutil.which("perf", path=SEARCHED) else "no perf (linux-perf): make system-packages"


pytestmark = pytest.mark.network


@pytest.fixture(autouse=True)
def _perf() -> None:
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[VethRig]:
    monkeypatch.delenv("LABKIT_USERNS", raising=False)
    with VethRig() as made:
        yield made


def agent_pid(rig: VethRig) -> int:
    return rig._client._process.pid  # type: ignore[attr-defined,no-any-return]


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def check_sum(profile: CpuProfile) -> None:
    """Samples and the time without any are the whole, whatever else ran here; the verdict is of samples."""
    for costs in (profile.functions, profile.groups):
        assert sum(cost.ns_per_packet for cost in costs) == pytest.approx(profile.sum_ns)
    whole = profile.ns_per_packet
    assert profile.sum_ns + profile.unsampled_ns == pytest.approx(whole, rel=TOLERANCE)
    if profile.event == "cpu-clock":
        assert profile.sum_agrees is (abs(profile.sum_ns - whole) <= TOLERANCE * whole)
        assert (profile.why_not is None) is profile.sum_agrees
        assert BY_TIMER in profile.notes


def test_samples_add_up_to_the_time_of_a_packet_and_name_its_way(rig: VethRig) -> None:
    found = lk.profile(rig, SENDMMSG, duration_s=0.5)
    trial, profile = found.trial, found.profile
    assert trial.reconciled is True
    assert profile.ns_per_packet == pytest.approx(trial.ns_per_packet)
    check_sum(profile)
    assert profile.cpus == (trial.environment["cpu"],)
    assert profile.samples > 500
    assert profile.slowed_by is not None
    assert {"veth_xmit", "packet_sendmsg", "__dev_queue_xmit"} <= {cost.name for cost in profile.functions}
    named = {group.name for group in profile.groups}
    assert {"packet socket", "driver", "skb allocation and free", "receive path and softirq"} <= named
    assert profile.invalid is None
    assert all(cost.low <= cost.ns_per_packet <= cost.high for cost in profile.functions)


def test_sink_that_drops_at_once_has_no_receive_path_to_pay_for(rig: VethRig) -> None:
    _, seen = rig.run_sampled(lk.Workload(FLOW, engine="sendmmsg", sink="ifb"), duration_s=0.5)
    # behind an interrupt the CPU works on anybody's packets
    chains = [set(stack.kernel) for stack in seen.stacks if stack.task == "own"]
    own = [chain for chain in chains if not any(name.startswith(INTERRUPT) for name in chain)]
    assert any("ifb_xmit" in chain for chain in own)
    assert not any("ip_rcv" in chain for chain in own)


def test_paced_run_is_mostly_idle_or_another_programs(rig: VethRig) -> None:
    paced = lk.Workload(FLOW, engine="send", rate_pps=2000)
    trial, seen = rig.run_sampled(paced, duration_s=0.5)
    profile = cpu_profile(trial, seen)
    assert profile.ns_per_packet == pytest.approx(trial.ns_per_packet)
    assert {group.name: group.share for group in profile.groups}.get("packet socket", 0.0) < 0.1
    check_sum(profile)


def test_every_senders_cpu_is_sampled(rig: VethRig) -> None:
    cpus = len(os.sched_getaffinity(0))
    trial, seen = rig.run_sampled(lk.Workload(FLOW, engine="sendmmsg", cpus=cpus), duration_s=0.5)
    profile = cpu_profile(trial, seen)
    assert sorted(profile.cpus) == sorted(os.sched_getaffinity(0))
    assert profile.ns_per_packet == pytest.approx(trial.ns_per_packet * cpus)
    check_sum(profile)


def test_run_that_is_stopped_has_its_profile_too(rig: VethRig) -> None:
    trial, seen = rig.run_sampled(SENDMMSG, duration_s=30, on_sample=lambda _: rig.stop())
    assert trial.environment["ended_by"] == "stop"
    assert seen.end_ns - seen.start_ns == trial.elapsed_ns
    assert seen.stacks


def test_agent_keeps_neither_perf_nor_samples(rig: VethRig) -> None:
    rig.run_sampled(SENDMMSG, duration_s=0.05)
    pid = agent_pid(rig)
    held = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    for _ in range(3):
        rig.run_sampled(SENDMMSG, duration_s=0.05)
    assert children(pid) == []
    assert len(list(Path(f"/proc/{pid}/fd").iterdir())) == held


def test_perf_ends_with_an_agent_that_is_killed(rig: VethRig) -> None:
    pid, perf = agent_pid(rig), []

    def kill(_: object) -> None:
        perf.extend(children(pid))
        os.kill(pid, signal.SIGKILL)

    with pytest.raises(AgentLostError):
        rig.run_sampled(SENDMMSG, duration_s=10, on_sample=kill)
    assert perf
    deadline = time.monotonic() + PATIENCE_S
    while any(map(alive, perf)):
        assert time.monotonic() < deadline, "perf outlives its agent"


def test_perf_that_dies_in_the_run_is_told_and_the_rig_works_on(rig: VethRig) -> None:
    def kill(_: object) -> None:
        for child in children(agent_pid(rig)):
            os.kill(child, signal.SIGKILL)

    with pytest.raises(LabError, match="perf ended in the middle"):
        rig.run_sampled(SENDMMSG, duration_s=0.5, on_sample=kill)
    assert rig.run(SENDMMSG, count=100).reconciled is True


def test_in_a_user_namespace_it_is_refused_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_USERNS", "1")
    words = r"user namespace.*perf_event_paranoid <= 0"
    with VethRig() as rig:
        with pytest.raises(CapabilityMissingError, match=words) as refused:
            lk.profile(rig, SENDMMSG)
        assert refused.value.exit_code == 4
        assert rig.run(SENDMMSG, count=100).reconciled is True


def test_longer_runs_than_a_minute_are_refused(rig: VethRig) -> None:
    with pytest.raises(WorkloadError, match="60 s at the most"):
        lk.profile(rig, SENDMMSG, duration_s=61)


def test_command_prints_the_trial_and_its_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABKIT_USERNS", raising=False)
    command = [sys.executable, "-m", "labkit", "run", "--profile", "--duration", "0.1"]
    plain, as_json = (
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=60, check=True).stdout
        for more in ([], ["--json"])
    )
    told = json.loads(as_json)
    assert told.keys() == {"trial", "profile"}
    assert told["trial"]["device_sent"] > 0
    assert told["profile"]["functions"]
    assert "ns/packet" in plain
    assert "packet socket" in plain
