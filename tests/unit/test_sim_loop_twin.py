"""The native event loop against its slow twin: every whole number is the same, whatever is switched on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit import _native
from labkit.simnic import reference

KIND, FULL = _native.SimModeration, _native.SimWhenFull
NS, US = 1000, 1_000_000
FLOORS = [_native.histogram_floor(bucket) for bucket in range(61 * 16)]

Fields = dict[str, Any]


def ns(low: float, high: float) -> st.SearchStrategy[int]:
    """Times, half of them whole steps of 50 ns, so that things happen at the same time."""
    step = 50 * NS
    whole = st.integers(math.ceil(low * NS / step), max(1, round(high * NS)) // step).map(lambda n: n * step)
    return st.one_of(st.integers(round(low * NS), round(high * NS)), *([whole] if high >= 100 else []))


def moderations(*kinds: _native.SimModeration) -> st.SearchStrategy[tuple[Any, int, int]]:
    periods = st.one_of(st.just(0), st.integers(0, 10).map(lambda steps: steps * 2_048_000), ns(0, 20_000))
    return st.tuples(st.sampled_from(kinds), periods, st.integers(0, 80))


BASE: dict[str, st.SearchStrategy[Any]] = {
    "duration": ns(5_000, 120_000),
    "warmup": st.one_of(st.just(0), ns(0, 40_000)),
    "trace": st.sampled_from([0, 7, 300]),
    "tx_ring": st.integers(43, 128),
    "frame_bytes": st.integers(60, 1514),
    "wire": ns(5, 400),
    "fetch": ns(0, 900),
    "write_back": st.integers(1, 20),
    "stop_descriptors": st.sampled_from([1, 18, 21]),
    "wake_descriptors": st.sampled_from([21, 42]),
    "clean_limit": st.sampled_from([1, 10, 64, 256]),
    "tx_moderation": moderations(KIND.INTERVAL),
    "packet": ns(20, 300),
    "burst_ps": ns(0, 50),
    "doorbell": ns(0, 100),
    "burst": st.integers(1, 40),
    "clean": ns(0, 40),
    "interrupt": ns(0, 2_000),
    "repoll": ns(0, 200),
    "cached": st.integers(0, 64),
    "cache_miss": ns(0, 40),
}
QDISC: dict[str, st.SearchStrategy[Any]] = {
    "when_full": st.just(FULL.QUEUE),
    "queue_limit": st.integers(1, 60),
}
BQL: dict[str, st.SearchStrategy[Any]] = {
    "bql": st.just(True),
    "bql_stops": st.just(True),
    "bql_min": st.sampled_from([0, 0, 100, 3_000]),
    "bql_max": st.sampled_from([1_000, 20_000, 1_879_048_192]),
    "bql_hold": st.one_of(st.just(0), ns(0, 50_000)),
}
RECEIVE: dict[str, st.SearchStrategy[Any]] = {
    "arrival_gap": ns(30, 3_000),
    "poisson": st.booleans(),
    "receive": ns(10, 600),
    "rx_ring": st.integers(1, 80),
    "rx_budget": st.sampled_from([1, 7, 64]),
    "shared_vector": st.booleans(),
    "seed": st.integers(0, 2**64 - 8),
}
TCP: dict[str, st.SearchStrategy[Any]] = {
    "window": st.integers(4, 50),
    "ack_every": st.integers(1, 4),
    "ack_delay": ns(0, 5_000),
    "ack_jitter": st.one_of(st.just(0), ns(0, 20_000)),
    "small_queue": st.one_of(st.just(0), st.integers(1, 30)),
    "receive": ns(0, 600),
    "shared_vector": st.booleans(),
}
CALLS: dict[str, st.SearchStrategy[Any]] = {"call_ps": ns(1, 300), "batch": st.integers(1, 40)}
LANES: dict[str, st.SearchStrategy[Any]] = {
    "lanes": st.integers(2, 4),
    "shared_line": st.one_of(st.just(0), ns(0, 100)),
}
SAMPLES: dict[str, st.SearchStrategy[Any]] = {"samples": st.integers(1, 9)}
COUNT: dict[str, st.SearchStrategy[Any]] = {"count": st.integers(1, 300)}
LOSSES: dict[str, st.SearchStrategy[Any]] = {"drop_interrupt_every": st.integers(1, 5)}
HOLD_OFF = {"tx_moderation": moderations(KIND.HOLD_OFF), "rx_moderation": moderations(KIND.HOLD_OFF)}
ANY_MODERATION = {"tx_moderation": moderations(*KIND), "rx_moderation": moderations(*KIND)}
CARRIER = {"carrier_lost_at": ns(0, 150_000)}
PACED = {"gap": ns(1, 2_000)}
REFUSING = {"when_full": st.just(FULL.REFUSE)}
STALL = {"locked_stall": ns(1, 300)}
INJECTS = {"injects": st.just(True)}

FEATURES: dict[str, list[dict[str, st.SearchStrategy[Any]]]] = {
    "pktgen": [SAMPLES, COUNT],
    "dynamic": [{"tx_moderation": moderations(KIND.DYNAMIC), "duration": ns(100_000, 900_000)}],
    "hold-off": [HOLD_OFF],
    "refuse": [REFUSING, CALLS],
    "qdisc": [QDISC, CALLS, COUNT],
    "bql seen by pktgen": [BQL, {"bql_stops": st.just(False)}],
    "bql over time": [BQL, SAMPLES, QDISC],
    "bql": [BQL, {"bql_hold": ns(0, 5_000), "duration": ns(50_000, 200_000)}],
    "qdisc and bql": [QDISC, BQL, CALLS],
    "pacing": [PACED, QDISC],
    "receive": [RECEIVE, ANY_MODERATION],
    "receive alone": [RECEIVE, ANY_MODERATION, {"sends": st.just(False)}],
    "lanes": [LANES, SAMPLES, CARRIER],
    "tcp": [TCP, QDISC, BQL, CALLS, HOLD_OFF],
    "stall": [STALL, CALLS],
    "lost interrupts": [LOSSES, ANY_MODERATION],
    "carrier": [CARRIER],
    "injects": [INJECTS, CALLS, COUNT, PACED],
}


@st.composite
def fields(draw: st.DrawFn, parts: list[dict[str, st.SearchStrategy[Any]]]) -> Fields:
    """Fields of a config; of each part but the first a coin decides each time whether it is there."""
    chosen = dict(BASE)
    for number, part in enumerate(parts):
        if number == 0 or draw(st.booleans()):
            chosen |= part
    found = {name: draw(strategy) for name, strategy in chosen.items()}
    if found.get("window"):
        found.pop("arrival_gap", None)
    return found


@st.composite
def everything(draw: st.DrawFn) -> Fields:
    """Any features beside one another."""
    parts = [
        QDISC,
        BQL,
        CALLS,
        LANES,
        SAMPLES,
        COUNT,
        LOSSES,
        ANY_MODERATION,
        CARRIER,
        PACED,
        REFUSING,
        STALL,
    ]
    return draw(fields([{}, *draw(st.permutations(parts)), draw(st.sampled_from([RECEIVE, TCP]))]))


def config_of(fields: Fields) -> _native.SimConfig:
    config = _native.SimConfig()
    for name, value in fields.items():
        if name in {"tx_moderation", "rx_moderation"}:
            moderation = getattr(config, name)
            moderation.kind, moderation.period, moderation.frames = value
        else:
            setattr(config, name, value)
    return config


def assert_same(fields: Fields) -> None:
    config = config_of(fields)
    fast, slow = _native.simulate(config), reference.simulate(config)
    for native, twin in zip(fast.lanes, slow.lanes, strict=True):
        assert {name: count for name, count in native.counts.items() if count} == {
            name: count for name, count in twin.counts.items() if count
        }
        assert native.waiting_ps == pytest.approx(twin.waiting_ps, rel=1e-12)
        assert native.uncleaned_ps == pytest.approx(twin.uncleaned_ps, rel=1e-12)
        assert native.most_in_flight == twin.most_in_flight
        assert native.bql_limit == twin.bql_limit
        assert native.itr == twin.itr
    points = [(p.at, p.waiting, p.uncleaned, p.interrupt, p.bql_limit, p.bql_inflight) for p in fast.trace]
    assert points == slow.trace
    samples = [(s.at, s.sent, s.received, s.bql_limit, s.bql_inflight) for s in fast.samples]
    assert samples == slow.samples
    assert fast.carrier_lost == slow.carrier_lost
    buckets = Counter(bisect_right(FLOORS, latency) - 1 for latency in slow.latency_ns)
    assert {bucket: frames for bucket, frames in enumerate(fast.latency) if frames} == buckets


@pytest.mark.parametrize("feature", FEATURES)
def test_loop_counts_what_its_twin_counts(feature: str) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(fields(FEATURES[feature]))
    def compare(drawn: Fields) -> None:
        assert_same(drawn)

    compare()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(everything())
def test_loop_counts_what_its_twin_counts_with_anything_on(drawn: Fields) -> None:
    assert_same(drawn)


def test_frame_that_comes_as_the_full_ring_is_looked_at_is_missed() -> None:
    every_100_ns = {"sends": False, "rx_ring": 1, "arrival_gap": 100 * NS, "receive": 200 * NS}
    assert_same(every_100_ns | {"duration": 100 * US})
