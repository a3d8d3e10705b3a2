"""Expectations of a change: the published patches and bursts, and another limit where there is one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.analysis.expect import expect
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError, WorkloadError
from labkit.experiment.explain import profile_of
from labkit.records import RigInfo
from labkit.rigs.choose import simulated_rig
from labkit.simnic.profile import Constant
from labkit.simnic.sender import Sender
from tests.sweep_fakes import trial
from tests.unit.test_sim_engines import SIMULATED
from tests.unit.test_sim_rig import workload

BASELINE = "sim:ixgbe@baseline"
DYNAMIC = {"tx_ring": 1024, "rx_usecs": 1}


def published_step(step: str) -> float:
    (row,) = (
        row for row in lk.published_table("pktgen_patch_steps") if (row.series, row.step) == ("v1", step)
    )
    assert row.difference_ns is not None
    return float(row.difference_ns)


@pytest.mark.parametrize(
    ("step", "kernel", "change"),
    [
        ("patch3", "baseline", {"lock": -1}),
        ("patch4", "v1-patch3", {"lock": -1}),
        ("patch5 no lock", "v1-patch4", {"lock": -2}),
        ("patch5", "v1-patch4", {"lock": -2, "rcu": 1}),
    ],
)
def test_patches_are_expected_from_their_operations_within_a_nanosecond(
    step: str, kernel: str, change: dict[str, float]
) -> None:
    found = lk.expect(change, f"sim:ixgbe@{kernel}", settings=DYNAMIC, measured_ns=published_step(step))
    assert found.measured_ns == pytest.approx(found.expected_ns, abs=1.0)
    assert "as expected" in found.verdict


def test_faster_sending_leaves_more_in_flight_and_the_cache_takes_its_share() -> None:
    found = lk.expect({"lock": -2, "rcu": 1}, BASELINE, settings=DYNAMIC)
    parts = {part.name: part.ns_per_packet for part in found.parts}
    assert found.operations_ns == pytest.approx(-2 * 8.23 + 1.90)
    assert parts["cache misses"] == pytest.approx(1.4, abs=0.15)
    assert sum(parts.values()) == pytest.approx(found.expected_ns, abs=0.05)


def test_two_locks_that_save_too_little_point_at_another_limit() -> None:
    found = lk.expect(
        {"lock": -2}, "sim:ixgbe@v1", settings=DYNAMIC, measured_ns=published_step("no HARD_TX_LOCK")
    )
    assert "-16.5 by operations alone), -7.0 seen: another limit" in found.verdict


def test_more_than_expected_is_said_as_such() -> None:
    found = lk.expect({"lock": -1}, BASELINE, settings=DYNAMIC, measured_ns=-20.0)
    assert "more than these operations account for" in found.verdict


@pytest.mark.parametrize(("burst", "pps", "limit"), [(2, 13_500_000, "CPU"), (3, 14_500_000, "TX ring")])
def test_more_frames_a_doorbell_save_what_was_published(burst: int, pps: int, limit: str) -> None:
    published = 1e9 / pps - 1e9 / 9_200_000  # kernel commit 38b2cf2982dc, beyond_the_seeds.csv
    found = lk.expect({"batch": burst}, "sim:ixgbe@burst", settings={"rx_usecs": 30}, measured_ns=published)
    assert found.expected_ns == pytest.approx(published, abs=1.0)
    assert found.limited_after == limit
    assert {part.name for part in found.parts} >= {"doorbell", "queue lock"}


def test_a_buffer_a_frame_moves_the_limit_from_the_ring_to_the_cpu() -> None:
    found = lk.expect({"clone_skb": 0}, settings={"tx_ring": 512, "rx_usecs": 1})
    assert (found.limited_before, found.limited_after) == ("TX ring", "CPU")
    assert found.operations_ns == pytest.approx(209, abs=0.01)
    assert found.expected_ns < 100
    assert "the limit moves from TX ring to CPU" in found.verdict


def test_settings_and_the_qdisc_path_are_changes_too() -> None:
    interval = lk.expect({"rx_usecs": 30}, settings={"tx_ring": 512, "rx_usecs": 1})
    assert interval.expected_ns == pytest.approx(140.6 - 254.6, abs=0.5)
    assert interval.operations_ns == 0
    through = lk.expect({"xmit_mode": "queue_xmit"}, settings={"rx_usecs": 30})
    assert {part.name: part.ns_per_packet for part in through.parts}["qdisc"] == pytest.approx(89.24)
    back = lk.expect({"xmit_mode": "start_xmit"}, settings={"rx_usecs": 30}, xmit_mode="queue_xmit")
    assert back.expected_ns == pytest.approx(-through.expected_ns)


def test_packet_sockets_pay_the_published_way_through_the_qdisc() -> None:
    profile = profile_of("sim:ixgbe")
    assert profile is not None
    costs = {
        name: Constant(value=ns, kind="fitted", source="data/published/af_packet_flush.csv")
        for name, ns in {"socket_ns": 640.0, "syscall_ns": 0.0}.items()
    }
    trafgen = msgspec.structs.replace(profile, constants=msgspec.structs.replace(profile.constants, **costs))
    found = expect(
        {"qdisc_bypass": False},
        profile=trafgen,
        where="trafgen",
        settings={"rx_usecs": 30},
        sender=Sender(engine="tx_ring"),
        measured_ns=89.24,  # qdisc path against bypass, data/published/af_packet_flush.csv
    )
    assert found.expected_ns == pytest.approx(89.24 * 1.03, abs=1.0)  # interrupts take their share of it
    assert "as expected" in found.verdict
    (part,) = (part for part in found.parts if part.name == "qdisc")
    assert part.ns_per_packet == pytest.approx(89.24)
    assert "af_packet_flush" in part.source


def test_a_trial_brings_its_rig_and_settings() -> None:
    settings = {"tx_ring": 512, "rx_usecs": 30}
    base = trial(rig="sim:ixgbe", engine="pktgen", batch=None, settings_accepted=settings)
    assert lk.expect({"lock": -1}, base).before_ns == pytest.approx(140.6, abs=0.1)


@pytest.mark.parametrize(
    ("rig", "engine"),
    [(info.name, name) for info in lk.known_rigs() if info.name.startswith("sim:") for name in info.engines],
)
def test_every_simulated_trial_can_be_the_side_before_a_change(rig: str, engine: str) -> None:
    mode = {"xmit_mode": "netif_receive"} if rig == "sim:pktgen-receive" else {}
    rate = {"rate_pps": 1e5} if engine == "receive" else {}
    with lk.rig(rig) as machine:
        base = machine.run(lk.Workload(flow=lk.udp_flow(), engine=engine, **mode, **rate), duration_s=0.05)
    found = lk.expect({"lock": 1, "mtu": 1400}, base)
    (lock,) = (part.ns_per_packet for part in found.parts if part.name == "+1 lock")
    assert found.operations_ns == pytest.approx(lock)
    assert sum(part.ns_per_packet for part in found.parts) == pytest.approx(found.expected_ns, abs=0.5)


@pytest.mark.parametrize(
    ("change", "told", "words"),
    [
        ({"lock": float("nan")}, {}, "change lock nan: give how many"),
        ({"lock": 10**400}, {}, "give how many"),
        ({"lock": 1e9}, {}, "a frame's new cost"),
        ({"frame_bytes": 10**9}, {}, "frame_bytes 1000000000: give a whole number"),
        ({"lock": 1}, {"microcosts": {"lock": float("nan")}}, "microcosts lock nan: give nanoseconds"),
        ({"lock": 1}, {"microcosts": {"lock": "5"}}, "microcosts lock '5'"),
        ({"lock": 1}, {"measured_ns": float("nan")}, "measured_ns nan"),
        ({"lock": 1}, {"cpus": 0}, "cpus 0: give a whole number of 1 to 1024"),
        ({"lock": 1}, {"batch": "2"}, "batch '2'"),
        ({"lock": 1}, {"gap_ns": float("inf")}, "gap_ns inf"),
        ({"lock": 1}, {"qdisc_bypass": 1}, "qdisc_bypass 1: give True or False"),
        ({"lock": 1}, {"xmit_mode": "fast"}, "xmit_mode 'fast': unknown; known: start_xmit"),
        ({"lock": 1}, {"hypotheses": frozenset({"fast"})}, "hypotheses 'fast': unknown"),
        ({"lock": 1}, {"engine": "fast"}, "engine 'fast': unknown"),
    ],
)
def test_numbers_that_nothing_can_cost_or_send_are_refused(
    change: dict[str, Any], told: dict[str, Any], words: str
) -> None:
    with pytest.raises(WorkloadError, match=words):
        lk.expect(change, **told)


def test_a_machines_own_cost_goes_before_the_published_one() -> None:
    found = lk.expect({"lock": -2}, settings={"rx_usecs": 30}, microcosts={"lock": 5.0})
    assert found.operations_ns == pytest.approx(-10)
    assert found.parts[0].source == "sourced: measured on this machine"


def test_without_a_profile_only_measured_operations_are_summed_up() -> None:
    found = lk.expect({"lock": -2, "rcu": 1}, "veth", microcosts={"lock": 5.0, "rcu": 1.0}, measured_ns=-9.5)
    assert found.expected_ns == pytest.approx(-9.0)
    assert found.before_ns is None
    assert found.limited_before is None
    assert "as expected" in found.verdict


@pytest.mark.parametrize(
    ("at", "change", "error", "words"),
    [
        ("sim:ixgbe", {"locks": -1}, WorkloadError, "locks: unknown; known: lock, rcu"),
        ("sim:ixgbe", {"lock": "one"}, WorkloadError, "how many more"),
        ("sim:ixgbe", {"lock": -30}, WorkloadError, "takes 246.9 ns from a frame"),
        ("sim:ixgbe", {"batch": 0}, WorkloadError, "1 or more"),
        ("sim:ixgbe", {"batch": 1.5}, WorkloadError, "kind int"),
        ("sim:ixgbe", {"xmit_mode": "fast"}, WorkloadError, "start_xmit, queue_xmit"),
        ("sim:ixgbe", {"gro": True}, WorkloadError, "not known what gro does"),
        ("sim:ixgbe", {"rx_usecs": 5000}, SettingRefusedError, "0 to 1022"),
        ("sim:none", {"lock": -1}, WorkloadError, "no such profile"),
        ("veth", {"lock": -1}, WorkloadError, "give microcosts"),
        ("veth", {"batch": 2}, WorkloadError, "has no profile"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(
    at: str, change: dict[str, Any], error: type[LabError], words: str
) -> None:
    with pytest.raises(error, match=words):
        lk.expect(change, at)


def test_an_engine_without_costs_names_those_that_have_some() -> None:
    with pytest.raises(CapabilityMissingError, match=r"no costs of engine 'tcp' .*it answers pktgen"):
        lk.loop_and_law(engine="tcp")
    with pytest.raises(WorkloadError, match="unknown bursts"):
        lk.loop_and_law(bursts=2)
    with pytest.raises(WorkloadError, match="'veth' is not simulated"):
        lk.loop_and_law("veth")


@pytest.mark.parametrize("info", SIMULATED, ids=lambda info: info.name)
def test_trial_of_any_simulated_machine_is_explained_and_changes_of_it_are_expected(info: RigInfo) -> None:
    what = {"xmit_mode": "netif_receive"} if info.name == "sim:pktgen-receive" else {}
    with simulated_rig(info.name) as rig, rig.applied({"tx_ring": 128, "txqueuelen": 500}):
        found = rig.run(workload(engine=info.engines[0], qdisc_bypass=True, **what), duration_s=0.05)
    told = lk.explain(found)
    assert told.unexplained_ns == pytest.approx(0, abs=1)
    assert lk.expect({"tx_ring": 256}, found).before_ns == pytest.approx(told.ns_per_packet, rel=0.02)
