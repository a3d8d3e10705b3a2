"""The closed law, term by term."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import SettingRefusedError
from labkit.paths import data_dir
from labkit.rigs.profiles import load_profile
from labkit.simnic.law import outcome
from labkit.simnic.profile import Constant, Profile
from labkit.units import line_rate_pps

PROFILES = data_dir() / "profiles"
FOLLOWUP = load_profile(PROFILES, "ixgbe")


def changed(profile: Profile, **values: float) -> Profile:
    """`profile` with other constants."""
    constants = {name: Constant(value=value, kind="assumed", source="test") for name, value in values.items()}
    return msgspec.structs.replace(profile, constants=msgspec.structs.replace(profile.constants, **constants))


@pytest.mark.parametrize(
    ("tx_ring", "rx_usecs", "pps"), [(512, 1, 3_930_264), (256, 50, 4_589_844), (256, 40, 5_737_305)]
)
def test_ring_term_gives_the_reference_values(tx_ring: int, rx_usecs: int, pps: int) -> None:
    result = outcome(FOLLOWUP, tx_ring=tx_ring, rx_usecs=rx_usecs)
    assert round(result.pps) == pps
    assert result.limited_by == "TX ring"
    assert result.packets_per_period == pytest.approx(tx_ring - 21)
    assert result.ring_occupancy == pytest.approx((tx_ring - 21) / tx_ring)


def test_interrupts_are_the_nics_own() -> None:
    assert outcome(FOLLOWUP, tx_ring=512, rx_usecs=1).interrupts_per_s == pytest.approx(8005, abs=1)
    assert outcome(FOLLOWUP, tx_ring=512, rx_usecs=30).interrupts_per_s == pytest.approx(1e9 / 30720)


def test_odd_interval_acts_as_the_even_one_below() -> None:
    assert outcome(FOLLOWUP, tx_ring=512, rx_usecs=31) == outcome(FOLLOWUP, tx_ring=512, rx_usecs=30)


def test_free_cpu_and_large_ring_leave_the_wire() -> None:
    free_cpu = changed(FOLLOWUP, packet_ns=10.0)
    result = outcome(free_cpu, tx_ring=4096, rx_usecs=30)
    assert result.limited_by == "line rate"
    assert result.pps == line_rate_pps(60, 10e9)


def test_long_frames_meet_the_wire_before_the_cpu() -> None:
    result = outcome(FOLLOWUP, tx_ring=1024, rx_usecs=30, frame_bytes=1514)
    assert result.limited_by == "line rate"
    assert round(result.pps) == 812_744


@settings(deadline=None)
@given(tx_ring=st.integers(64, 4096), rx_usecs=st.integers(1, 1022), frame_bytes=st.integers(14, 1514))
def test_cpu_limit_solves_its_own_equation(tx_ring: int, rx_usecs: int, frame_bytes: int) -> None:
    result = outcome(FOLLOWUP, tx_ring=tx_ring, rx_usecs=rx_usecs, frame_bytes=frame_bytes)
    assert result.pps == min(result.ring_pps, result.wire_pps, result.cpu_pps)
    assert 0 < result.ring_occupancy <= 1
    period_ns = 1e9 / result.interrupts_per_s
    packets = result.cpu_pps * period_ns / 1e9
    beyond = max(0.0, packets - 512)
    # a full clean limit more or less makes a step of one poll, inside of which the fixed point may rest
    spent_ns = packets * 136.6 + beyond * 27.6 + 876 + 150 * (packets // 256)
    assert spent_ns == pytest.approx(period_ns, abs=151)


def test_unthrottled_interrupts_are_refused_with_advice() -> None:
    with pytest.raises(SettingRefusedError, match=r"rx_usecs 0 .*does not cover; ask for 1 .*or 2 to 1022"):
        outcome(FOLLOWUP, tx_ring=512, rx_usecs=0)


def test_an_interval_beyond_the_driver_is_refused() -> None:
    with pytest.raises(SettingRefusedError, match="0 to 1022"):
        outcome(FOLLOWUP, tx_ring=512, rx_usecs=1023)
