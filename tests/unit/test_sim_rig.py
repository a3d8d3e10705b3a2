"""The simulated rig keeps the rig protocol: settings, checks, trials, errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError, WorkloadError
from labkit.records import Sample, Workload
from labkit.rigs.base import Rig
from labkit.rigs.catalog import VETH, check_setting, check_sink, known_rigs
from labkit.rigs.choose import rig, simulated_rig
from labkit.rigs.simulated import SimulatedRig
from labkit.traffic.table import FrameTable


class Frames:
    """Traffic of one frame length, tagged or not."""

    def __init__(self, frame_bytes: int = 60, ethertype: bytes = b"\x08\x00") -> None:
        self.frame_bytes = frame_bytes
        self.ethertype = ethertype

    def with_frame_bytes(self, frame_bytes: int) -> Frames:
        return Frames(frame_bytes, self.ethertype)

    def describe(self) -> dict[str, Any]:
        return {"frame_bytes": self.frame_bytes}

    def table(self) -> FrameTable:
        frame = (bytes(12) + self.ethertype).ljust(self.frame_bytes, b"\0")
        return FrameTable.of([frame[: self.frame_bytes]])


def workload(**changes: Any) -> Workload:
    return Workload(**{"flow": Frames(), "engine": "pktgen", **changes})


@pytest.fixture
def sim() -> Iterator[SimulatedRig]:
    with simulated_rig("sim:ixgbe") as opened:
        yield opened


def test_defaults_are_the_drivers(sim: SimulatedRig) -> None:
    trial = sim.run(workload())
    assert trial.settings_asked == {}
    assert trial.settings_accepted == {"tx_ring": 512, "rx_usecs": 1}
    assert trial.settings_effective == {"tx_ring": 512, "rx_usecs": 124.928}
    assert trial.pps == pytest.approx(3_930_264, abs=1)
    assert trial.limiter == "TX ring"


def test_asked_accepted_and_effective_are_three_values(sim: SimulatedRig) -> None:
    with sim.applied({"tx_ring": 1001, "rx_usecs": 31}) as applied:
        trial = sim.run(workload())
    assert applied.asked == {"tx_ring": 1001, "rx_usecs": 31}
    assert applied.accepted == {"tx_ring": 1008, "rx_usecs": 31}
    assert applied.effective == {"tx_ring": 1008, "rx_usecs": 30.72}
    assert trial.settings_asked == applied.asked
    assert trial.settings_accepted == applied.accepted
    assert trial.settings_effective == applied.effective


def test_settings_are_put_back_also_after_an_error(sim: SimulatedRig) -> None:
    before = sim.run(workload())
    with sim.applied({"tx_ring": 1024}):
        with pytest.raises(WorkloadError), sim.applied({"rx_usecs": 30}):
            sim.run(workload(engine="warp"))
        assert sim.run(workload()).settings_accepted == {"tx_ring": 1024, "rx_usecs": 1}
    assert sim.run(workload()) == before


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"rx_usecs": 0}, SettingRefusedError, "rx_usecs 0"),
        ({"rx_usecs": 1023}, SettingRefusedError, "0 to 1022"),
        ({"tx_ring": -8}, SettingRefusedError, "ethtool"),
        ({"tx_ring": "big"}, WorkloadError, "whole number"),
        ({"rings": 512}, WorkloadError, "unknown setting 'rings'; known: adaptive_rx"),
        ({"mtu": 9000}, CapabilityMissingError, "it has tx_ring, rx_usecs.*try rig 'veth'"),
        ({"rx_ring": 64}, CapabilityMissingError, "no rig of this version has it"),
    ],
)
def test_a_refused_setting_leaves_the_rig_unchanged(
    sim: SimulatedRig, settings: dict[str, Any], error: type[LabError], words: str
) -> None:
    before = sim.run(workload())
    with pytest.raises(error, match=words), sim.applied({"tx_ring": 256, **settings}):
        pytest.fail("the settings were taken")
    assert sim.run(workload()) == before


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"engine": "sendmmsg"}, CapabilityMissingError, "sim:ixgbe.*try rig 'veth'"),
        ({"engine": "warp"}, WorkloadError, "unknown engine 'warp'; known: pktgen, send, sendmmsg"),
        ({"sink": "stack"}, CapabilityMissingError, "no sink 'stack'.*veth"),
        ({"sink": "drain"}, WorkloadError, "unknown sink 'drain'; known: ifb, port, stack, wire"),
        ({"batch": 0}, WorkloadError, "batch 0"),
        ({"batch": 1025}, WorkloadError, "batch 1025"),
        ({"batch": 8}, CapabilityMissingError, "batch 8 is pktgen's burst"),
        ({"rate_pps": 0.0}, WorkloadError, "rate_pps"),
        ({"rate_pps": float("nan")}, WorkloadError, "rate_pps"),
        ({"rate_pps": float("inf")}, WorkloadError, "rate_pps"),
        ({"flow": Frames(1515)}, WorkloadError, "1515 bytes.*MTU 1500.*largest legal frame has 1514"),
        ({"flow": Frames(1519, b"\x81\x00")}, WorkloadError, "1519 bytes.*largest legal frame has 1518"),
        ({"flow": Frames(1515, b"\x88\xa8")}, WorkloadError, "largest legal frame has 1514"),
        ({"flow": Frames(1515, b"\x81\x00\x00\x01\x81\x00")}, WorkloadError, "frame has 1514"),
        ({"flow": Frames(13)}, WorkloadError, "13 bytes"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_the_law_cannot_answer_is_refused(
    sim: SimulatedRig, changes: dict[str, Any], error: type[LabError], words: str, check: bool
) -> None:
    with pytest.raises(error, match=words):
        sim.run(workload(**changes), check=check)


@pytest.mark.parametrize(
    "length",
    [
        {"duration_s": 0.0},
        {"duration_s": -1.0},
        {"duration_s": float("nan")},
        {"duration_s": float("inf")},
        {"duration_s": 1e300},
        {"duration_s": "1"},
        {"count": -1},
        {"count": 1.5},
        {"count": 2**63},
    ],
)
def test_a_trial_without_length_is_refused(sim: SimulatedRig, length: dict[str, Any]) -> None:
    (name,) = length
    with pytest.raises(WorkloadError, match=f"{name} .*: give"):
        sim.run(workload(), **length)


def test_count_of_0_sends_nothing_and_says_so(sim: SimulatedRig) -> None:
    trial = sim.run(workload(), count=0)
    assert (trial.engine_sent, trial.device_sent, trial.elapsed_ns) == (0, 0, 0)
    assert (trial.pps, trial.ns_per_packet, trial.marks) == (None, None, ["nothing-sent"])


@pytest.mark.parametrize(("rate_pps", "duration_s", "frames"), [(10.5, 10.0, 105), (0.5, 4.0, 2)])
def test_fractional_rates_are_not_truncated(
    sim: SimulatedRig, rate_pps: float, duration_s: float, frames: int
) -> None:
    assert sim.run(workload(rate_pps=rate_pps), duration_s=duration_s).device_sent == frames


def test_settings_of_numpy_are_kept_as_plain_numbers(sim: SimulatedRig) -> None:
    with sim.applied({"tx_ring": np.int64(1001), "rx_usecs": np.uint16(30)}) as applied:
        assert applied.asked == {"tx_ring": 1001, "rx_usecs": 30}
        assert applied.accepted["tx_ring"] == 1008
        assert sim.run(workload()).as_json()["settings_asked"] == {"tx_ring": 1001, "rx_usecs": 30}


def test_longest_legal_frames_are_sent(sim: SimulatedRig) -> None:
    assert sim.run(workload(flow=Frames(1514))).device_sent == 812_743
    assert sim.run(workload(flow=Frames(1518, b"\x81\x00"))).frame_bytes == 1518


def test_absent_counts_are_none_and_the_reason_says_why(sim: SimulatedRig) -> None:
    trial = sim.run(workload())
    absent = (
        trial.peer_received,
        trial.peer_dropped,
        trial.qdisc_dropped,
        trial.device_dropped,
        trial.cpu_ns,
    )
    assert absent == (None,) * 5
    assert trial.reconciled is None
    assert trial.difference_reason is not None
    assert "not verified at the peer" in trial.difference_reason
    assert trial.engine_sent == trial.device_sent
    assert trial.privilege == "none"


def test_time_is_simulated_and_fits_the_count(sim: SimulatedRig) -> None:
    trial = sim.run(workload(), duration_s=2.0)
    assert trial.elapsed_ns == pytest.approx(2e9, abs=300)
    assert trial.device_sent == 7_860_527
    assert trial.pps is not None
    assert trial.ns_per_packet == pytest.approx(1e9 / trial.pps)


def test_a_count_ends_the_trial_before_the_duration(sim: SimulatedRig) -> None:
    trial = sim.run(workload(), duration_s=1.0, count=1000)
    assert trial.device_sent == 1000
    assert trial.elapsed_ns == round(1000 / 3_930_263.83 * 1e9)
    assert sim.run(workload(), duration_s=0.001, count=10**9).device_sent == 3930


def test_pacing_below_the_law_is_the_limiter(sim: SimulatedRig) -> None:
    paced = sim.run(workload(rate_pps=1_000_000.0))
    assert (paced.device_sent, paced.limiter) == (1_000_000, "pacing")
    assert sim.run(workload(rate_pps=1e9)).limiter == "TX ring"


def test_a_conclusion_is_no_limiter(sim: SimulatedRig) -> None:
    with sim.applied({"tx_ring": 1024, "rx_usecs": 30}):
        trial = sim.run(workload())
    assert trial.limiter is None
    assert trial.environment["full_speed"]["limited_by"] == "CPU"


def test_nothing_sent_is_marked_and_has_no_cost(sim: SimulatedRig) -> None:
    trial = sim.run(workload(rate_pps=0.5), duration_s=1.0)
    assert (trial.device_sent, trial.pps, trial.ns_per_packet) == (0, 0.0, None)
    assert trial.marks == ["nothing-sent"]
    assert trial.elapsed_ns == 1_000_000_000


def test_samples_are_evenly_spaced_and_handed_over(sim: SimulatedRig) -> None:
    seen: list[Sample] = []
    trial = sim.run(workload(), on_sample=seen.append)
    assert tuple(seen) == trial.samples
    assert [round(sample.at_ns / trial.elapsed_ns, 3) for sample in seen] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert seen[-1].device_sent == trial.device_sent


def test_the_environment_names_every_source(sim: SimulatedRig) -> None:
    environment = sim.run(workload()).environment
    assert environment["profile"] == "ixgbe"
    assert "82599" in environment["nic"]
    assert set(environment["constants"]) == set(environment["sources"])
    assert environment["sources"]["packet_ns"].startswith("fitted: ")


def test_the_baseline_kernel_is_slower_by_its_packet_cost() -> None:
    setting = {"tx_ring": 1024, "rx_usecs": 30}
    costs = []
    for name in ("sim:ixgbe", "sim:ixgbe@baseline"):
        with rig(name) as opened, opened.applied(setting):
            costs.append(opened.run(workload()).ns_per_packet)
    assert costs[1] - costs[0] == pytest.approx(43, abs=0.1)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("sim:e1000", {}, "known: sim:ixgbe, sim:ixgbe@baseline"),
        ("vm:e1000e", {}, r"unknown rig 'vm:e1000e'; known: sim:ixgbe, sim:ixgbe@baseline, .*veth"),
        ("sim:ixgbe", {"mtu": 9000}, "no parameter 'mtu'; it takes none"),
    ],
)
def test_unknown_rigs_and_parameters_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        rig(name, **parameters)


def test_known_rigs_are_those_that_have_a_profile() -> None:
    for info in known_rigs():
        if info.name.startswith("sim:"):
            opened: Rig = rig(info.name)
            assert opened.info == info
            opened.stop()
            opened.close()
    assert VETH in known_rigs()


def test_another_rig_sends_the_asker_to_the_simulated_one() -> None:
    with pytest.raises(CapabilityMissingError, match=r"'veth' has no setting 'tx_ring'.*try rig 'sim:ixgbe'"):
        check_setting(VETH, "tx_ring")
    check_sink(VETH, "ifb")


def test_simulating_needs_no_agent_and_no_heavy_library() -> None:
    code = (
        "import sys; from labkit.rigs.choose import rig; rig('sim:ixgbe').outcome();"
        "print({'labkit.agent', 'labkit.rigs.veth', 'pandas', 'scapy', 'pyroute2'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == "set()"


def test_rig_is_two_lines_in_a_cell(sim: SimulatedRig) -> None:
    assert repr(sim) == f"<rig sim:ixgbe: engines pktgen; 2 settings\n {sim.info.title}>"
