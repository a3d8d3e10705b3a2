"""Drain times as the threads worked them out; what lies before a packet, without and with BQL."""

from __future__ import annotations

import math

import pytest

import labkit as lk
from labkit.analysis.ring import DRAIN_CASES, drain_ms


@pytest.mark.parametrize("case", DRAIN_CASES, ids=lambda case: f"{case.descriptors}-{case.bytes_each}")
def test_drain_times_are_the_published_ones(case: object) -> None:
    (drain,) = (drain for drain in lk.drains() if drain.case == case)
    (row,) = (row for row in lk.published_table("arithmetic") if row.statement == drain.case.statement)
    assert row.unit == "ms"
    digits = len(row.value.partition(".")[2])
    cut, rounded = math.floor(drain.ms * 10**digits) / 10**digits, round(drain.ms, digits)
    assert float(row.value) in {cut, rounded}  # the thread cut 1.2599 off to 1.25


def test_queues_share_the_wire_and_add_their_rings() -> None:
    assert [drain.ms for drain in lk.drains(queues=8)] == pytest.approx([8 * each.ms for each in lk.drains()])
    assert drain_ms(1024, 1538, link_bits_per_s=100e9) == pytest.approx(0.126, abs=0.001)


def test_without_bql_a_full_ring_is_ahead_and_with_it_two_intervals() -> None:
    ahead = lk.bytes_ahead(settings={"tx_ring": 512, "rx_usecs": 30}, frame_bytes=1514)
    assert ahead.without.waiting > 470  # 512 - 21, less what was sent since the last interrupt
    assert ahead.without.delay_us > 500
    # what leaves in two intervals of 30.72 us at 10 Gbit/s, in frames of 1514 bytes
    two_intervals_bytes = 2 * 30.72 / 1.2304 * 1514
    assert ahead.bql_limit_bytes == pytest.approx(two_intervals_bytes, rel=0.05)
    assert ahead.limited.bytes_ahead < ahead.bql_limit_bytes
    assert ahead.limited_pps == pytest.approx(ahead.without_pps, rel=0.001)


def test_a_larger_ring_lengthens_the_wait_but_not_behind_bql() -> None:
    small, large = (
        lk.bytes_ahead(settings={"tx_ring": ring, "rx_usecs": 30}, frame_bytes=1514) for ring in (512, 4096)
    )
    assert large.without.delay_us > 7 * small.without.delay_us
    assert large.limited.delay_us == pytest.approx(small.limited.delay_us, rel=0.01)


def test_later_interrupts_raise_bqls_limit() -> None:
    limits = [
        lk.bytes_ahead(settings={"tx_ring": 1024, "rx_usecs": usecs}).bql_limit_bytes for usecs in (10, 30, 1)
    ]
    assert limits == sorted(limits)
    assert limits[2] > 3 * limits[1]
