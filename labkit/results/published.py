"""Published figures as typed rows: one record type a table of ``data/published``.

pps is packets per second. An empty cell is None. ``data/published/README.md`` says where each table is from.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from labkit.errors import WorkloadError
from labkit.paths import data_dir


class PublishedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a published table."""


Row = TypeVar("Row", bound=PublishedRow)


class RingCoalesceRow(PublishedRow, frozen=True, kw_only=True):
    """pktgen on ixgbe: TX ring size and rx-usecs (1 is the driver's dynamic mode)."""

    table: str
    kernel: str
    ring: int
    rx_usecs: int
    irqs_per_s: int | None
    pps: int


class PatchStepRow(PublishedRow, frozen=True, kw_only=True):
    """pktgen on ixgbe: one patch after the other; ns and differences as their author printed them."""

    series: str
    step: str
    ring: int
    rx_usecs: int
    pps: int | None
    ns_per_packet: float | None
    against: str | None
    difference_pps: int | None
    difference_ns: float | None
    note: str | None


class AfPacketFlushRow(PublishedRow, frozen=True, kw_only=True):
    """trafgen over an AF_PACKET ring: qdisc or bypass, tail flush at once or deferred."""

    generator: str
    path: str
    variant: str
    pps: int
    difference_ns: float | None
    against: str | None


class FlushRunRow(PublishedRow, frozen=True, kw_only=True):
    """One run of the A/B/C measurement of ndo_xmit_flush; the boot is named for the baseline only."""

    arm: str
    boot: int | None
    run: int
    samples_n: int
    average_pps: int
    instant_pps: int
    variation_ns: float
    variation_min_ns: float
    variation_max_ns: float
    note: str | None


class ConclusionRow(PublishedRow, frozen=True, kw_only=True):
    """What the author of the A/B/C measurement concluded; `unit` is that of `value`."""

    statement: str
    value: float
    unit: str


class GianfarRow(PublishedRow, frozen=True, kw_only=True):
    """netperf TCP stream on gianfar; service demand (sdem) in microseconds of CPU time per 1024 bytes."""

    image: int
    bql: str
    tx_napi: str
    tcp_limit_output_bytes: int
    coalescing: str
    run: int
    throughput_mbit: float
    cpu_local_pct: float
    cpu_remote_pct: float
    sdem_local_us_per_kb: float
    sdem_remote_us_per_kb: float


class NetifReceiveRow(PublishedRow, frozen=True, kw_only=True):
    """pktgen injecting into the receive path; `burst` as told (``>1`` without the number)."""

    device: str
    burst: str
    flags: str | None
    pps: int
    mbit_per_s: int
    bps: int
    errors: int


class ProfileShareRow(PublishedRow, frozen=True, kw_only=True):
    """Share of samples of one kernel function in a correct netif_receive run."""

    share_pct: float
    symbol: str


class ArithmeticRow(PublishedRow, frozen=True, kw_only=True):
    """A sum from a thread's prose; `value` as printed (once a range), in `unit`."""

    seed: str
    statement: str
    value: str
    unit: str
    how: str | None


class CommitMessageRow(PublishedRow, frozen=True, kw_only=True):
    """A figure from a kernel commit message."""

    source: str
    nic: str
    setting: str
    cpus: int
    pps: int


TABLES: Final[Mapping[str, type[PublishedRow]]] = {
    "ixgbe_ring_coalesce": RingCoalesceRow,
    "pktgen_patch_steps": PatchStepRow,
    "af_packet_flush": AfPacketFlushRow,
    "ab_ndo_xmit_flush": FlushRunRow,
    "ab_ndo_xmit_flush_conclusions": ConclusionRow,
    "gianfar_netperf": GianfarRow,
    "pktgen_netif_receive": NetifReceiveRow,
    "perf_profile_netif_receive": ProfileShareRow,
    "arithmetic": ArithmeticRow,
    "beyond_the_seeds": CommitMessageRow,
}
"""Every published table and the type of its rows."""


def published_table(name: str, folder: Path | None = None) -> list[PublishedRow]:
    """Rows of published table `name`, in the order printed.

    Parameters
    ----------
    name : str
        One of `TABLES`.
    folder : Path or None
        Where the CSV files are; None is the checkout's ``data/published``.

    Raises
    ------
    WorkloadError
        An unknown table; the message lists the known ones.
    """
    if name not in TABLES:
        raise WorkloadError(f"unknown published table '{name}'; known: {', '.join(TABLES)}")
    return published_rows(name, TABLES[name], folder)


def published_rows(name: str, row_type: type[Row], folder: Path | None = None) -> list[Row]:
    """The same as rows of `row_type`, the table's own type in `TABLES`."""
    path = (data_dir() / "published" if folder is None else folder) / f"{name}.csv"
    with path.open(newline="") as lines:
        return [
            msgspec.convert({name: cell or None for name, cell in line.items()}, row_type, strict=False)
            for line in csv.DictReader(lines)
        ]
