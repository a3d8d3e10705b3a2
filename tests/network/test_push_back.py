"""A peer that is slower than the sender: who gives frames back, who refuses them, and that none is lost."""

from __future__ import annotations

import os

import pytest

from labkit.drivers.virtual import VETH_PUSHES_BACK_SINCE
from labkit.errors import WorkloadError
from labkit.experiment.sweep import Sweep
from labkit.experiment.trial import run_trial
from labkit.linux.machine import kernel_at_least, machine_facts
from labkit.records import Trial, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow

pytestmark = pytest.mark.network
FLOW = udp_flow(frame_bytes=60, flows=16)
KERNEL = machine_facts()["kernel"]
needs_push_back = pytest.mark.skipif(
    kernel_at_least(KERNEL, VETH_PUSHES_BACK_SINCE) is not True,
    reason=f"a veth pushes back from Linux {'.'.join(map(str, VETH_PUSHES_BACK_SINCE))} on; this is {KERNEL}",
)
COUNT = 20_000
EVERY_CPU = len(os.sched_getaffinity(0))
"""With a sender on each of them the peer's thread gets only a share of one, so it is the slower side."""


@pytest.fixture(params=["own", "userns"])
def as_whom(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "userns":
        monkeypatch.setenv("LABKIT_USERNS", "1")
    return str(request.param)


def lost(trial: Trial) -> tuple[int | None, ...]:
    return trial.device_dropped, trial.peer_dropped, trial.qdisc_dropped


@needs_push_back
@pytest.mark.usefixtures("as_whom")
def test_queue_takes_back_what_a_full_peer_does_not_and_nothing_is_lost() -> None:
    with VethRig(peer="napi-threaded", qdisc="pfifo", qdisc_limit=EVERY_CPU * COUNT) as rig:
        assert rig.pushes_back
        trial = rig.run(Workload(FLOW, engine="send", cpus=EVERY_CPU), duration_s=20, count=EVERY_CPU * COUNT)
    assert trial.environment["qdisc_requeues"] > 0
    assert trial.environment["refused_when_full"] is None
    assert trial.engine_sent == trial.device_sent == trial.peer_received == EVERY_CPU * COUNT
    assert (trial.engine_refused, trial.refused_by_errno, lost(trial)) == (0, {}, (0, 0, 0))
    assert (trial.limiter, trial.reconciled, trial.difference_reason) == ("peer", True, None)
    assert trial.environment["peer_mode"]["proved"] is True


@needs_push_back
@pytest.mark.usefixtures("as_whom")
@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring"])
def test_bypass_is_refused_by_the_kernel_while_no_counter_below_moves(engine: str) -> None:
    workload = Workload(FLOW, engine=engine, cpus=EVERY_CPU, qdisc_bypass=True)
    with VethRig(peer="napi-threaded", qdisc="pfifo") as rig:
        trial = rig.run(workload, duration_s=20, count=EVERY_CPU * COUNT)
    assert trial.environment["path"] == "qdisc bypass"
    assert trial.engine_refused > 0
    assert trial.refused_by_errno.keys() <= {"ENOBUFS", "EAGAIN"}
    assert trial.environment["refused_when_full"] == trial.engine_refused
    assert trial.environment["qdisc_requeues"] == 0
    assert (trial.engine_sent or 0) + trial.engine_refused == EVERY_CPU * COUNT
    assert trial.engine_sent == trial.device_sent == trial.peer_received
    assert lost(trial) == (0, 0, 0)
    assert (trial.limiter, trial.reconciled) == ("peer", True)
    told = ", ".join(f"{name} {number}" for name, number in sorted(trial.refused_by_errno.items()))
    assert trial.difference_reason == f"kernel refused {trial.engine_refused} ({told})"


@pytest.mark.usefixtures("as_whom")
def test_full_peer_without_a_queue_before_it_loses_frames_and_both_sides_count_them() -> None:
    with VethRig(peer="napi-threaded") as rig:
        trial = rig.run(Workload(FLOW, engine="send", cpus=EVERY_CPU), duration_s=20, count=EVERY_CPU * COUNT)
    assert trial.device_dropped is not None
    assert trial.device_dropped == trial.engine_refused == trial.refused_by_errno["ENOBUFS"]
    assert trial.environment["qdisc_requeues"] is None
    assert trial.engine_sent == trial.device_sent == trial.peer_received
    assert (trial.limiter, trial.reconciled) == ("device", True)


@pytest.mark.usefixtures("as_whom")
def test_peers_mode_is_asked_read_back_proved_and_put_back() -> None:
    workload = Workload(FLOW, engine="sendmmsg")
    with VethRig(qdisc="pfifo") as rig:  # a peer that is full shall lose none
        for mode in ("napi", "backlog", "napi-threaded"):
            trial = run_trial(rig, workload, settings={"peer": mode}, count=500, warmup_s=0)
            assert trial.settings_accepted["peer"] == mode
            by_napi = 0 if mode == "backlog" else 500
            told = {"asked": mode, "accepted": mode, "xdp_packets": by_napi, "proved": True}
            assert trial.environment["peer_mode"] == told
            assert (trial.peer_received, trial.reconciled) == (500, True)
        with rig.applied({"gro": True}) as applied:
            assert applied.accepted["peer"] == "mixed"
            mixed = run_trial(rig, workload, count=500, warmup_s=0)
        assert mixed.environment["peer_mode"]["xdp_packets"] == 0
        assert mixed.environment["peer_mode"]["proved"] is None
        with (
            pytest.raises(WorkloadError, match="peer napi means gro on"),
            rig.applied({"peer": "napi", "gro": False}),
        ):
            pytest.fail("applied")
        with rig.applied({}) as now:
            assert (now.accepted["peer"], now.accepted["gro"], now.accepted["threaded"]) == (
                "backlog",
                False,
                False,
            )


def test_ifb_has_no_peer_whose_mode_could_be_proved() -> None:
    with VethRig(peer="napi") as rig:
        trial = rig.run(Workload(FLOW, engine="send", sink="ifb"), count=10)
    told = trial.environment["peer_mode"]
    assert (told["accepted"], told["xdp_packets"], told["proved"]) == ("napi", None, None)


def test_mode_of_the_peer_is_swept_and_each_trial_has_its_proof() -> None:
    with VethRig() as rig:
        swept = Sweep(
            rig,
            Workload(FLOW, engine="gso", batch=16),
            factors={"peer": ["backlog", "napi"]},
            repeats=2,
            duration_s=0.05,
            warmup_s=0,
        ).run()
    assert len(swept.trials) == 4
    for trial in swept.trials:
        told = trial.environment["peer_mode"]
        assert told["proved"] is True
        assert (told["xdp_packets"] > 0) is (trial.settings_accepted["peer"] == "napi")
        assert trial.reconciled is True


def test_bypass_against_a_queue_is_swept_as_a_factor() -> None:
    with VethRig(qdisc="pfifo") as rig:
        swept = Sweep(
            rig,
            Workload(FLOW, engine="send"),
            factors={"qdisc_bypass": [False, True]},
            repeats=2,
            duration_s=0.05,
            warmup_s=0,
        ).run()
    paths = [trial.environment["path"] for trial in swept.trials]
    assert sorted(paths) == ["qdisc bypass"] * 2 + ["qdisc path"] * 2
    assert all(trial.reconciled for trial in swept.trials)
    assert {trial.settings_accepted["qdisc"] for trial in swept.trials} == {"pfifo"}


@pytest.mark.parametrize("whole", [False, True])
def test_queue_that_cuts_super_packets_up_drops_frames_and_each_is_accounted_for(whole: bool) -> None:
    workload = Workload(udp_flow(frame_bytes=1000, flows=1), engine="gso", batch=10)
    slow = {"qdisc": "tbf", "qdisc_limit": 60_000, "qdisc_rate_bps": 200_000_000}
    with VethRig() as rig, rig.applied({**slow, "tx_udp_segmentation": whole}):
        trial = rig.run(workload, count=2000)
    assert trial.engine_refused > 0
    assert trial.refused_by_errno == {"ENOBUFS": trial.engine_refused}
    assert trial.segments_sent == trial.engine_sent == 2000 - trial.engine_refused
    assert trial.environment["super_packets"] * 10 == trial.segments_sent
    assert (trial.device_sent or 0) + (trial.qdisc_dropped or 0) == 2000
    assert trial.peer_received == trial.device_sent
    assert trial.environment["device_packets_are"] == "frames"
    assert (trial.limiter, trial.reconciled) == ("qdisc", True)


@needs_push_back
@pytest.mark.parametrize("whole", [False, True])
def test_super_packets_that_a_full_fifo_refuses_are_dropped_whole(whole: bool) -> None:
    workload = Workload(FLOW, engine="gso", batch=50, cpus=EVERY_CPU)
    with (
        VethRig(peer="napi-threaded", qdisc="pfifo", qdisc_limit=2) as rig,
        rig.applied({"tx_udp_segmentation": whole}),
    ):
        trial = rig.run(workload, duration_s=20, count=EVERY_CPU * 100_000)
    carriers = trial.environment["super_packets"]
    assert trial.engine_refused > 0
    assert trial.segments_sent == 50 * carriers == EVERY_CPU * 100_000 - trial.engine_refused
    assert trial.qdisc_dropped == trial.engine_refused // 50
    assert trial.device_sent == trial.engine_sent == (carriers if whole else trial.segments_sent)
    assert trial.environment["device_packets_are"] == ("super-packets" if whole else "frames")
    assert (trial.limiter, trial.reconciled) == ("peer", True)
