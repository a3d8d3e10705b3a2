"""What goes wrong on a simulated card meets the code that real cards meet: gaps, marks, limiters, doubts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.errors import LabError, SettingRefusedError, WorkloadError
from labkit.experiment.sweep import Sweep
from labkit.experiment.trial import run_trial
from labkit.records import Trial, Workload
from labkit.rigs.choose import simulated_rig
from labkit.rigs.simulated_faults import Faults, faults_of
from tests.unit.test_sim_rig import workload

RING_LIMITED = {"tx_ring": 256}


def trial(faults: Any, settings: dict[str, Any] | None = None, **run: Any) -> Trial:
    with simulated_rig("sim:ixgbe", faults=faults) as rig, rig.applied(settings or {}):
        return rig.run(workload(), **run)


def gaps(faults: Any, folder: Path) -> dict[Any, str]:
    with simulated_rig("sim:ixgbe", faults=faults) as rig:
        sweep = Sweep(rig, workload(), factors={"tx_ring": [512, 1024]}, repeats=1, duration_s=0.01)
        results = sweep.run(folder / "results.sqlite", progress=False)
    assert len(results.rows) == 1
    return {gap.levels["tx_ring"]: f"{gap.gap.error}: {gap.gap.reason}" for gap in results.gaps}


def test_refused_level_is_a_gap_in_the_drivers_words(tmp_path: Path) -> None:
    (reason,) = gaps(Faults(refuse=("tx_ring",)), tmp_path).values()
    assert reason.startswith("SettingRefusedError: eth0: tx_ring 1024 is refused")
    assert "[EINVAL: Invalid argument] [kernel: refused by fault injection]" in reason


def test_link_that_stays_away_is_a_failed_point_and_never_0_pps(tmp_path: Path) -> None:
    assert gaps(Faults(link_down_after=("tx_ring",)), tmp_path) == {
        1024: "SettingRefusedError: eth0: no carrier within 10 s after tx_ring changed; the settings were "
        "put back. Look at the cable and at the other end"
    }


def test_refusal_in_the_middle_puts_back_what_was_turned_before() -> None:
    with simulated_rig("sim:ixgbe", faults={"refuse": ["rx_usecs"]}) as rig:
        before = rig.run(workload())
        with pytest.raises(SettingRefusedError), rig.applied({"tx_ring": 256, "rx_usecs": 30}):
            pytest.fail("the settings were taken")
        assert rig.run(workload()) == before


def test_link_lost_without_a_reset_is_no_carrier_before_anything_is_sent() -> None:
    with (
        simulated_rig("sim:ixgbe", faults={"link_down_after": "txqueuelen"}) as rig,
        rig.applied({"txqueuelen": 500}),
    ):
        with pytest.raises(LabError, match="eth0: no carrier"):
            rig.run(workload())
        blind = rig.run(workload(), check=False)
    assert (blind.device_sent, blind.limiter) == (0, "carrier")
    assert blind.marks == ["no-carrier", "nothing-sent"]


def test_link_lost_within_a_run_ends_it_and_is_its_limiter() -> None:
    lost = trial(Faults(carrier_lost_after_s=0.25))
    assert (lost.limiter, lost.marks, lost.environment["ended_by"]) == ("carrier", ["no-carrier"], "error")
    assert lost.elapsed_ns == pytest.approx(250_000_000, rel=0.001)
    assert lost.environment["simulated"]["carrier_lost"] is True
    assert trial(Faults(carrier_lost_after_s=2.0)).marks == []


def test_trial_without_carrier_is_not_repeated() -> None:
    with simulated_rig("sim:ixgbe", faults={"carrier_lost_after_s": 0.5}) as rig:
        assert run_trial(rig, workload()).marks == ["no-carrier"]


def test_wrapped_link_counter_keeps_its_count() -> None:
    plain, wrapped = trial(None), trial(Faults(wrap=("tx_packets",)))
    assert (wrapped.device_sent, wrapped.pps) == (plain.device_sent, plain.pps)


def test_wrapped_statistic_of_unknown_width_is_unknown_and_proves_no_limit() -> None:
    plain = trial(None, RING_LIMITED)
    assert (plain.limiter, plain.environment["push_back"] > 0) == ("TX ring", True)
    wrapped = trial(Faults(wrap=("tx_restart_queue",)), RING_LIMITED)
    assert (wrapped.limiter, wrapped.environment["push_back"]) == (None, None)
    assert wrapped.environment["doubtful_counters"] == {"tx_restart_queue": "wrap or reset"}
    assert plain.environment["doubtful_counters"] == {}
    assert wrapped.device_sent == plain.device_sent


def test_counter_that_started_again_is_unknown_never_0() -> None:
    reset = trial(Faults(reset=("tx_packets",)))
    assert (reset.device_sent, reset.pps, reset.marks) == (None, None, [])
    assert "not verified at the device" in (reset.difference_reason or "")
    assert reset.engine_sent > 0
    assert trial(Faults(reset=("tx_pkts_nic",))).environment["tx_packets_nic"] is None


def test_lost_interrupts_slow_a_sender_that_waits_for_them() -> None:
    plain, lossy = trial(None, RING_LIMITED), trial(Faults(drop_interrupt_every=2), RING_LIMITED)
    assert plain.pps is not None
    assert lossy.pps == pytest.approx(plain.pps / 2, rel=0.01)
    assert lossy.environment["interrupts"] == pytest.approx(plain.environment["interrupts"] / 2, rel=0.01)


def test_faults_are_the_same_each_time_and_told_in_the_environment() -> None:
    faults = Faults(drop_interrupt_every=3, reset=("tx_busy",), carrier_lost_after_s=0.1)
    assert trial(faults) == trial(faults)
    told = json.loads(json.dumps(trial(faults).as_json()))["environment"]["faults"]
    assert faults_of(told) == faults


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"melt": "1"}, "unknown fault 'melt'; known: refuse, link_down_after"),
        ({"refuse": "rings"}, "fault refuse: sim:ixgbe has no rings; it has rx_ring, tx_ring"),
        ({"wrap": "tx_foo"}, "fault wrap: sim:ixgbe has no tx_foo; it has .*tx_restart_queue"),
        ({"carrier_lost_after_s": -1}, "carrier_lost_after_s -1"),
        ({"carrier_lost_after_s": float("nan")}, "carrier_lost_after_s nan: give 0 to"),
        ({"carrier_lost_after_s": float("inf")}, "carrier_lost_after_s inf: give 0 to"),
        (Faults(carrier_lost_after_s="soon"), "float . null`, got `str`"),  # type: ignore[arg-type]
        (Faults(drop_interrupt_every=1.5), "Expected `int`, got `float`"),  # type: ignore[arg-type]
        (Faults(refuse=None), "Expected `array`, got `null`"),  # type: ignore[arg-type]
        ({"carrier_lost_after_s": "soon"}, "faults: "),
        ({"drop_interrupt_every": -2}, "drop_interrupt_every -2"),
        (["refuse"], "give lk.Faults"),
    ],
)
def test_fault_that_is_none_is_refused(faults: Any, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        simulated_rig("sim:ixgbe", faults=faults)


def test_faults_come_by_keyword_and_as_a_record() -> None:
    with lk.rig("sim:ixgbe", faults=lk.Faults(refuse=("mtu",))) as rig:
        assert rig.run(Workload(lk.udp_flow(), engine="pktgen"), duration_s=0.01).device_sent


def test_a_rig_tells_what_makes_its_trials_differ() -> None:
    made = [
        simulated_rig("sim:ixgbe", **given).made_with
        for given in ({}, {"seed": 2}, {"faults": {"refuse": "mtu"}}, {"random_arrivals": True})
    ]
    assert len({json.dumps(each, sort_keys=True) for each in made}) == len(made)
