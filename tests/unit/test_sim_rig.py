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
    assert trial.settings_accepted == {
        "rx_ring": 512,
        "tx_ring": 512,
        "rx_usecs": 1,
        "tx_usecs": 0,
        "channels": 12,
        "mtu": 1500,
        "txqueuelen": 1000,
        "bql_limit_min": 0,
        "bql_limit_max": 1_879_048_192,
    }
    assert trial.settings_effective == {**trial.settings_accepted, "rx_usecs": 124.928, "tx_usecs": None}
    assert trial.pps == pytest.approx(3_930_264, rel=0.0002)
    assert trial.limiter == "TX ring"
    assert trial.environment["push_back"] > 0


def test_asked_accepted_and_effective_are_three_values(sim: SimulatedRig) -> None:
    with sim.applied({"tx_ring": 1001, "rx_usecs": 31}) as applied:
        trial = sim.run(workload())
    assert applied.asked == {"tx_ring": 1001, "rx_usecs": 31}
    assert (applied.accepted["tx_ring"], applied.accepted["rx_usecs"]) == (1008, 31)
    assert (applied.effective["tx_ring"], applied.effective["rx_usecs"]) == (1008, 30.72)
    assert trial.settings_asked == applied.asked
    assert trial.settings_accepted == applied.accepted
    assert trial.settings_effective == applied.effective


def test_settings_are_put_back_also_after_an_error(sim: SimulatedRig) -> None:
    before = sim.run(workload())
    with sim.applied({"tx_ring": 1024}):
        with pytest.raises(WorkloadError), sim.applied({"rx_usecs": 30}):
            sim.run(workload(engine="warp"))
        held = sim.run(workload()).settings_accepted
        assert (held["tx_ring"], held["rx_usecs"]) == (1024, 1)
    assert sim.run(workload()) == before


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"tx_usecs": 10}, SettingRefusedError, "TX moderation is tied to rx-usecs on this NIC.*EINVAL"),
        ({"channels": 64}, SettingRefusedError, "channels 64: the driver takes 1 to 63.*EINVAL"),
        ({"mtu": 9711}, SettingRefusedError, "mtu 9711: the driver takes 68 to 9710.*EINVAL"),
        ({"txqueuelen": 0}, SettingRefusedError, "1 to 1000000"),
        ({"rx_usecs": 1023}, SettingRefusedError, "0 to 1022"),
        ({"tx_ring": -8}, SettingRefusedError, "its field is 0 to"),
        ({"tx_ring": "big"}, WorkloadError, "whole number"),
        ({"cpus": 2}, WorkloadError, "'cpus' is no setting of a rig but part of the workload"),
        ({"rings": 512}, WorkloadError, "unknown setting 'rings'; known: adaptive_rx"),
        ({"gro": True}, CapabilityMissingError, "it has rx_ring, tx_ring, rx_usecs.*try rig 'veth'"),
        ({"rx_mini_ring": 64}, CapabilityMissingError, "no rig of this version has it"),
        ({"tcp_limit_output_bytes": 64}, CapabilityMissingError, "try rig 'sim:gianfar'"),
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
        ({"engine": "sendmmsg"}, CapabilityMissingError, "sim:ixgbe.*try rig 'sim:ixgbe-af-packet'"),
        (
            {"engine": "warp"},
            WorkloadError,
            "unknown engine 'warp'; known: af_xdp, .*, gso, .*, pktgen, receive, send, sendmmsg",
        ),
        ({"sink": "stack"}, CapabilityMissingError, "no sink 'stack'.*veth"),
        (
            {"sink": "drain"},
            WorkloadError,
            "unknown sink 'drain'; known: ifb, port, rx_ring, socket, stack, wire, xdp_drop",
        ),
        ({"batch": 0}, WorkloadError, "batch 0"),
        ({"batch": 1025}, WorkloadError, "batch 1025"),
        ({"clone_skb": -1}, WorkloadError, "clone_skb -1"),
        ({"delay_ns": -1}, WorkloadError, "delay_ns -1"),
        ({"delay_ns": 5, "rate_pps": 5.0}, WorkloadError, "give one of both"),
        ({"rate_pps": 0.5}, WorkloadError, "a frame every 2 s"),
        ({"xmit_mode": "teleport"}, WorkloadError, "known: start_xmit, queue_xmit, netif_receive"),
        ({"cpus": 0}, WorkloadError, "cpus 0"),
        ({"cpus": 13}, WorkloadError, "here are 12; take fewer, or set channels to 13"),
        ({"xmit_mode": "queue_xmit"}, CapabilityMissingError, "no qdisc_ns.*try rig 'sim:ixgbe-e5-2695'"),
        ({"xmit_mode": "queue_xmit", "batch": 2}, CapabilityMissingError, "burst.*errno 524"),
        ({"xmit_mode": "netif_receive", "clone_skb": 1}, CapabilityMissingError, "clone_skb 1.*errno 524"),
        ({"rate_pps": 0.0}, WorkloadError, "rate_pps"),
        ({"rate_pps": float("nan")}, WorkloadError, "rate_pps"),
        ({"rate_pps": float("inf")}, WorkloadError, "rate_pps"),
        ({"flow": Frames(1515)}, WorkloadError, "1515 bytes.*MTU 1500.*largest legal frame has 1514"),
        ({"flow": Frames(1519, b"\x81\x00")}, WorkloadError, "1519 bytes.*largest legal frame has 1518"),
        ({"flow": Frames(1515, b"\x88\xa8")}, WorkloadError, "largest legal frame has 1514"),
        ({"flow": Frames(1519, b"\x81\x00\x00\x01\x81\x00")}, WorkloadError, "frame has 1518"),
        ({"flow": Frames(13)}, WorkloadError, "13 bytes"),
        ({"flow": Frames(0)}, WorkloadError, "0 bytes"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_no_simulated_sender_can_do_is_refused(
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
        {"duration_s": 101.0},
        {"duration_s": "1"},
        {"count": -1},
        {"count": 1.5},
        {"count": 2**63},
    ],
)
def test_a_trial_without_length_is_refused(sim: SimulatedRig, length: dict[str, Any]) -> None:
    (name,) = length
    with pytest.raises(WorkloadError, match=f"{name} .*: (give|a simulated run)"):
        sim.run(workload(), **length)


