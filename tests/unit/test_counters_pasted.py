"""Pasted output of ethtool -g and -c: n/a is None, and half a text is half a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.counters.pasted import parse_coalesce, parse_rings
from labkit.errors import CapabilityMissingError, WorkloadError

INPUTS = Path(__file__).parent / "inputs"


def text(name: str) -> str:
    return (INPUTS / f"ethtool_{name}.txt").read_text()


def test_rings_that_are_not_reported_are_none() -> None:
    told = parse_rings(text("g_e1000e"))
    assert told.device == "eth0"
    assert (told.current["rx_ring"], told.maxima["rx_ring"]) == (256, 4096)
    assert (told.current["tx_ring"], told.maxima["tx_ring"]) == (256, 4096)
    for name in ("rx_mini_ring", "rx_jumbo_ring", "rx_buf_len", "cqe_size", "tx_push_buf_len"):
        assert told.current[name] is None
    assert told.current["tx_push"] is False
    assert told.notes == ()


def test_half_a_text_leaves_current_values_unknown() -> None:
    told = parse_rings(text("g_r8169_maxima_only"))
    assert (told.maxima["rx_ring"], told.maxima["tx_ring"]) == (255, 255)
    assert (told.current["rx_ring"], told.current["tx_ring"]) == (None, None)
    assert told.notes == ("current section missing",)


def test_rings_need_not_be_powers_of_two_and_unknown_lines_stay() -> None:
    told = parse_rings(text("g_bnxt_not_pow2"))
    assert (told.current["tx_ring"], told.maxima["tx_ring"]) == (511, 2047)
    assert (told.current["rx_ring"], told.maxima["rx_ring"]) == (511, 2047)
    assert (told.current["rx_jumbo_ring"], told.maxima["rx_jumbo_ring"]) == (2044, 8191)
    assert told.current["tcp_data_split"] is True
    assert (told.current["TCP data split thresh"], told.maxima["TCP data split thresh"]) == (0, 256)


def test_a_line_with_two_values_gives_both() -> None:
    told = parse_coalesce(text("c_cqe_na")).current
    assert (told["rx_usecs"], told["tx_usecs"]) == (3, 3)
    others = {name: value for name, value in told.items() if name not in {"rx_usecs", "tx_usecs"}}
    assert set(others.values()) == {None}
    assert {"adaptive_rx", "adaptive_tx", "cqe_mode_rx", "cqe_mode_tx", "rx_frames_low"} <= others.keys()


def test_adaptive_is_told_for_each_direction() -> None:
    told = parse_coalesce(text("c_mlx_adaptive_on")).current
    assert (told["adaptive_rx"], told["adaptive_tx"]) == (True, False)
    assert (told["rx_usecs"], told["rx_frames"], told["pkt_rate_low"]) == (16, 88, 400_000)
    assert told["rx_usecs_high"] == 128


def test_tap_reports_frames_only() -> None:
    told = parse_coalesce(text("c_tap_6.1"))
    assert told.device == "tap0"
    assert {name: value for name, value in told.current.items() if value is not None} == {"rx_frames": 0}


def test_any_run_of_blanks_parts_word_and_value() -> None:
    told = parse_coalesce("Adaptive   RX:   on \t TX:\toff\nrx-usecs: \t  7\n  tx-frames:64\n").current
    assert told == {"adaptive_rx": True, "adaptive_tx": False, "rx_usecs": 7, "tx_frames": 64}


def test_nothing_pasted_is_said() -> None:
    assert parse_coalesce("").notes == ("current section missing",)
    assert parse_rings("").notes == ("maxima section missing", "current section missing")


def test_unsupported_and_absent_devices_are_two_errors() -> None:
    blocks = text("virtual_devices_local").split("== ethtool ")
    said = {block.partition("\n")[0]: block.partition("\n")[2] for block in blocks}
    for command in ("-g v0", "-g br0", "-g tap0", "-g lo"):
        with pytest.raises(CapabilityMissingError, match="does not have these settings"):
            parse_rings(said[command])
    with pytest.raises(CapabilityMissingError):
        parse_coalesce(said["-c v0"])
    for parse, command in ((parse_rings, "-g nosuch"), (parse_coalesce, "-c nosuch")):
        with pytest.raises(WorkloadError, match="no such device"):
            parse(said[command])
    assert parse_coalesce(said["-c tap0"]).current["rx_frames"] == 1
