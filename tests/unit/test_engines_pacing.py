"""The twins' token bucket makes the same decisions as the native one (tests/native/pacing_cases.cpp)."""

from __future__ import annotations

import pytest

from labkit._native import StopFlag
from labkit.engines.pacing import Gaps, Pacer, bucket_end_ns, bucket_floor_ns, quantile_ns, wait_until


@pytest.mark.parametrize(
    ("rate_pps", "burst"),
    [
        (None, 64),
        (1e-300, 1),
        (1e300, 64),
        (5e-324, 1),
        (0.5, 1),
        (10.5, 1),
        (49_999.0, 1),
        (50_000.0, 50),
        (64_000.0, 64),
        (1e9, 64),
    ],
)
def test_batch_holds_a_millisecond_of_the_rate_at_most(rate_pps: float | None, burst: int) -> None:
    assert Pacer(rate_pps, 0, 64).burst == burst


def test_frames_of_a_super_packet_leave_together_at_any_rate() -> None:
    assert Pacer(10_000.0, 0, 64, even=False).burst == 10


@pytest.mark.parametrize(("rate_pps", "duration_ns", "frames"), [(10.5, 10**10, 105), (0.5, 4 * 10**9, 2)])
def test_fractional_rates_come_out_right(rate_pps: float, duration_ns: int, frames: int) -> None:
    pacer, sent = Pacer(rate_pps, 1_000, 64), 0
    while pacer.due_ns < 1_000 + duration_ns:
        sent += pacer.burst
        pacer.took(pacer.burst, pacer.due_ns)
    assert abs(sent - frames) <= 1


def test_late_sender_catches_up_with_the_bucket_only() -> None:
    pacer = Pacer(100_000.0, 0, 1)
    pacer.took(1, 1_000_000_000)
    assert pacer.due_ns == 990_000_000
    pacer.took(1, 1_000_000_001)
    assert pacer.due_ns == 990_010_000


def test_no_rate_is_never_late() -> None:
    pacer = Pacer(None, 500, 64)
    pacer.took(64, 600)
    assert pacer.due_ns <= 600


def test_wait_ends_at_once_when_stopped() -> None:
    stop = StopFlag()
    stop.set()
    wait_until(2**62, stop)


def test_rate_too_slow_for_any_clock_is_due_far_off_and_no_overflow() -> None:
    pacer = Pacer(5e-324, 7, 64)
    pacer.took(1, 100)
    assert pacer.due_ns == 10**18 + 7


@pytest.mark.parametrize("rate_pps", [1_000.0, 20_000.0, 200_000.0])
def test_run_of_a_duration_sends_the_rates_count_exactly(rate_pps: float) -> None:
    pacer, deadline_ns, sent = Pacer(rate_pps, 1_000, 64), 1_000 + 10**9, 0
    while pacer.due_ns < deadline_ns:
        now = pacer.burst_before(deadline_ns)
        sent += now
        pacer.took(now, pacer.due_ns)
    assert sent == rate_pps


def test_rate_beyond_all_numbers_fills_the_batch_before_any_deadline() -> None:
    assert Pacer(1e300, 0, 64).burst_before(1) == 64
    assert Pacer(None, 0, 64).burst_before(1) == 64


@pytest.mark.parametrize(
    ("ns", "floor_ns", "end_ns"),
    [
        (0, 0, 1),
        (15, 15, 16),
        (31, 31, 32),
        (32, 32, 34),
        (33, 32, 34),
        (1000, 992, 1024),
        (2**40, 2**40, 17 << 36),
    ],
)
def test_buckets_are_those_of_the_native_histogram(ns: int, floor_ns: int, end_ns: int) -> None:
    assert (bucket_floor_ns(ns), bucket_end_ns(floor_ns)) == (floor_ns, end_ns)


def test_gaps_count_between_starts_only() -> None:
    gaps = Gaps()
    assert gaps.filled() == []
    for now_ns in (5, 1_005, 2_005, 2_013):
        gaps.add(now_ns)
    assert gaps.filled() == [(8, 1), (992, 2)]


@pytest.mark.parametrize(
    ("gaps", "share", "wanted"),
    [
        ([(8, 1), (992, 2)], 0.3, 8.0),
        ([(8, 1), (992, 2)], 0.5, (992 * 1023) ** 0.5),
        ([(0, 99), (1024, 1)], 0.99, 0.0),
        ([(0, 98), (1024, 2)], 0.99, (1024 * 1087) ** 0.5),
        ([], 0.5, None),
    ],
)
def test_quantile_is_the_middle_of_its_bucket(
    gaps: list[tuple[int, int]], share: float, wanted: float | None
) -> None:
    found = quantile_ns(gaps, share)
    assert found == (None if wanted is None else pytest.approx(wanted))
