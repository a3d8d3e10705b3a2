"""softnet_stat and net/dev as every kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.counters.netdev import parse_netdev
from labkit.counters.softnet import SoftnetRow, parse_softnet
from labkit.errors import CapabilityMissingError

INPUTS = Path(__file__).parent / "inputs"


def softnet(name: str) -> tuple[SoftnetRow, ...]:
    return parse_softnet((INPUTS / f"softnet_stat_{name}.txt").read_text())


@pytest.mark.parametrize("name", ["9col_layout", "10col_layout", "11col_layout", "13col_cpu1_offline"])
def test_columns_are_hexadecimal(name: str) -> None:
    first, second = softnet(name)
    assert (first.processed, first.dropped, first.time_squeeze) == (0x00A1B2C3, 5, 10)
    assert (second.processed, second.dropped) == (255, 0)


def test_an_offline_cpu_does_not_shift_the_next() -> None:
    rows = softnet("13col_cpu1_offline")
    assert [(row.cpu, row.cpu_assumed) for row in rows] == [(0, False), (2, False)]
    assert (rows[0].received_rps, rows[0].flow_limit, rows[0].backlog) == (7, 2, 3)


@pytest.mark.parametrize("name", ["9col_layout", "10col_layout", "11col_layout"])
def test_older_kernels_cpus_are_marked_as_assumed(name: str) -> None:
    assert [(row.cpu, row.cpu_assumed) for row in softnet(name)] == [(0, True), (1, True)]


def test_what_a_kernel_does_not_report_is_none() -> None:
    oldest, newer = softnet("9col_layout")[0], softnet("11col_layout")[0]
    assert (oldest.received_rps, oldest.flow_limit, oldest.backlog) == (None, None, None)
    assert (newer.received_rps, newer.flow_limit, newer.backlog) == (7, 2, None)


def test_fifteen_columns_are_known() -> None:
    rows = softnet("15col_k6.18")
    assert [(row.cpu, row.processed, row.time_squeeze) for row in rows] == [
        (0, 0x01CF4BE1, 12),
        (1, 0x01400B61, 4),
    ]
    assert (rows[0].input_queue, rows[0].process_queue) == (0, 0)


@pytest.mark.parametrize("text", ["0000 0001\n", "total 5 6 7\n"])
def test_another_softnet_file_is_refused(text: str) -> None:
    with pytest.raises(CapabilityMissingError, match="softnet_stat row 0"):
        parse_softnet(text)


def test_names_end_at_the_last_colon() -> None:
    rows = parse_netdev((INPUTS / "proc_net_dev_three_forms.txt").read_text())
    assert (rows["eth0"].rx_bytes, rows["eth0"].tx_packets) == (5_019_464_820, 12_498_214)
    assert rows["eth0"].rx_multicast == 34733
    assert rows["eth1"].rx_bytes == 9_371_883_121
    assert list(rows) == ["lo", "eth0", "eth1", "bond0:1", "tun10001:1", "tun999999", "wlan%d"]
    assert (rows["tun999999"].tx_dropped, rows["tun999999"].tx_fifo) == (15, 0)


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(CapabilityMissingError, match="has not 16 numbers"):
        parse_netdev("eth0: 1 2 3\n")
