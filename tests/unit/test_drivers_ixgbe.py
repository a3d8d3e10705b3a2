"""What ixgbe of 2014 and of today makes of a ring size and of an interrupt interval."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.drivers.ixgbe import BULK_ITR, IXGBE, IXGBE_2014, START_ITR, smoothed_itr
from labkit.drivers.values import whole_number
from labkit.errors import SettingRefusedError, WorkloadError


@pytest.mark.parametrize(
    ("asked", "accepted"),
    [(1001, 1008), (50, 64), (0, 64), (64, 64), (768, 768), (4090, 4096), (4096, 4096), (8192, 4096)],
)
def test_ring_of_2014_is_clamped_and_rounded_up_without_a_word(asked: int, accepted: int) -> None:
    assert IXGBE_2014.accepted("tx_ring", asked) == accepted
    assert IXGBE_2014.effective("tx_ring", accepted) == accepted


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_accepted_ring_is_accepted_as_it_is(asked: int) -> None:
    accepted = IXGBE_2014.tx_ring.accepted(asked)
    assert 64 <= accepted <= 4096
    assert accepted % 8 == 0
    assert IXGBE_2014.tx_ring.accepted(accepted) == accepted


@pytest.mark.parametrize(
    ("usecs", "effective"),
    [
        (1, 124.928),
        (2, 2.048),
        (3, 2.048),
        (10, 10.24),
        (30, 30.72),
        (31, 30.72),
        (50, 51.2),
        (1022, 1046.528),
    ],
)
def test_interval_goes_in_steps_of_the_hardware_and_1_is_a_code(usecs: int, effective: float) -> None:
    assert IXGBE_2014.accepted("rx_usecs", usecs) == usecs
    assert IXGBE_2014.effective("rx_usecs", usecs) == effective


def test_interval_0_has_no_period() -> None:
    assert IXGBE_2014.rx_usecs.period_ns(0) is None
    assert IXGBE_2014.rx_usecs.effective(0) is None


def test_interval_above_the_register_is_refused() -> None:
    with pytest.raises(SettingRefusedError, match=r"rx_usecs 1023: the driver takes 0 to 1022.*EINVAL"):
        IXGBE_2014.accepted("rx_usecs", 1023)


def test_dynamic_mode_sticks_short_of_its_target() -> None:
    assert smoothed_itr(START_ITR) == 490 < BULK_ITR
    assert IXGBE_2014.rx_usecs.period_ns(1) == 61 * 2048


def test_queue_stops_below_21_free_descriptors() -> None:
    assert IXGBE_2014.stop_descriptors == 21


def test_todays_dynamic_mode_has_no_known_period() -> None:
    assert IXGBE.effective("rx_usecs", 1) is None
    assert IXGBE.effective("rx_usecs", 31) == 30.72


def test_tx_interval_is_tied_to_the_rx_interval() -> None:
    with pytest.raises(
        SettingRefusedError, match=r"TX moderation is tied to rx-usecs on this NIC.*set rx_usecs"
    ):
        IXGBE.accepted("tx_usecs", 10)
    assert IXGBE.accepted("tx_usecs", 0) == 0


@pytest.mark.parametrize("asked", [True, "512", 512.0, None])
def test_only_whole_numbers_are_taken(asked: object) -> None:
    with pytest.raises(WorkloadError, match="give a whole number"):
        whole_number("tx_ring", asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [-1, 2**32])
def test_numbers_that_ethtool_cannot_carry_are_refused(asked: int) -> None:
    with pytest.raises(SettingRefusedError, match="its field is 0 to"):
        whole_number("tx_ring", asked)
