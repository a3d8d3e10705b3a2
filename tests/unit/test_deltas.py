"""Counter differences that survive wraps and resets."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from labkit.counters.deltas import Delta, counter_delta, counter_deltas

INPUT = Path(__file__).parent / "inputs" / "counter_wrap_32bit.csv"


def rows() -> list[dict[str, int]]:
    lines = [line for line in INPUT.read_text().splitlines() if not line.startswith("#")]
    return [{key: int(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def test_known_32_bit_counter_wraps_once() -> None:
    before, after = rows()[3], rows()[4]
    moved = counter_delta(before["rx_bytes"], after["rx_bytes"], width_bits=32)
    assert moved == Delta(value=81414243, doubt="wrapped")
    assert counter_delta(before["rx_packets"], after["rx_packets"], width_bits=32).value == 54719


def test_wrap_of_unknown_width_is_dropped_and_flagged() -> None:
    before, after = rows()[3], rows()[4]
    assert counter_delta(before["rx_bytes"], after["rx_bytes"]) == Delta(value=None, doubt="wrap or reset")


def test_reset_is_not_a_wrap() -> None:
    assert counter_delta(5_000_000_000, 1_200, width_bits=64) == Delta(value=None, doubt="reset")


def test_wrap_over_more_than_half_the_range_was_a_reset() -> None:
    limit = 1 << 32
    assert counter_delta(limit - 10, 5, width_bits=32).value == 15
    assert counter_delta(limit - 10, limit // 2 - 10, width_bits=32).value == limit // 2
    assert counter_delta(limit - 10, limit // 2 - 9, width_bits=32).doubt == "reset"


def test_counter_above_its_width_did_not_wrap() -> None:
    assert counter_delta((1 << 32) + 5, 7, width_bits=32).doubt == "reset"


@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None), (None, None)])
def test_missing_read_is_a_missing_difference(before: int | None, after: int | None) -> None:
    assert counter_delta(before, after).value is None


def test_counters_by_name_keep_what_is_missing_apart_from_zero() -> None:
    assert counter_deltas({"a": 1, "b": 5}, {"a": 1, "c": 2}) == {"a": 0, "b": None, "c": None}
