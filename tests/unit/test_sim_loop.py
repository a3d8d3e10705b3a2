"""What the event loop must hold by itself: time and frames that add up, limits, and the closed law."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit import _native
from labkit.simnic import reference
from labkit.simnic.law import interrupt_period_ns, limits
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.run import Run
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S
from tests.unit.test_sim_law import FOLLOWUP, changed
from tests.unit.test_sim_loop_twin import (
    CARRIER,
    COUNT,
    KIND,
    LOSSES,
    US,
    Fields,
    config_of,
    everything,
    fields,
    moderations,
)

FULL = _native.SimWhenFull
WAITS = ("ring_wait_ps", "pacing_wait_ps", "window_wait_ps", "idle_ps", "shared_line_ps", "stall_ps")
AWAY = 1.10
"""The law is a minimum of limits; near a corner, where two of them are this close, the loop rounds it off."""


def spent_ps(config: _native.SimConfig, count: dict[str, int]) -> int:
    """Time that the counts explain."""
    return (
        config.packet * (count["sent"] + count["refused"])
        + (config.burst_ps + config.doorbell) * count["bursts"]
        + config.call_ps * count["calls"]
        + config.clean * count["cleaned"]
        + config.cache_miss * count["cache_misses"]
        + config.interrupt * (count["tx_interrupts"] + count["rx_interrupts"])
        + config.repoll * count["repolls"]
        + config.receive * count["received"]
        + sum(count[wait] for wait in WAITS)
    )


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(everything())
def test_time_closes_to_the_picosecond(drawn: Fields) -> None:
    config = config_of(drawn)
    for lane in _native.simulate(config).lanes:
        assert spent_ps(config, lane.counts) == lane.counts["elapsed_ps"]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(everything())
def test_no_frame_is_lost_or_made_up(drawn: Fields) -> None:
    config = config_of(drawn | {"warmup": 0})
    for lane, twin in zip(_native.simulate(config).lanes, reference.simulate(config).lanes, strict=True):
        assert lane.counts["sent"] - lane.counts["cleaned"] == twin.in_flight + twin.queued + twin.posting
        assert max(twin.in_flight, lane.most_in_flight) <= config.tx_ring - config.stop_descriptors


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(everything())
def test_wire_carries_one_frame_at_a_time(drawn: Fields) -> None:
    config = config_of(drawn | {"warmup": 0})
    lanes = _native.simulate(config).lanes
    longest_ps = max(lane.counts["elapsed_ps"] for lane in lanes)
    assert sum(lane.counts["cleaned"] for lane in lanes) * config.wire <= longest_ps


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(everything(), st.integers(1, 30))
def test_looking_changes_nothing(drawn: Fields, samples: int) -> None:
    blind = _native.simulate(config_of(drawn | {"samples": 0, "trace": 0}))
    seen = _native.simulate(config_of(drawn | {"samples": samples, "trace": 500}))
    waits = dict.fromkeys(WAITS)
    for one, other in zip(blind.lanes, seen.lanes, strict=True):
        assert {k: v for k, v in one.counts.items() if k not in waits} == {
            k: v for k, v in other.counts.items() if k not in waits
        }
    assert sum(blind.latency) == sum(seen.latency)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(fields([COUNT, CARRIER, LOSSES, {"tx_moderation": moderations(KIND.INTERVAL, KIND.DYNAMIC)}]))
def test_short_loop_of_pktgen_alone_is_the_whole_loop(drawn: Fields) -> None:
    short = _native.simulate(config_of(drawn)).lanes[0]
    # BQL that nobody heeds changes no count, and takes the whole loop
    whole = _native.simulate(config_of(drawn | {"bql": True})).lanes[0]
    assert short.counts == whole.counts
    assert (short.waiting_ps, short.itr) == (pytest.approx(whole.waiting_ps), whole.itr)


def law_settings(number: int, seed: int) -> list[tuple[Profile, int, int, int]]:
    """Random machines and settings: (profile, tx_ring, rx_usecs, frame_bytes)."""
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        cost = draw.uniform(30, 440)
        parts = {"clean_ns": 0.1 * cost, "doorbell_ns": 0.3 * cost, "lock_ns": 0.1 * cost}
        profile = changed(FOLLOWUP, packet_ns=cost, interrupt_ns=draw.uniform(300, 2000), **parts)
        usecs = draw.choice([1, *[draw.randint(10, 1009)] * 3])
        longest = draw.choice([60, 120, 1514])
        found.append((profile, draw.randint(8, 512) * 8, usecs, draw.randint(60, longest)))
    return found


def law_and_loop(
    profile: Profile, tx_ring: int, rx_usecs: int, frame_bytes: int
) -> tuple[float, float] | None:
    """Packets per second by law and by loop; None where the second-smallest limit is near the smallest."""
    period_ns = interrupt_period_ns(profile, rx_usecs)
    found = limits(profile, tx_rings=[tx_ring], periods_ns=[period_ns], frame_bytes=frame_bytes)
    smallest, second, _ = sorted(float(one[0]) for one in (found.ring_pps, found.wire_pps, found.cpu_pps))
    if second <= AWAY * smallest:
        return None
    # a CPU that is a tenth faster than the wire fills the ring in ten times the ring's own drain time
    fill_s = 10 * tx_ring / float(found.wire_pps[0])
    run = Run(duration_s=250 * period_ns / NS_PER_S, warmup_s=fill_s + 40 * period_ns / NS_PER_S)
    sender = Sender(engine="pktgen", frame_bytes=frame_bytes)
    pps = simulate(profile, {"tx_ring": tx_ring, "rx_usecs": rx_usecs}, sender, run).pps
    assert pps is not None
    return smallest, pps


def assert_law_and_loop_agree(number: int, seed: int) -> None:
    compared = 0
    for setting in law_settings(number, seed):
        pair = law_and_loop(*setting)
        if pair is None:
            continue
        law_pps, loop_pps = pair
        assert loop_pps == pytest.approx(law_pps, rel=0.01), setting
        compared += 1
    assert compared > 0.8 * number


def test_law_and_loop_agree_within_a_hundredth_away_from_corners() -> None:
    assert_law_and_loop_agree(60, seed=1)


@pytest.mark.parametrize(
    ("tx_ring", "rx_usecs", "frame_bytes"), [(64, 30, 60), (512, 1, 60), (4096, 30, 1514)]
)
def test_zones_are_what_littles_law_says(tx_ring: int, rx_usecs: int, frame_bytes: int) -> None:
    run = Run(duration_s=0.2, warmup_s=0.1)
    setting = {"tx_ring": tx_ring, "rx_usecs": rx_usecs}
    found = simulate(FOLLOWUP, setting, Sender(engine="pktgen", frame_bytes=frame_bytes), run)
    zones = found.zones
    assert zones.waiting + zones.uncleaned + zones.free == pytest.approx(tx_ring)
    assert zones.free > 20.9
    assert found.pps is not None
    wire_ns = 0.8 * (frame_bytes + 24)
    if frame_bytes == 60:
        # nobody stands before a frame: it is on the wire, or sent until the interrupt comes
        assert zones.waiting == pytest.approx(found.pps * wire_ns / NS_PER_S, rel=1e-3)
    else:
        # the wire is the bottleneck: the ring stays full to its last usable descriptor but for the cleaning
        assert tx_ring - 21 - zones.waiting - zones.uncleaned < 60


def config(**values: Any) -> _native.SimConfig:
    """Config of one small machine with `values`."""
    machine = {
        "duration": 1000 * US,
        "packet": 100_000,
        "doorbell": 50_000,
        "clean": 14_000,
        "interrupt": 900_000,
        "tx_moderation": (KIND.INTERVAL, 30 * US, 0),
    }
    return config_of(machine | values)


def test_overloaded_receiver_drops_and_the_run_ends() -> None:
    [lane] = _native.simulate(
        config(sends=False, arrival_gap=100_000, receive=200_000, interrupt=0, rx_ring=64)
    ).lanes
    assert lane.counts["received"] == pytest.approx(5_000, abs=100)
    assert lane.counts["received"] + lane.counts["missed"] == pytest.approx(10_000, abs=100)


def test_lanes_that_wait_for_ever_are_at_the_end_at_once() -> None:
    hours = 360_000 * 10**12
    for lane in _native.simulate(config(sends=False, lanes=1024, duration=hours)).lanes:
        assert lane.counts["idle_ps"] == lane.counts["elapsed_ps"] == hours


def test_every_interrupt_lost_fills_the_ring_and_nothing_more() -> None:
    for kind in KIND:
        for period in (0, 30 * US):
            [lane] = _native.simulate(
                config(drop_interrupt_every=1, tx_moderation=(kind, period, 0), duration=10_000 * US)
            ).lanes
            assert lane.counts["sent"] == 512 - 21
            assert lane.counts["tx_interrupts"] == lane.counts["cleaned"] == 0


def test_bql_lets_a_burst_go_up_to_its_limit() -> None:
    heeded = {"bql": True, "bql_stops": True, "bql_min": 600, "bql_max": 600, "frame_bytes": 60, "burst": 32}
    [lane] = _native.simulate(config(**heeded)).lanes
    # 600 B and the frame that goes beyond: eleven frames a doorbell once the minimum has taken hold
    assert lane.counts["sent"] / lane.counts["bursts"] == pytest.approx(11, rel=0.1)


def test_call_pays_for_its_own_frames_alone() -> None:
    [lane] = _native.simulate(config(burst=8, batch=3, call_ps=200_000)).lanes
    assert lane.counts["sent"] == pytest.approx(3 * lane.counts["calls"], abs=3)


@pytest.mark.parametrize("lanes", [2, 3])
def test_fast_lanes_share_the_wire_evenly(lanes: int) -> None:
    asked = config(lanes=lanes, packet=20_000, duration=20_000 * US, warmup=2_000 * US)
    found = _native.simulate(asked).lanes
    sent = [lane.counts["sent"] for lane in found]
    assert sum(sent) * 67_200 == pytest.approx(20_000 * US, rel=0.02)
    assert max(sent) == pytest.approx(min(sent), rel=0.05)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("duration", 0, "duration must be above 0"),
        ("duration", 2**63 - 1, "at most 100 h"),
        ("packet", 0, "sending must take time"),
        ("fetch", 2**62, "0 to 1 s"),
        ("wire", 2**62, "2 ms"),
        ("samples", 2**32 - 1, "samples"),
        ("trace", 2**32 - 1, "trace points"),
        ("tx_ring", 42, "wake threshold"),
        ("rx_budget", 2**32 - 1, "receive budget"),
        ("bql_hold", 2**63 - 1, "bql_hold"),
    ],
)
def test_config_of_no_card_is_refused_in_words(field: str, value: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _native.simulate(config(**{field: value}))


def test_stream_with_other_arrivals_is_refused() -> None:
    with pytest.raises(ValueError, match="acknowledgements alone"):
        _native.simulate(config(window=8, arrival_gap=1000, receive=1))
