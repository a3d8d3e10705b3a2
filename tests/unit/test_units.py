"""What a frame takes on the wire, and how many of them fill it."""

from __future__ import annotations

import pytest

from labkit.units import line_rate_pps, ns_per_packet, rate_pps, wire_bytes


@pytest.mark.parametrize(
    ("frame_bytes", "on_the_wire"), [(14, 84), (42, 84), (59, 84), (60, 84), (61, 85), (1514, 1538)]
)
def test_wire_adds_fcs_preamble_and_gap_to_at_least_64_bytes(frame_bytes: int, on_the_wire: int) -> None:
    assert wire_bytes(frame_bytes) == on_the_wire


@pytest.mark.parametrize(("frame_bytes", "pps"), [(42, 14_880_952), (60, 14_880_952), (1514, 812_744)])
def test_line_rate_of_10_gigabit_is_the_published_one(frame_bytes: int, pps: int) -> None:
    assert round(line_rate_pps(frame_bytes, 10e9)) == pps


def test_speed_of_nothing_has_no_cost_and_no_time_has_no_speed() -> None:
    assert rate_pps(0, 1_000_000_000) == 0
    assert ns_per_packet(0) is None
    assert rate_pps(5, 0) is None
