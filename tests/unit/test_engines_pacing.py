"""The twins' token bucket makes the same decisions as the native one (tests/native/pacing_cases.cpp)."""

from __future__ import annotations

import pytest

from labkit._native import StopFlag
from labkit.engines.pacing import Pacer, wait_until


@pytest.mark.parametrize(
    ("rate_pps", "burst"),
    [
        (None, 64),
        (1e-300, 1),
        (1e300, 64),
        (5e-324, 1),
        (0.5, 1),
        (10.5, 1),
        (10_000.0, 10),
        (64_000.0, 64),
        (1e9, 64),
    ],
)
def test_batch_holds_a_millisecond_of_the_rate_at_most(rate_pps: float | None, burst: int) -> None:
    assert Pacer(rate_pps, 0, 64).burst == burst


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
