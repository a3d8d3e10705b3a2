"""Published rows that no run of the event loop answers: sums, conclusions, and what stays open."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from labkit.experiment.published import PublishedPoint
from labkit.experiment.published_cases import PAYLOAD_BYTES, SEGMENT_BYTES, SHORT
from labkit.factors import Scalar
from labkit.paths import data_dir
from labkit.results.published import ArithmeticRow, ConclusionRow, GianfarRow, ProfileShareRow, published_rows
from labkit.rigs.profiles import load_profiles
from labkit.simnic.drain import drain_ns, ring_bytes
from labkit.simnic.law import interrupt_period_ns
from labkit.simnic.loop import simulate
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S, line_rate_pps, percent_error

TEN_GIGABIT: Final = 10_000_000_000
NS_PER_MS: Final = 1_000_000
TX_BUFFER_BYTES: Final = 48
"""struct ixgbe_tx_buffer in 2014, as the thread says."""
JUMBO_BYTES: Final = 9000
STANDARD_BYTES: Final = 1538
TSO_FRAMES: Final = 44
"""Ethernet frames that leave for one TSO frame of 64 KB, as the thread says."""

UNTOLD: Final = {
    "qdisc path cost from an older talk": "another machine and kernel, of which nothing else is told",
    "p1020rdb before": "a board with two cores, of which nothing else is told; the rate oscillated",
}
NO_FUNCTIONS: Final = (
    "the loop knows what pktgen and the receive path cost, not which kernel function it is in"
)
NO_VARIATION: Final = "two runs of the loop are the same; how far apart real ones are it cannot tell"
NO_PEER: Final = "the peer's CPU is not simulated"


def unsimulated(simulated: Sequence[PublishedPoint], folder: Path | None = None) -> Iterator[PublishedPoint]:
    """Points that `labkit.experiment.published_cases` leaves out; `simulated` are the others."""
    yield from _patch_costs(simulated)
    yield from _conclusions(simulated, folder)
    for peer in published_rows("gianfar_netperf", GianfarRow, folder):
        limit = {"tcp_limit_output_bytes": peer.tcp_limit_output_bytes}
        setting: dict[str, Scalar] = {"coalescing": peer.coalescing, "run": peer.run, **limit}
        for unit, value in (("CPU %", peer.cpu_remote_pct), ("us/KB", peer.sdem_remote_us_per_kb)):
            point = _open("gianfar_netperf", setting, f"remote {unit}", value, NO_PEER)
            yield msgspec.structs.replace(point, table=f"image {peer.image}")
    for share in published_rows("perf_profile_netif_receive", ProfileShareRow, folder):
        yield _open(
            "perf_profile_netif_receive", {"symbol": share.symbol}, "%", share.share_pct, NO_FUNCTIONS
        )
    yield from _arithmetic(folder)


def _patch_costs(simulated: Sequence[PublishedPoint]) -> Iterator[PublishedPoint]:
    """The one row of the patch steps without a rate: what RCU costs."""
    steps = {point.setting["step"]: point.lab for point in simulated if point.file == "pktgen_patch_steps"}
    with_rcu, without = steps["patch5"], steps["patch5 no lock"]
    if with_rcu is not None and without is not None:
        cost: dict[str, Scalar] = {"series": "v1", "step": "RCU cost"}
        yield _sum("pktgen_patch_steps", cost, "ns/packet", 1.90, with_rcu - without, fitted=True)


def _conclusions(simulated: Sequence[PublishedPoint], folder: Path | None) -> Iterator[PublishedPoint]:
    file = "ab_ndo_xmit_flush_conclusions"
    arms: dict[str, list[float]] = {}
    for point in simulated:
        if point.file == "ab_ndo_xmit_flush" and point.lab is not None:
            arms.setdefault(point.table, []).append(point.lab)
    pps = {arm: statistics.mean(rates) for arm, rates in arms.items()}
    for row in published_rows(file, ConclusionRow, folder):
        setting = {"statement": row.statement}
        if "below accuracy" in row.statement:
            yield _open(file, setting, row.unit, row.value, NO_VARIATION)
            continue
        arm = next((name for name in pps if row.statement.startswith(name)), None)
        if arm is None:
            yield _open(file, setting, row.unit, row.value, NO_VARIATION)
        elif row.unit == "pps":
            yield _sum(file, setting, row.unit, row.value, pps[arm], fitted=arm == "baseline")
        else:
            yield _sum(file, setting, row.unit, row.value, NS_PER_S / pps["baseline"] - NS_PER_S / pps[arm])


def _arithmetic(folder: Path | None) -> Iterator[PublishedPoint]:
    answers = _sums()
    for row in published_rows("arithmetic", ArithmeticRow, folder):
        setting = {"statement": row.statement}
        if row.statement in answers:
            lab, fitted = answers[row.statement]
            yield _sum("arithmetic", setting, row.unit, float(row.value), lab, fitted=fitted)
        else:
            published = float(row.value) if row.value.replace(".", "").isdigit() else None
            yield _open("arithmetic", setting, row.unit, published, UNTOLD[row.statement])


def _sums() -> dict[str, tuple[float, bool]]:
    """The lab's value of each statement, and whether it was fitted on what the statement is about."""
    profiles = load_profiles(data_dir() / "profiles")
    trafgen, receive = profiles["ixgbe-e5-2695"], profiles["pktgen-receive"]
    stack = Sender(engine="pktgen", clone_skb=0, xmit_mode="queue_xmit")
    unburst = Sender(engine="pktgen", xmit_mode="netif_receive")
    line_mbit = (
        line_rate_pps(SEGMENT_BYTES, profiles["gianfar"].value("link_bits_per_s")) * PAYLOAD_BYTES * 8 / 1e6
    )
    each = [
        simulate(receive, {}, sender, SHORT).elapsed_ns / simulate(receive, {}, sender, SHORT).sent
        for sender in (unburst, Sender(engine="pktgen", xmit_mode="netif_receive", batch=1024))
    ]
    drains = {
        "drain of 1024 jumbo frames of 9000 B at 10 Gbit/s": (1024, JUMBO_BYTES),
        "drain of 512 jumbo frames of 9000 B at 10 Gbit/s": (512, JUMBO_BYTES),
        "drain of 1024 frames of 1538 B at 10 Gbit/s": (1024, STANDARD_BYTES),
        "drain of 1024 TSO frames of 64 KB at 10 Gbit/s": (1024 * TSO_FRAMES, STANDARD_BYTES),
    }
    return {
        **{what: (drain_ns(*full, TEN_GIGABIT) / NS_PER_MS, False) for what, full in drains.items()},
        "ring of 512 tx buffers of 48 B": (ring_bytes(512, TX_BUFFER_BYTES), False),
        "ring of 1024 tx buffers of 48 B": (ring_bytes(1024, TX_BUFFER_BYTES), False),
        "full stack on one queue with 60 B packets": (simulate(trafgen, {}, stack, SHORT).pps or 0, False),
        "interrupts at rx-usecs 30": (NS_PER_S / interrupt_period_ns(profiles["ixgbe"], 30), False),
        "qdisc path cost with trafgen": (trafgen.value("qdisc_ns"), True),
        "burst 0 against burst": (each[0] - each[1], True),
        "p1020rdb after Tx NAPI": (line_mbit, False),
        "p2020rdb with and without Tx NAPI": (line_mbit, False),
    }


def _sum(
    file: str,
    setting: Mapping[str, Scalar],
    unit: str,
    published: float | None,
    lab: float | None,
    *,
    fitted: bool = False,
    reason: str | None = None,
) -> PublishedPoint:
    """A figure and the lab's; without the lab's, the reason."""
    return PublishedPoint(
        file=file,
        table=file,
        setting=dict(setting),
        unit=unit,
        published=published,
        lab=lab,
        error=None if lab is None or published is None else percent_error(lab, published),
        fitted=fitted,
        reason=reason,
    )


def _open(
    file: str, setting: Mapping[str, Scalar], unit: str, published: float | None, reason: str
) -> PublishedPoint:
    return _sum(file, setting, unit, published, None, reason=reason)
