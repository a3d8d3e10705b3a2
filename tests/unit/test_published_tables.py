"""The published tables are complete, typed, and agree with themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit.errors import WorkloadError
from labkit.paths import data_dir
from labkit.results.published import TABLES, published_table

ROWS = {
    "ixgbe_ring_coalesce": 36,
    "pktgen_patch_steps": 11,
    "af_packet_flush": 6,
    "ab_ndo_xmit_flush": 14,
    "ab_ndo_xmit_flush_conclusions": 9,
    "gianfar_netperf": 24,
    "pktgen_netif_receive": 5,
    "perf_profile_netif_receive": 4,
    "arithmetic": 14,
    "beyond_the_seeds": 13,
}
PRINTED_ROUNDING_NS = 0.011
"""Some of the authors' figures are cut off, not rounded: up to 0.01 ns."""


def rows(name: str) -> list[Any]:
    return list(published_table(name))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_reads_into_typed_rows(name: str) -> None:
    assert len(rows(name)) == ROWS[name]


def test_every_file_is_a_known_table_and_named_in_the_readme() -> None:
    folder = data_dir() / "published"
    assert {path.stem for path in folder.glob("*.csv")} == set(TABLES)
    readme = (folder / "README.md").read_text()
    assert [name for name in TABLES if f"| {name}.csv |" not in readme] == []


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(WorkloadError, match=r"unknown published table 'nosuch'.*gianfar_netperf"):
        published_table("nosuch")


def test_an_empty_cell_is_absent_not_zero(tmp_path: Path) -> None:
    (tmp_path / "ixgbe_ring_coalesce.csv").write_text(
        "table,kernel,ring,rx_usecs,irqs_per_s,pps\nt,k,512,1,,7\n"
    )
    (row,) = published_table("ixgbe_ring_coalesce", tmp_path)
    assert row.irqs_per_s is None  # type: ignore[attr-defined]
    assert row.pps == 7  # type: ignore[attr-defined]


def test_patch_steps_print_ns_as_the_inverse_of_pps() -> None:
    checked = [row for row in rows("pktgen_patch_steps") if row.pps and row.ns_per_packet]
    assert len(checked) == 9
    for row in checked:
        assert row.ns_per_packet == pytest.approx(1e9 / row.pps, abs=PRINTED_ROUNDING_NS), row


def test_patch_steps_differ_by_what_they_say() -> None:
    steps = {(row.series, row.step): row for row in rows("pktgen_patch_steps")}
    checked = 0
    for row in steps.values():
        if row.against and row.pps and row.difference_ns:
            before = steps[row.series, row.against]
            assert row.difference_ns == pytest.approx(
                1e9 / row.pps - 1e9 / before.pps, abs=2 * PRINTED_ROUNDING_NS
            ), row
            assert row.difference_pps in (None, row.pps - before.pps), row
            checked += 1
    assert checked == 7


def test_flush_differences_follow_from_the_rates() -> None:
    table = {(row.path, row.variant): row for row in rows("af_packet_flush")}
    against = {
        "baseline": table["qdisc bypass", "baseline"],
        "bypass baseline": table["qdisc bypass", "baseline"],
        "qdisc baseline": table["qdisc path", "baseline"],
    }
    for row in table.values():
        if row.difference_ns is not None:
            saved_ns = 1e9 / against[row.against].pps - 1e9 / row.pps
            assert row.difference_ns == pytest.approx(saved_ns, abs=0.1), row


def test_conclusions_of_the_ab_runs_follow_from_the_runs() -> None:
    said = {row.statement: row.value for row in rows("ab_ndo_xmit_flush_conclusions")}
    means = {}
    for arm, runs in (("baseline", 6), ("infrastructure only", 4), ("flush active", 4)):
        averages = [row.average_pps for row in rows("ab_ndo_xmit_flush") if row.arm == arm]
        assert len(averages) == runs
        means[arm] = sum(averages) / runs
        assert said[f"{arm} average of {runs} runs"] == pytest.approx(means[arm], abs=1)
    base_ns = 1e9 / means["baseline"]
    assert base_ns - 1e9 / means["flush active"] == pytest.approx(
        said["flush active against baseline"], abs=0.02
    )
    infrastructure = "infrastructure only against baseline (below accuracy by the author's judgement)"
    assert base_ns - 1e9 / means["infrastructure only"] == pytest.approx(said[infrastructure], abs=0.02)


def test_bits_per_second_are_480_a_frame_of_60_bytes() -> None:
    for row in rows("pktgen_netif_receive"):
        assert row.bps == pytest.approx(row.pps * 480, abs=480), row
        assert row.mbit_per_s == row.bps // 1_000_000, row


@pytest.mark.parametrize("side", ["local", "remote"])
def test_service_demand_times_kilobytes_is_the_cpu_share(side: str) -> None:
    for row in rows("gianfar_netperf"):
        kilobytes_per_s = row.throughput_mbit * 1e6 / 8 / 1024
        busy_us = getattr(row, f"sdem_{side}_us_per_kb") * kilobytes_per_s
        assert busy_us / 1e6 * 100 == pytest.approx(getattr(row, f"cpu_{side}_pct"), rel=0.002), row


def test_sums_in_the_prose_can_be_worked_out_again() -> None:
    said = {row.statement: row.value for row in rows("arithmetic")}
    bypass, qdisc = (
        next(row.pps for row in rows("af_packet_flush") if (row.path, row.variant) == (path, "baseline"))
        for path in ("qdisc bypass", "qdisc path")
    )
    fastest, unburst = max(row.pps for row in rows("pktgen_netif_receive")), 3_938_513
    worked_out = {
        "drain of 1024 jumbo frames of 9000 B at 10 Gbit/s": 9000 * 8 / 10e9 * 1024 * 1e3,
        "drain of 512 jumbo frames of 9000 B at 10 Gbit/s": 9000 * 8 / 10e9 * 512 * 1e3,
        "drain of 1024 frames of 1538 B at 10 Gbit/s": 1538 * 8 / 10e9 * 1024 * 1e3,
        "drain of 1024 TSO frames of 64 KB at 10 Gbit/s": 44 * 1538 * 8 / 10e9 * 1024 * 1e3,
        "ring of 512 tx buffers of 48 B": 512 * 48,
        "ring of 1024 tx buffers of 48 B": 1024 * 48,
        "interrupts at rx-usecs 30": 1 / 30e-6,
        "qdisc path cost with trafgen": 1e9 / qdisc - 1e9 / bypass,
        "burst 0 against burst": 1e9 / unburst - 1e9 / fastest,
    }
    for statement, value in worked_out.items():
        assert float(said[statement]) == pytest.approx(value, rel=0.01), statement
    untold = {"full stack on one queue with 60 B packets", "qdisc path cost from an older talk"}
    assert set(said) - set(worked_out) == untold | {name for name in said if "p10" in name or "p20" in name}