def test_count_of_0_sends_nothing_and_says_so(sim: SimulatedRig) -> None:
    trial = sim.run(workload(), count=0)
    assert (trial.engine_sent, trial.device_sent, trial.elapsed_ns) == (0, 0, 0)
    assert (trial.pps, trial.ns_per_packet, trial.marks) == (None, None, ["nothing-sent"])


@pytest.mark.parametrize(("rate_pps", "duration_s", "frames"), [(10.5, 10.0, 105), (1.5, 4.0, 6)])
def test_fractional_rates_are_not_truncated(
    sim: SimulatedRig, rate_pps: float, duration_s: float, frames: int
) -> None:
    sent = sim.run(workload(rate_pps=rate_pps), duration_s=duration_s).device_sent
    assert sent == pytest.approx(
        frames, abs=1
    )  # whole picoseconds between frames may leave room for one more


def test_settings_of_numpy_are_kept_as_plain_numbers(sim: SimulatedRig) -> None:
    with sim.applied({"tx_ring": np.int64(1001), "rx_usecs": np.uint16(30)}) as applied:
        assert applied.asked == {"tx_ring": 1001, "rx_usecs": 30}
        assert applied.accepted["tx_ring"] == 1008
        assert sim.run(workload()).as_json()["settings_asked"] == {"tx_ring": 1001, "rx_usecs": 30}


def test_longest_legal_frames_are_sent(sim: SimulatedRig) -> None:
    longest = sim.run(workload(flow=Frames(1514)))
    assert longest.device_sent == pytest.approx(812_743, rel=0.0002)
    assert longest.limiter == "TX ring"
    with sim.applied({"mtu": 9000}):
        assert sim.run(workload(flow=Frames(9014))).frame_bytes == 9014
    assert sim.run(workload(flow=Frames(1518, b"\x81\x00"))).frame_bytes == 1518


def test_absent_counts_are_none_and_the_reason_says_why(sim: SimulatedRig) -> None:
    trial = sim.run(workload())
    assert (trial.peer_received, trial.peer_dropped, trial.reconciled) == (None, None, None)
    assert (trial.qdisc_dropped, trial.device_dropped, trial.cpu_ns) == (0, 0, trial.elapsed_ns)
    assert trial.difference_reason == ("not verified at the peer: nothing counts behind the simulated wire")
    assert trial.engine_sent == trial.device_sent
    assert trial.privilege == "none"


def test_time_is_simulated_and_fits_the_count(sim: SimulatedRig) -> None:
    trial = sim.run(workload(), duration_s=2.0)
    assert trial.elapsed_ns == pytest.approx(2e9, abs=300)
    assert trial.device_sent == pytest.approx(7_860_527, rel=0.0002)
    assert trial.pps is not None
    assert trial.ns_per_packet == pytest.approx(1e9 / trial.pps)


