"""Driver statistics of every shape: nothing lost, nothing added twice, nothing assumed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from labkit.counters.statistics import (
    Statistics,
    device_resets,
    packets_per_doorbell,
    parse_statistics,
    push_back,
    statistic_deltas,
    statistics_of,
    total,
)
from labkit.drivers.choose import facts_of
from labkit.errors import WorkloadError

INPUTS = Path(__file__).parent / "inputs"


def read(name: str) -> Statistics:
    return parse_statistics((INPUTS / f"ethtool_S_{name}.txt").read_text())


def test_vmxnet3_queues_are_kept_apart_and_added_up() -> None:
    found = read("vmxnet3_2txq")
    assert found.of_queue(0, "ring full") == 7
    assert found.of_queue(1, "ring full") == 840
    assert push_back(found, facts_of("vmxnet3")) == 847
    assert found.of_queue(0, "ucast pkts tx") == 52_364_227_408
    assert found.value("Tx Queue#") is None


def test_two_counters_of_one_name_within_a_queue_are_both_kept() -> None:
    found = read("vmxnet3_2txq")
    assert found.value("Tx Queue#: 0/drv dropped tx total/giant hdr") == 0
    assert found.value("Tx Queue#: 0/giant hdr") == 0
    assert len(found.values("giant hdr")) == 4
    with pytest.raises(WorkloadError, match="4 statistics are called 'giant hdr'"):
        found.value("giant hdr")


def test_a_counter_behind_the_queues_is_the_devices_own() -> None:
    found = read("vmxnet3_k6.1")
    assert found.value("tx timeout count") == 0
    last = found.rows[-1]
    assert (last.name, last.within, last.queue) == ("tx timeout count", (), None)


def test_two_colons_are_a_queue_and_a_name() -> None:
    bnx2x = read("bnx2x_bracket_queues")
    assert bnx2x.of_queue(0, "rx_bytes") == 209_487_403_324
    assert bnx2x.of_queue(1, "tx_bcast_packets") == 8249
    assert bnx2x.value("[0]") is None
    be2net = read("be2net_rxq_and_temperature_t0")
    assert be2net.of_queue(0, "rx_pkts") == 388_868_940_376


def test_a_temperature_is_no_count_and_a_still_counter_moved_by_0() -> None:
    before, after = (read(f"be2net_rxq_and_temperature_{when}") for when in ("t0", "t1"))
    moved = statistic_deltas(before, after, facts_of("be2net"))
    assert moved["rxq0: rx_pkts"].value == 117_383
    assert moved["rxq0: rx_bytes"].value == 59_108_599
    assert moved["rx_tcp_checksum_errs"].value == 743
    assert moved["rxq0: rx_drops_no_frags"].value == 0
    assert (moved["be_on_die_temperature"].value, moved["be_on_die_temperature"].doubt) == (None, "gauge")
    assert after.value("be_on_die_temperature") == 54


def test_no_push_back_is_known_only_where_the_driver_counts_it() -> None:
    assert push_back(read("ixgbe_head"), facts_of("ixgbe")) == 0
    assert push_back(read("i40e_dash_dot"), facts_of("i40e")) is None
    assert push_back(read("virtio_net_k6.1"), facts_of("virtio_net")) is None
    assert push_back(read("igb_k6.1"), facts_of("igb")) == 0
    assert push_back(read("ixgbe_head"), facts_of("frobnic")) is None


def test_one_absent_name_makes_the_sum_unknown() -> None:
    found = statistics_of([("tx_restart_queue", 5)])
    assert push_back(found, facts_of("ixgbe")) is None
    assert push_back(statistics_of([("tx_restart_queue", 5), ("tx_busy", 2)]), facts_of("ixgbe")) == 7


def test_totals_of_software_and_hardware_are_not_added() -> None:
    found, facts = read("ixgbe_head"), facts_of("ixgbe")
    assert total(found, facts, "tx_packets") == 943_793
    assert total(found, facts, "tx_packets_nic") == 943_793
    software, hardware = total(found, facts, "tx_bytes"), total(found, facts, "tx_bytes_nic")
    assert software is not None
    assert hardware is not None
    assert hardware - software == 7_950_650


def test_i40e_names_with_dash_and_dot_belong_to_queues() -> None:
    found = read("i40e_dash_dot")
    assert found.of_queue(1, "tx_packets") == 0
    assert found.value("tx-1.tx_bytes") == 0
    assert {row.queue for row in found.rows} == {None, 0, 1}


def test_ena_tells_push_back_packets_and_doorbells() -> None:
    found, facts = read("ena_head"), facts_of("ena")
    assert push_back(found, facts) == 0
    assert total(found, facts, "tx_packets") == 6_474_654
    assert packets_per_doorbell(found, facts, queue=0) == pytest.approx(1.0009, abs=5e-5)
    assert packets_per_doorbell(found, facts, queue=1) is None
    assert packets_per_doorbell(found, facts_of("igb"), queue=0) is None


def test_doorbells_of_0_give_no_ratio() -> None:
    found = statistics_of([("queue_0_tx_cnt", 0), ("queue_0_tx_doorbells", 0)])
    assert packets_per_doorbell(found, facts_of("ena"), queue=0) is None


def test_odd_names_are_found_as_they_are_and_cleaned() -> None:
    found = read("odd_names_layout")
    assert found.value("Queue[0] AllocFails") == 3
    assert found.values("err") == (0, 5)
    assert found.original("err") == 0
    assert found.original("     err") == 5
    with pytest.raises(WorkloadError, match="2 statistics are called 'err'"):
        found.value("err")
    assert found.value("tx_bytes.nic") == 122_960_366
    assert found.value("nosuch") is None


def test_a_reset_of_the_device_leaves_no_difference() -> None:
    _, first, second = (INPUTS / "ethtool_S_ena_before_after_reset.txt").read_text().split("# t")
    before, after = parse_statistics(first), parse_statistics(second)
    facts = facts_of("ena")
    assert device_resets(before, after, facts) == ("wd_expired", "interface_up")
    moved = statistic_deltas(before, after, facts)
    assert (moved["queue_0_tx_cnt"].value, moved["queue_0_tx_cnt"].doubt) == (None, "device reset")
    assert device_resets(before, before, facts) == ()
    assert statistic_deltas(before, before, facts)["queue_0_tx_cnt"].value == 0


def test_a_counter_that_fell_is_doubted_and_the_next_goes_on() -> None:
    reads = [statistics_of([("a", number)]) for number in (100, 40, 70)]
    facts = facts_of("frobnic")
    moved = [statistic_deltas(*pair, facts)["a"] for pair in pairwise(reads)]
    assert [(each.value, each.doubt) for each in moved] == [(None, "wrap or reset"), (30, None)]


def test_a_counter_on_one_side_only_is_unknown() -> None:
    moved = statistic_deltas(statistics_of([]), statistics_of([("a", 5)]), facts_of("frobnic"))
    assert moved["a"].value is None


def test_alike_paths_are_numbered() -> None:
    before, after = (statistics_of([("x", number), ("x", 10 * number)]) for number in (1, 2))
    moved = statistic_deltas(before, after, facts_of("frobnic"))
    assert {path: each.value for path, each in moved.items()} == {"x": 1, "x#2": 10}


def test_a_device_without_statistics_is_empty_not_wrong() -> None:
    assert parse_statistics("no stats available\n").rows == ()
    assert parse_statistics("").rows == ()


def test_names_and_values_of_netlink_give_the_same_as_the_text() -> None:
    text = read("vmxnet3_2txq")
    pairs = []
    for line in (INPUTS / "ethtool_S_vmxnet3_2txq.txt").read_text().splitlines()[1:]:
        name, _, value = line[5:].rpartition(": ")
        pairs.append((name, int(value)))
    assert statistics_of(pairs) == text


@pytest.mark.parametrize(
    ("driver", "counted", "right"),
    [
        ("igc", {"tx_packets": 9, "tx_queue_0_packets": 4, "tx_queue_1_packets": 5}, 9),
        ("tg3", {"tx_ucast_packets": 1, "tx_mcast_packets": 2, "tx_bcast_packets": 4}, 7),
        ("tg3", {"tx_ucast_packets": 1}, None),
        ("bnxt", {f"[{q}]: tx_{cast}_packets": q for q in (1, 2) for cast in ("ucast", "mcast", "bcast")}, 9),
        ("gianfar", {"tx-packets": 3}, 3),
        ("gianfar", {"tx-timeout-errors": 0}, None),
        ("mlx5", {"tx_packets": 8, "tx_packets_phy": 6}, 6),
    ],
)
def test_what_the_hardware_sent_is_found_under_the_drivers_own_names(
    driver: str, counted: dict[str, int], right: int | None
) -> None:
    assert total(statistics_of(counted.items()), facts_of(driver), "tx_packets_nic") == right
