"""Each engine on simulated machines: what it sends, counts and tells, and the options that only some have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.errors import CapabilityMissingError, LabError, WorkloadError
from labkit.experiment.plan import Plan
from labkit.factors import ENGINE_NAMES
from labkit.paths import data_dir
from labkit.records import Trial, Workload
from labkit.rigs import catalog
from labkit.rigs.choose import simulated_rig
from labkit.rigs.profiles import load_profile
from labkit.rigs.simulated import SimulatedRig
from labkit.rigs.simulated_view import percentiles
from labkit.simnic.profile import Constant, Constants, Profile
from labkit.simnic.run import Share
from labkit.units import line_rate_pps, wire_bytes
from tests.unit.test_sim_law import FOLLOWUP
from tests.unit.test_sim_rig import Frames, workload

GENERIC = load_profile(data_dir() / "profiles", "generic-100g")
SIMULATED = [info for info in catalog.known_rigs() if info.name.startswith("sim:")]


def run(
    rig: str, settings: dict[str, Any] | None = None, length: dict[str, Any] | None = None, **what: Any
) -> Trial:
    with simulated_rig(rig) as opened, opened.applied(settings or {}):
        return opened.run(workload(**what), **(length or {"duration_s": 0.1}))


def told(trial: Trial) -> dict[str, Any]:
    found: dict[str, Any] = trial.environment["simulated"]
    return found


@pytest.mark.parametrize("info", SIMULATED, ids=lambda info: info.name)
def test_every_engine_of_every_machine_answers_and_repeats_itself(info: Any) -> None:
    assert info.engines
    assert set(info.engines) <= ENGINE_NAMES
    for engine in info.engines:
        what: dict[str, Any] = {"engine": engine, "qdisc_bypass": True}
        if info.name == "sim:pktgen-receive":
            what["xmit_mode"] = "netif_receive"
        found = run(info.name, length={"duration_s": 0.01}, **what)
        assert found.device_sent
        assert found.marks == []
        assert found == run(info.name, length={"duration_s": 0.01}, **what)
        budget = sum(msgspec.convert(share, Share).ns_per_packet for share in told(found)["budget"])
        if engine != "receive":
            assert budget == pytest.approx(found.elapsed_ns / found.engine_sent, abs=1)


def test_burst_saves_doorbells_until_the_wire_is_full() -> None:
    speeds = [run("sim:ixgbe", {"rx_usecs": 30}, batch=batch).pps for batch in (1, 2, 4)]
    assert speeds == sorted(speeds, key=lambda pps: pps or 0)
    assert speeds[0] == pytest.approx(7.11e6, rel=0.005)


def test_buffer_of_each_frames_own_costs_its_209_ns() -> None:
    fresh, cloned = (run("sim:ixgbe", {"rx_usecs": 30}, clone_skb=clone) for clone in (0, 100_000))
    assert fresh.ns_per_packet is not None
    assert cloned.ns_per_packet is not None
    assert fresh.ns_per_packet - cloned.ns_per_packet == pytest.approx(209, rel=0.05)


def test_throttling_off_is_an_interrupt_a_frame() -> None:
    off = run("sim:ixgbe", {"rx_usecs": 0})
    assert off.settings_effective["rx_usecs"] is None
    assert off.environment["interrupts"] == pytest.approx(off.device_sent, rel=0.2)


def test_delay_is_the_time_between_two_frames() -> None:
    assert run("sim:ixgbe", delay_ns=10_000).pps == pytest.approx(100_000, rel=0.001)


def test_cpus_share_rate_count_and_wire_and_have_a_queue_each() -> None:
    two = run("sim:ixgbe", {"rx_usecs": 30}, cpus=2)
    assert two.pps == pytest.approx(2 * 7.11e6, rel=0.01)
    assert list(two.environment["interrupts_by_queue"]) == ["eth0-TxRx-0", "eth0-TxRx-1"]
    assert sum(two.environment["interrupts_by_queue"].values()) == two.environment["interrupts"]
    assert two.cpu_ns == pytest.approx(2 * two.elapsed_ns, rel=0.001)
    paced = run("sim:ixgbe", {"channels": 4}, cpus=4, rate_pps=1e6)
    assert (paced.limiter, paced.marks) == ("pacing", [])
    assert run("sim:ixgbe", length={"count": 1000}, cpus=4).device_sent == 1000
    with pytest.raises(WorkloadError, match="multiple of 3"):
        run("sim:ixgbe", length={"count": 1000}, cpus=3)
    with pytest.raises(WorkloadError, match="here are 2; take fewer, or set channels to 3"):
        run("sim:ixgbe", {"channels": 2}, cpus=3)


@pytest.mark.parametrize("rig", ["sim:ixgbe", "sim:generic-100g"])
def test_cache_line_that_all_cpus_write_is_a_switch(rig: str) -> None:
    def pps(*hypotheses: str, cpus: int) -> float:
        with simulated_rig(rig, hypotheses=hypotheses) as opened, opened.applied({"rx_usecs": 30}):
            found = opened.run(workload(cpus=cpus), duration_s=0.02)
        assert found.pps is not None
        return found.pps

    assert pps(cpus=2) > 1.9 * pps(cpus=1)
    assert pps("shared-line", cpus=1) == pps(cpus=1)
    assert pps("shared-line", cpus=2) < 0.9 * pps(cpus=2)


def test_cache_line_of_unknown_cost_is_refused() -> None:
    with (
        simulated_rig("sim:gianfar", hypotheses=["shared-line"]) as rig,
        pytest.raises(CapabilityMissingError, match="has no shared_line_ns"),
    ):
        rig.run(workload(engine="tcp"), duration_s=0.01)


def test_card_fetches_before_it_sends_where_that_time_is_known() -> None:
    at_once = msgspec.structs.replace(
        GENERIC, constants=msgspec.structs.replace(GENERIC.constants, fetch_ns=None)
    )
    waiting = []
    for profile in (GENERIC, at_once):
        with SimulatedRig(profile) as rig:
            waiting.append(told(rig.run(workload(rate_pps=1e6), duration_s=0.01))["zones"]["waiting"])
    assert waiting[0] - waiting[1] == pytest.approx(1e6 * 700e-9, rel=0.05)


def test_receive_path_counts_where_no_card_does() -> None:
    found = run("sim:pktgen-receive", xmit_mode="netif_receive", batch=1024)
    assert found.device_sent == found.engine_sent
    assert found.environment["device_counter"] == "softnet processed"
    assert found.environment["interrupts"] == 0
    assert "own receive path" in (found.difference_reason or "")


def test_short_frames_of_pktgen_are_raised_where_everybody_sees_it() -> None:
    raised = run("sim:ixgbe", flow=Frames(20))
    assert (raised.frame_bytes, raised.environment["frame_bytes_asked"]) == (42, 20)
    assert "frame_bytes_asked" not in run("sim:ixgbe", flow=Frames(42)).environment


@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring"])
def test_packet_sockets_pay_for_the_qdisc_unless_they_pass_it(engine: str) -> None:
    through, past = (
        run("sim:ixgbe-af-packet", engine=engine, qdisc_bypass=bypass) for bypass in (False, True)
    )
    assert through.ns_per_packet is not None
    assert past.ns_per_packet is not None
    assert through.ns_per_packet - past.ns_per_packet == pytest.approx(165.5, rel=0.05)
    assert (through.environment["path"], past.environment["path"]) == ("qdisc path", "qdisc bypass")
    assert told(through)["bql_limit_bytes"]
    assert told(past)["bql_limit_bytes"] is None


def test_batches_are_the_engines() -> None:
    batches = {
        engine: run("sim:ixgbe-af-packet", engine=engine).batch for engine in ("send", "sendmmsg", "tx_ring")
    }
    assert batches == {"send": 1, "sendmmsg": 64, "tx_ring": 256}
    with pytest.raises(WorkloadError, match="send: batch 2: this engine takes exactly 1"):
        run("sim:ixgbe-af-packet", engine="send", batch=2)


def everything_known(profile: Profile) -> Profile:
    """The same machine with a cost for every engine."""
    costs = dict.fromkeys(Constants.__struct_fields__, 100.0) | {
        "doorbell_frames": 1.0,
        "window_segments": 45.0,
    }
    known = profile.constants.known()
    made = {
        name: Constant(value=value, kind="assumed", source="a test")
        for name, value in costs.items()
        if name not in known
    }
    return msgspec.structs.replace(profile, constants=msgspec.structs.replace(profile.constants, **made))


def test_full_ring_past_the_qdisc_refuses_frames_as_the_socket_says() -> None:
    with SimulatedRig(everything_known(FOLLOWUP)) as rig, rig.applied({"tx_ring": 64}):
        found = rig.run(workload(engine="tx_ring", qdisc_bypass=True), duration_s=0.1)
    assert found.engine_refused > 0
    assert found.refused_by_errno == {"ENOBUFS": found.engine_refused}
    assert (found.limiter, found.device_dropped) == ("TX ring", 0)


def test_frames_that_the_wire_cannot_have_carried_yet_mark_the_trial() -> None:
    long_frames = Workload(flow=lk.udp_flow(1514, flows=1), engine="pktgen")
    with SimulatedRig(FOLLOWUP) as rig:
        rings_full = rig.run(long_frames, count=400)
        steady = rig.run(long_frames, duration_s=0.5)
    assert rings_full.pps is not None
    assert rings_full.pps > line_rate_pps(1514, 1e10)
    assert rings_full.marks == ["unsettled"]
    assert steady.marks == []


def test_a_cpu_below_0_is_refused() -> None:
    with SimulatedRig(FOLLOWUP) as rig, pytest.raises(WorkloadError, match="cpu -1: CPUs count from 0"):
        rig.run(workload(cpu=-1))


def test_frames_that_still_wait_in_the_qdisc_are_not_counted_as_gone() -> None:
    with SimulatedRig(everything_known(FOLLOWUP)) as rig, rig.applied({"tx_ring": 64}):
        short = rig.run(workload(engine="tx_ring"), duration_s=0.002)
        long = rig.run(workload(engine="tx_ring"), duration_s=0.5)
    assert "unsettled" in short.marks
    assert long.marks == []


def test_stream_is_told_as_netperf_tells_it() -> None:
    found = run("sim:gianfar", engine="tcp")
    stream = told(found)["tcp"]
    assert found.frame_bytes == 1514
    assert stream["throughput_bits_per_s"] == pytest.approx((found.pps or 0) * 1448 * 8, rel=0.001)
    us_per_kb = stream["cpu_percent"] / 100 * 1e6 / (stream["throughput_bits_per_s"] / 8 / 1024)
    assert stream["service_demand_us_per_kb"] == pytest.approx(us_per_kb, rel=0.001)
    assert list(found.environment["interrupts_by_queue"]) == ["eth0_g0_tx", "eth0_g0_rx"]
    assert found.environment["push_back"] is None  # no counter of gianfar tells of a full queue
    with pytest.raises(WorkloadError, match="its acknowledgements are its clock"):
        run("sim:gianfar", engine="tcp", rate_pps=5.0)


def test_small_queue_between_stack_and_wire_limits_a_stream() -> None:
    free, tight = (
        run("sim:gianfar", {"tcp_limit_output_bytes": limit}, engine="tcp").pps for limit in (131_072, 3000)
    )
    assert (tight or 0) < (free or 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tx_ring": 200}, "powers of two only"),
        ({"tx_ring": 512}, "to 256"),
        ({"channels": 2}, "no setting 'channels'"),
    ],
)
def test_gianfar_takes_what_its_driver_takes(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(LabError, match=words):
        run("sim:gianfar", settings, engine="tcp")


def test_coalescing_of_gianfar_saves_interrupts() -> None:
    found = run(
        "sim:gianfar", {"tx_usecs": 100, "tx_frames": 64, "rx_usecs": 100, "rx_frames": 16}, engine="tcp"
    )
    assert found.environment["interrupts"] < run("sim:gianfar", engine="tcp").environment["interrupts"]


def test_receiver_counts_what_it_misses_against_what_was_offered() -> None:
    calm = run("sim:generic-25g", engine="receive", rate_pps=1e6)
    assert (calm.reconciled, calm.peer_dropped, calm.limiter, calm.marks) == (True, 0, "pacing", [])
    assert calm.peer_received == told(calm)["receive"]["received"]
    flood = run("sim:generic-25g", engine="receive")
    assert (flood.reconciled, flood.peer_dropped) == (True, told(flood)["receive"]["missed"])
    assert flood.peer_dropped
    assert flood.pps == pytest.approx(25e9 / (8 * wire_bytes(60)), rel=0.001)
    assert told(flood)["receive"]["latency_ns"]["p50"] > told(calm)["receive"]["latency_ns"]["p50"]
    beyond = run("sim:generic-25g", engine="receive", rate_pps=1e18)
    assert (beyond.pps, beyond.marks, beyond.sink) == (flood.pps, ["rate-missed"], "stack")
    few = run("sim:generic-25g", length={"count": 1000}, engine="receive", rate_pps=1e6)
    assert few.engine_sent == pytest.approx(1000, abs=20)


def test_random_arrivals_come_from_the_seed() -> None:
    def pps(seed: int, random_arrivals: bool) -> Trial:
        with simulated_rig("sim:generic-25g", seed=seed, random_arrivals=random_arrivals) as rig:
            return rig.run(workload(engine="receive", rate_pps=1e6), duration_s=0.01)

    assert pps(1, True) == pps(1, True)
    assert told(pps(1, True)) != told(pps(2, True))
    assert told(pps(1, False)) == told(pps(2, False))


def test_percentiles_are_those_of_the_histogram() -> None:
    assert percentiles([]) == {}
    spread = [(10, 9000), (20, 990), (30, 9), (40, 1)]
    assert percentiles(spread) == {"p50": 10, "p90": 10, "p99": 20, "p99.99": 30, "max": 40}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"ring_frames": 256},
            "'veth': engine 'send' has no ring_frames; take engine 'tx_ring' on rig 'veth'",
        ),
        ({"clone_skb": 1}, "'veth': engine 'send' has no clone_skb; take engine 'pktgen' on rig 'sim:ixgbe'"),
        ({"pktgen": "tos 0a"}, "has no pktgen; take engine 'pktgen' on rig 'vm:e1000e'"),
        ({"xmit_mode": "start_xmit"}, "has no xmit_mode"),
        ({"pktgen": "vlan_id 5"}, "engine 'send' has no pktgen; take engine 'pktgen' on rig 'vm:e1000e'"),
        ({"delay_ns": 0}, "has no delay_ns"),
        ({"sink_retire_ms": 1}, "sink 'stack' only counts and has no sink_retire_ms; take one of sinks"),
        ({"engine": "receive"}, "no engine 'receive'.*try rig 'sim:"),
    ],
)
def test_what_only_simulated_senders_have_is_refused_elsewhere(changes: dict[str, Any], words: str) -> None:
    asked = Workload(**{"flow": Frames(), "engine": "send", **changes})
    with pytest.raises(CapabilityMissingError, match=words):
        catalog.check_workload(catalog.VETH, asked)
    catalog.check_workload(catalog.VETH, Workload(flow=Frames(), engine="send", cpus=1))


def test_simulated_ring_socket_has_no_slots_of_its_own() -> None:
    with pytest.raises(
        CapabilityMissingError, match="has no ring_frames; take engine 'tx_ring' on rig 'veth'"
    ):
        run("sim:ixgbe-af-packet", engine="tx_ring", ring_frames=256)


def test_pktgens_own_words_are_for_the_kernels() -> None:
    with pytest.raises(CapabilityMissingError, match="has no pktgen; try rig 'vm:e1000e'"):
        run("sim:ixgbe", engine="pktgen", pktgen="tos 0a")


def test_what_only_the_kernels_pktgen_has_is_found_on_an_emulated_machine() -> None:
    with pytest.raises(CapabilityMissingError, match=r"frames of one length.*try rig 'vm:e1000e'"):
        run("sim:ixgbe", engine="pktgen", flow=lk.imix_flow())


def test_option_of_pktgen_on_another_simulated_engine_is_refused_there() -> None:
    with pytest.raises(
        CapabilityMissingError, match="engine 'send' has no clone_skb; take engine 'pktgen' on rig"
    ):
        run("sim:ixgbe-af-packet", engine="send", clone_skb=1)


@pytest.mark.parametrize(
    ("factor", "levels", "words"),
    [
        ("xmit_mode", ["start_xmit", "teleport"], "xmit_mode 'teleport' is unknown"),
        ("clone_skb", [1.5], "clone_skb 1.5: give a whole number"),
        ("delay_ns", ["long"], "give a whole number"),
        ("cpus", [True], "give a whole number"),
    ],
)
def test_factors_of_the_sender_are_checked_when_planned(factor: str, levels: list[Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        Plan.of({factor: levels})


def test_factors_of_the_sender_are_swept() -> None:
    assert (
        len(Plan.of({"clone_skb": [0, 100], "xmit_mode": ["start_xmit", None], "cpus": [1, 2]}).combinations)
        == 8
    )


def test_a_simulated_stream_tells_its_figures_by_the_names_of_real_ones() -> None:
    with simulated_rig("sim:gianfar") as simulated:
        trial = simulated.run(Workload(lk.udp_flow(frame_bytes=1514), engine="tcp"), duration_s=0.2)
    told, own = trial.environment["tcp"], trial.environment["simulated"]["tcp"]
    assert told["throughput_mbit"] == pytest.approx(own["throughput_bits_per_s"] / 1e6)
    assert told["cpu_local_pct"] == pytest.approx(100, abs=1)
    demand = told["cpu_local_pct"] / 100 * 1e6 / (told["throughput_mbit"] * 1e6 / 8 / 1024)
    assert told["sdem_local_us_per_kb"] == pytest.approx(demand)
    assert told["cpu_remote_pct"] is told["sdem_remote_us_per_kb"] is told["bytes_received"] is None