def test_a_count_ends_the_trial_before_the_duration(sim: SimulatedRig) -> None:
    trial = sim.run(workload(), duration_s=1.0, count=1000)
    assert trial.device_sent == 1000
    assert trial.environment["ended_by"] == "count"
    assert 0 < trial.elapsed_ns < 1_000_000
    paced = sim.run(workload(rate_pps=10.0), duration_s=9.0, count=10)
    assert (paced.device_sent, paced.elapsed_ns) == (10, 1_000_000_000)
    assert sim.run(workload(), duration_s=0.001, count=10**9).environment["ended_by"] == "duration"


def test_pacing_below_the_law_is_the_limiter(sim: SimulatedRig) -> None:
    paced = sim.run(workload(rate_pps=1_000_000.0))
    assert (paced.device_sent, paced.limiter) == (1_000_000, "pacing")
    assert sim.run(workload(rate_pps=1e9)).limiter == "TX ring"


def test_a_conclusion_is_no_limiter(sim: SimulatedRig) -> None:
    with sim.applied({"tx_ring": 1024, "rx_usecs": 30}):
        trial = sim.run(workload())
    assert trial.limiter is None
    assert trial.environment["push_back"] == 0
    assert trial.environment["simulated"]["law"]["limited_by"] == "CPU"


def test_the_law_is_told_where_it_covers_the_sender(sim: SimulatedRig) -> None:
    told = sim.run(workload(rate_pps=1e6)).environment["simulated"]["law"]
    assert told["limited_by"] == "TX ring"
    for changes in ({"batch": 2}, {"clone_skb": 0}, {"cpus": 2}):
        assert sim.run(workload(**changes), duration_s=0.01).environment["simulated"]["law"] is None
    with sim.applied({"rx_usecs": 0}):
        assert sim.run(workload(), duration_s=0.01).environment["simulated"]["law"] is None


def test_samples_are_evenly_spaced_and_handed_over(sim: SimulatedRig) -> None:
    seen: list[Sample] = []
    trial = sim.run(workload(), on_sample=seen.append)
    assert tuple(seen) == trial.samples
    assert [round(8 * sample.at_ns / trial.elapsed_ns, 2) for sample in seen] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(sim.run(workload(), duration_s=0.01).samples) == 5
    assert len(sim.run(workload(), count=10).samples) == 1
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
        ("vm:rtl8139", {}, r"unknown rig 'vm:rtl8139'; known: vm:e1000e, vm:virtio_net, vm:vmxnet3"),
        ("virtual", {}, r"unknown rig 'virtual'; known: sim:ixgbe, sim:ixgbe@baseline, .*veth"),
        ("sim:ixgbe", {"mtu": 9000}, "no parameter 'mtu'; it takes seed, faults, hypotheses, random_arr"),
        ("sim:ixgbe", {"seed": -1}, "seed -1: give a whole number"),
        ("sim:ixgbe", {"hypotheses": ["magic"]}, "unknown hypothesis 'magic'; known: locked-stall"),
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


def test_preview_tells_rounding_and_what_the_link_does(sim: SimulatedRig) -> None:
    assert sim.preview({"tx_ring": 10_000, "channels": 2, "txqueuelen": 500}).splitlines() == [
        "  tx_ring     512 -> 4096  (link down and up, at most 3 s)",
        "  channels    12 -> 2  (link down and up, at most 3 s)",
        "  txqueuelen  1000 -> 500",
        "The link goes down and up 2 times, at most 6 s in all.",
        "tx_ring: 10000 becomes 4096",
        "Nothing of this outlives the rig.",
    ]
    assert sim.run(workload()).settings_accepted["tx_ring"] == 512


def test_another_rig_sends_the_asker_to_the_simulated_one() -> None:
    with pytest.raises(CapabilityMissingError, match=r"'veth' has no setting 'tx_ring'.*try rig 'sim:ixgbe'"):
        check_setting(VETH, "tx_ring")
    check_sink(VETH, "ifb")


def test_simulating_needs_no_agent_and_no_heavy_library() -> None:
    code = (
        "import sys; from labkit.rigs.choose import rig\n"
        "with rig('sim:ixgbe').applied({'tx_ring': 256}): pass\n"
        "print({'labkit.agent.client', 'labkit.rigs.agent_rig', 'pandas', 'scapy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == "set()"


def test_rig_is_two_lines_in_a_cell(sim: SimulatedRig) -> None:
    assert repr(sim) == f"<rig sim:ixgbe: engines pktgen; sinks wire; 9 settings\n {sim.info.title}>"
