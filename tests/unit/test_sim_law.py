"""The closed law against the published points, and its terms one by one."""

from __future__ import annotations

import statistics
import tomllib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import SettingRefusedError, WorkloadError
from labkit.experiment.published import compare_published
from labkit.paths import data_dir
from labkit.rigs.profiles import load_profile, load_profiles
from labkit.simnic.law import outcome
from labkit.simnic.profile import Constant, Profile
from labkit.units import line_rate_pps

PROFILES = data_dir() / "profiles"
FOLLOWUP = load_profile(PROFILES, "ixgbe")


def changed(profile: Profile, **values: float) -> Profile:
    """`profile` with other constants."""
    constants = {name: Constant(value=value, kind="assumed", source="test") for name, value in values.items()}
    return msgspec.structs.replace(profile, constants=msgspec.structs.replace(profile.constants, **constants))


def test_36_published_points_are_met() -> None:
    points = compare_published()
    errors = [abs(point.error) for point in points]
    assert len(points) == 36
    assert statistics.median(errors) <= 0.15
    assert max(errors) <= 1.0
    assert {point.rig for point in points} == {"sim:ixgbe", "sim:ixgbe@baseline"}


def test_ring_limited_points_are_met_without_a_fitted_number() -> None:
    ring_limited = [point for point in compare_published() if point.limited_by == "TX ring"]
    assert len(ring_limited) == 7
    assert max(abs(point.error) for point in ring_limited) <= 0.2
    assert not any(point.fitted for point in ring_limited)
    for point in ring_limited:
        free_cpu = changed(FOLLOWUP, packet_ns=1.0, interrupt_ns=0.0, cache_miss_ns=0.0, repoll_ns=0.0)
        assert outcome(free_cpu, **point.setting).ring_pps == point.lab


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


def test_an_unknown_profile_is_refused_with_those_that_exist() -> None:
    with pytest.raises(WorkloadError, match=r"sim:ixgbe@v9.*known: sim:ixgbe, sim:ixgbe@baseline"):
        load_profile(PROFILES, "ixgbe@v9")


def test_every_number_of_a_profile_has_kind_and_source() -> None:
    for path in PROFILES.glob("*.toml"):
        content = tomllib.loads(path.read_text())
        assert content["kernels"]
        tables = [content["constants"], *(kernel["constants"] for kernel in content["kernels"].values())]
        assert not [key for key, value in content.items() if isinstance(value, int | float)]
        for name, constant in [item for table in tables for item in table.items()]:
            assert set(constant) == {"value", "kind", "source"}, name
            assert constant["kind"] in {"sourced", "fitted", "assumed"}, name
            assert len(constant["source"]) > 20, name
            assert "data/published/" in constant["source"] or constant["kind"] != "fitted", name
            assert name.endswith(("_ns", "_per_s", "_descriptors", "_frames", "_segments")), name


def test_a_constant_without_source_does_not_load() -> None:
    with pytest.raises(msgspec.ValidationError, match="source"):
        msgspec.convert({"value": 1, "kind": "assumed"}, Constant)


def test_profiles_differ_in_the_kernel_alone() -> None:
    profiles = load_profiles(PROFILES)
    assert list(profiles) == ["ixgbe", "ixgbe@baseline"]
    one, other = (profile.constants.values() for profile in profiles.values())
    assert {name for name in one if one[name] != other[name]} == {"packet_ns"}
