"""An explanation names the limit and where it changes; its budget adds up; counters alone invent nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.analysis.explain import UNEXPLAINED, explain
from labkit.analysis.ring import SETTLED
from labkit.experiment.explain import profile_of
from labkit.paths import data_dir
from labkit.records import Trial
from labkit.rigs.profiles import load_profiles
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.run import Share
from labkit.simnic.sender import Sender
from tests.sweep_fakes import trial


def sim_trial(
    settings: dict[str, Any], name: str = "sim:ixgbe", frame_bytes: int = 60, **workload: Any
) -> Trial:
    flow = lk.udp_flow(frame_bytes=frame_bytes, flows=1)
    with lk.rig(name) as rig, rig.applied(settings):
        return rig.run(lk.Workload(flow, **{"engine": "pktgen", **workload}))


def ixgbe() -> Profile:
    profile = profile_of("sim:ixgbe")
    assert profile is not None
    return profile


def by_name(budget: tuple[Share, ...]) -> dict[str, float]:
    return {share.name: share.ns_per_packet for share in budget}


@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("sim:ixgbe", {"tx_ring": 512, "rx_usecs": 1}, "TX ring"),
        ("sim:ixgbe", {"tx_ring": 256, "rx_usecs": 50}, "TX ring"),
        ("sim:ixgbe", {"tx_ring": 512, "rx_usecs": 30}, "CPU"),
        ("sim:ixgbe", {"tx_ring": 1024, "rx_usecs": 1}, "CPU"),
        ("sim:ixgbe@baseline", {"tx_ring": 768, "rx_usecs": 1}, "CPU"),
    ],
)
def test_budget_adds_up_and_the_limit_is_the_published_one(
    name: str, settings: dict[str, Any], limit: str
) -> None:
    measured = sim_trial(settings, name)
    told = lk.explain(measured)
    assert told.limited_by == limit
    assert sum(share.ns_per_packet for share in told.budget) == pytest.approx(told.ns_per_packet, abs=1e-6)
    assert told.unexplained_ns is not None
    assert abs(told.unexplained_ns) < 1.0
    assert all(share.source for share in told.budget)
    assert ("waiting for the ring" in by_name(told.budget)) is (limit == "TX ring")


def test_the_ring_gives_way_to_the_cpu_where_law_and_loop_say_so() -> None:
    told = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 1}))
    over_rings, over_intervals = told.turns
    assert (over_rings.setting, over_rings.before, over_rings.after) == ("tx_ring", "TX ring", "CPU")
    # (6 714 000 packets/s in 124.928 us) + 21 descriptors = 860, between two multiples of 8
    assert (over_rings.last, over_rings.first) == (856, 864)
    assert over_rings.confirmed
    assert (over_intervals.setting, over_intervals.last, over_intervals.first) == ("rx_usecs", 67, 68)
    assert "TX ring up to tx_ring 856, CPU from 864 (the event loop agrees" in told.text()


def test_a_turn_that_the_loop_sees_elsewhere_says_where() -> None:
    over_rings = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 30})).turns[0]
    assert (over_rings.last, over_rings.first) == (232, 240)
    assert not over_rings.confirmed
    assert over_rings.loop_last == 232
    assert over_rings.loop_first == 248
    assert "the event loop: up to 232, from 248" in over_rings.text()


def test_a_published_time_leaves_what_the_model_misses_unexplained() -> None:
    measured = sim_trial({"tx_ring": 512, "rx_usecs": 30})
    own, published = lk.explain(measured), lk.explain(measured, measured_ns=150.0)
    assert own.explained_ns is not None
    assert published.unexplained_ns == pytest.approx(150.0 - own.explained_ns)
    assert published.ns_per_packet == 150.0
    assert published.measured_by == "measured elsewhere"


def test_a_trial_that_kept_its_own_budget_has_nothing_unexplained() -> None:
    sender = Sender(engine="pktgen", clone_skb=0)
    settings = {"tx_ring": 512, "rx_usecs": 1}
    answer = simulate(ixgbe(), settings, sender, SETTLED)
    assert answer.pps is not None
    kept = trial(
        pps=answer.pps,
        rig="sim:ixgbe",
        engine="pktgen",
        ns_per_packet=1e9 / answer.pps,
        settings_accepted=settings,
        environment={
            "profile": "ixgbe",
            "sender": msgspec.to_builtins(sender),
            "simulated": msgspec.to_builtins({"budget": answer.budget, "zones": answer.zones}),
        },
    )
    told = lk.explain(kept)
    assert told.unexplained_ns == pytest.approx(0, abs=1e-6)
    assert by_name(told.budget)["packet buffer"] == pytest.approx(209.0)
    assert told.limited_by == "CPU"  # a buffer a frame hides the ring


def test_several_cpus_have_a_budget_of_all_their_time() -> None:
    sender = Sender(engine="pktgen", cpus=2, hypotheses=frozenset({"locked-stall"}))
    answer = simulate(ixgbe(), {"rx_usecs": 30}, sender, SETTLED)
    assert answer.pps is not None
    kept = trial(
        pps=answer.pps,
        rig="sim:ixgbe",
        engine="pktgen",
        settings_accepted={"rx_usecs": 30},
        environment={
            "sender": msgspec.to_builtins(sender),
            "simulated": msgspec.to_builtins({"budget": answer.budget, "zones": answer.zones}),
        },
    )
    told = lk.explain(kept)
    assert told.ns_per_packet == pytest.approx(2e9 / answer.pps)
    assert told.unexplained_ns == pytest.approx(0, abs=0.05)
    assert "time of 2 CPUs" in told.measured_by
    assert any("'locked-stall' is true" in each for each in told.unknown)


def test_only_the_first_zone_delays_a_packet() -> None:
    ring = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 1})).ring
    assert ring is not None
    assert ring.waiting + ring.uncleaned + ring.free == pytest.approx(512)
    assert ring.uncleaned > 300
    assert ring.delay_us == pytest.approx(ring.waiting * 0.0672)
    assert ring.drain_us == pytest.approx(512 * 0.0672)


def test_wire_and_pacing_are_told_apart_from_the_ring() -> None:
    wire = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 30}, frame_bytes=1514))
    assert wire.limited_by == "line rate"
    paced = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 30}, rate_pps=1e6))
    assert paced.limited_by == "pacing"
    assert paced.turns == ()
    assert "one CPU at full speed" in paced.unknown[0]
    assert by_name(paced.budget)["waiting for its time"] > 800


def test_a_rest_of_nothing_has_no_sign() -> None:
    told = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 30}))
    assert told.unexplained_ns is not None
    assert -0.005 < told.unexplained_ns < 0
    assert "-0.00" not in told.text()
    assert "-0.00" not in told._repr_markdown_()
    assert not any("-0.00" in trace.text for trace in lk.waterfall(told).data if trace.text)


def test_a_receiver_is_not_said_to_send() -> None:
    told = lk.explain(sim_trial({}, "sim:generic-25g", engine="receive", rate_pps=1e6))
    assert "the receiver's CPU is idle for" in told.evidence[0]
    assert "sender" not in told.text()


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("sim:generic-25g", {"engine": "receive"}),
        ("sim:generic-25g", {"engine": "receive", "rate_pps": 1e6}),
        ("sim:gianfar", {"engine": "tcp"}),
        ("sim:ixgbe", {"cpus": 2, "clone_skb": 0, "batch": 2}),
        ("sim:pktgen-receive", {"xmit_mode": "netif_receive"}),
        ("sim:ixgbe-af-packet", {"engine": "tx_ring"}),
    ],
)
def test_budget_of_every_engine_closes_without_a_rest(name: str, workload: dict[str, Any]) -> None:
    told = lk.explain(sim_trial({}, name, **workload))
    assert told.limited_by is not None
    assert told.unexplained_ns == pytest.approx(0, abs=1)


def test_frames_that_never_meet_the_wire_are_not_limited_by_it() -> None:
    injected = lk.explain(sim_trial({}, "sim:pktgen-receive", xmit_mode="netif_receive", batch=1024))
    assert injected.ns_per_packet is not None
    assert injected.link_ns is not None
    assert injected.ns_per_packet < injected.link_ns
    assert injected.limited_by == "CPU"


def test_a_what_if_machine_says_that_nobody_measured_it() -> None:
    assumed = msgspec.structs.replace(ixgbe(), what_if=True)
    told = explain(sim_trial({"tx_ring": 512, "rx_usecs": 30}), profile=assumed)
    assert "nobody measured" in told.unknown[0]


def test_the_law_asks_only_rings_that_the_driver_takes() -> None:
    profile = ixgbe()
    powers = msgspec.structs.replace(
        profile.driver.tx_ring, rounding="power of two only", above="refuse", below="refuse"
    )
    machine = msgspec.structs.replace(profile, driver=msgspec.structs.replace(profile.driver, tx_ring=powers))
    turn = explain(sim_trial({"tx_ring": 512, "rx_usecs": 1}), profile=machine).turns[0]
    assert (turn.last, turn.first) == (512, 1024)


def test_where_the_law_covers_nothing_no_turn_is_made_up() -> None:
    profile = ixgbe()
    hold_off = msgspec.structs.replace(
        profile, driver=msgspec.structs.replace(profile.driver, moderation="hold-off")
    )
    told = explain(sim_trial({"tx_ring": 512, "rx_usecs": 30}), profile=hold_off)
    assert told.turns == ()
    assert told.law_pps is None
    assert "interrupts by interval alone, not by hold-off" in told.unknown[0]
    assert told.budget


MACHINES = load_profiles(data_dir() / "profiles")


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_explains_each_of_its_engines(name: str) -> None:
    for engine in MACHINES[name].engines:
        injects = MACHINES[name].constants.packet_ns is None and engine == "pktgen"
        sender = Sender(
            engine=engine,
            xmit_mode="netif_receive" if injects else "start_xmit",
            gap_ns=300.0 if engine == "receive" else 0.0,
        )
        answer = simulate(MACHINES[name], {}, sender, SETTLED)
        told = lk.explain(
            trial(
                pps=answer.pps,
                rig=f"sim:{name}",
                engine=engine,
                settings_accepted={},
                environment={"sender": msgspec.to_builtins(sender)},
            )
        )
        assert told.limited_by is not None
        assert told.unexplained_ns == pytest.approx(0, abs=0.01)
        assert (told.ring is None) is (injects or engine == "receive")


@pytest.mark.parametrize("batch", [1, 5, 8, 32])
def test_law_and_loop_agree_on_calls_that_end_within_a_doorbell(batch: int) -> None:
    both = lk.loop_and_law("sim:ixgbe-e5-2695@flush-8", engine="tx_ring", batch=batch)
    assert both.law_pps == pytest.approx(both.loop_pps, rel=0.005)


def test_the_wire_is_named_at_four_speeds() -> None:
    told = lk.explain(sim_trial({}))
    assert told.wire_ns == pytest.approx({"10G": 67.2, "25G": 26.88, "40G": 16.8, "100G": 6.72})
    assert told.link_ns == pytest.approx(67.2)


def test_counters_alone_name_no_limit_and_split_no_cost() -> None:
    counts = {"device_sent": 10**6, "elapsed_ns": 10**9, "cpu_ns": 9 * 10**8}
    measured = trial(pps=1e6, rig="veth", ns_per_packet=1000.0, **counts)
    told = lk.explain(measured)
    assert told.limited_by is None
    assert told.turns == ()
    assert told.ring is None
    assert told.link_ns is None
    assert [share.name for share in told.budget] == ["on the sender's CPU", UNEXPLAINED]
    assert told.unexplained_ns == pytest.approx(100)
    assert "the sending thread was on its CPU 90.0% of the time" in told.evidence
    assert "no counter proves a limit" in told.unknown[0]
    assert any("no profile" in each for each in told.unknown)


def test_what_an_emulated_machine_explains_says_so() -> None:
    told = explain(trial(device_sent=1000, environment={"emulated": True})).text()
    assert "(emulated time)" in told


def test_what_a_counter_proves_is_told_with_its_count() -> None:
    told = lk.explain(
        trial(
            pps=1e6,
            rig="nic:eth8",
            limiter="TX ring",
            refused_by_errno={"ENOBUFS": 12},
            qdisc_dropped=0,
            device_dropped=7,
            settings_accepted={"tx_ring": 512},
        )
    )
    assert told.limited_by == "TX ring"
    assert "the kernel refused frames: 12 ENOBUFS" in told.evidence
    assert "the device dropped 7 frames" in told.evidence
    assert not any("qdisc" in each for each in told.evidence)
    assert any("how full the TX ring was" in each for each in told.unknown)


def test_a_trial_that_sent_nothing_has_no_budget() -> None:
    told = lk.explain(trial(pps=None, ns_per_packet=None, device_sent=None, cpu_ns=None))
    assert told.budget == ()
    assert told.unexplained_ns is None
    assert "nobody counted them" in told.text()


def test_text_and_markdown_show_the_same_parts() -> None:
    told = lk.explain(sim_trial({"tx_ring": 512, "rx_usecs": 30}))
    page = told._repr_markdown_()
    assert repr(told) == told.text()
    for share in told.budget:
        assert share.source in told.text()
        assert f"| {share.ns_per_packet:z.2f} | {share.name} |" in page
