"""What a driver's own counters tell of a run on its device."""

from __future__ import annotations

import msgspec
import pytest

from labkit.agent.readings import Reading
from labkit.drivers.choose import facts_of
from labkit.rigs.driver_view import driver_view
from tests.unit.test_agent_client import MEASURED

QUIET = Reading(
    device={}, peer={}, peer_queue_dropped=None, qdisc_dropped=0, qdisc_queued=0, softnet_dropped=None
)


def view(
    driver: str,
    before: dict[str, int],
    after: dict[str, int],
    raised: tuple[dict[str, int] | None, dict[str, int] | None] = (None, None),
) -> dict[str, object]:
    reads = [
        msgspec.structs.replace(QUIET, statistics=list(counted.items()), interrupts=interrupts)
        for counted, interrupts in zip((before, after), raised, strict=True)
    ]
    measured = msgspec.structs.replace(MEASURED, before=reads[0], after=reads[1])
    return driver_view(measured, facts_of(driver))


def test_full_ring_is_counted_by_the_drivers_own_names() -> None:
    seen = view("ixgbe", {"tx_restart_queue": 3, "tx_busy": 1}, {"tx_restart_queue": 10, "tx_busy": 1})
    assert seen["push_back"] == 7


def test_counter_that_did_not_move_is_a_known_no() -> None:
    still = {"tx_restart_queue": 3, "tx_busy": 1}
    assert view("ixgbe", still, still)["push_back"] == 0


@pytest.mark.parametrize("driver", ["ixgbe", "veth", "nobody_knows"])
def test_absent_counter_is_unknown_never_no(driver: str) -> None:
    assert view(driver, {"tx_packets": 5}, {"tx_packets": 9})["push_back"] is None


def test_statistic_that_fell_is_told_and_one_that_did_not_is_none() -> None:
    seen = view("ixgbe", {"tx_packets": 2**32 - 5, "tx_busy": 1}, {"tx_packets": 5, "tx_busy": 2})
    assert seen["doubtful_counters"] == {"tx_packets": "wrap or reset"}


def test_interrupts_are_a_difference_and_unknown_without_a_line_of_the_device() -> None:
    before, after = {"eth8-TxRx-0": 60, "eth8-TxRx-1": 40}, {"eth8-TxRx-0": 300, "eth8-TxRx-1": 50}
    seen = view("ixgbe", {}, {}, (before, after))
    assert seen["interrupts"] == 250
    assert seen["interrupts_by_queue"] == {"eth8-TxRx-0": 240, "eth8-TxRx-1": 10}
    absent = view("ixgbe", {}, {})
    assert (absent["interrupts"], absent["interrupts_by_queue"]) == (None, None)


def test_renamed_queue_keeps_the_sum_and_its_own_count_is_unknown() -> None:
    seen = view("ixgbe", {}, {}, ({"eth8-TxRx-0": 60}, {"lab0-TxRx-0": 100}))
    assert (seen["interrupts"], seen["interrupts_by_queue"]) == (40, {"lab0-TxRx-0": None})


def test_statistics_that_moved_stand_under_the_drivers_own_names() -> None:
    seen = view("ixgbe", {"tx_busy": 1, "tx_packets": 5}, {"tx_busy": 1, "tx_packets": 9})
    assert seen["statistics"] == {"tx_packets": 4}


def test_reset_of_the_device_within_a_run_is_told() -> None:
    before = {"wd_expired": 0, "interface_up": 1, "queue_0_tx_cnt": 4_137_606}
    after = {"wd_expired": 1, "interface_up": 2, "queue_0_tx_cnt": 3_502}
    assert view("ena", before, after)["device_resets"]
    assert view("ena", before, before)["device_resets"] == []


def test_hardware_counts_come_from_the_driver_or_from_the_standard_statistics() -> None:
    standard = {"eth-mac/FramesTransmittedOK": 10, "eth-mac/FramesLostDueToIntMACXmitError": 1}
    later = {"eth-mac/FramesTransmittedOK": 25, "eth-mac/FramesLostDueToIntMACXmitError": 3}
    assert view("nobody_knows", standard, later)["tx_packets_nic"] == 15
    assert view("nobody_knows", standard, later)["tx_lost_nic"] == 2
    seen = view("igc", {"tx_packets": 4, **standard}, {"tx_packets": 9, **later})
    assert (seen["tx_packets_nic"], seen["tx_lost_nic"]) == (5, 2)
    assert view("nobody_knows", {}, {})["tx_packets_nic"] is None
