"""Published rows as questions to the event loop: which machine, under which settings, sends what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.factors import Scalar
from labkit.results.published import (
    AfPacketFlushRow,
    CommitMessageRow,
    FlushRunRow,
    GianfarRow,
    NetifReceiveRow,
    PatchStepRow,
    RingCoalesceRow,
    published_rows,
)
from labkit.simnic.profile import Profile
from labkit.simnic.run import Run, Simulated
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S

Figure = Callable[[Profile, Simulated], float]

SHORT: Final = Run(duration_s=0.25, warmup_s=0.02)
"""Long enough for a million frames and more of pktgen."""
STREAM: Final = Run(duration_s=5.0, warmup_s=0.5)
"""A TCP stream at 50 000 segments a second."""

PKTGEN: Final = Sender(engine="pktgen")
PAYLOAD_BYTES: Final = 1448
"""TCP payload of a full segment: 1500 of MTU less 40 of headers and 12 of timestamps."""
SEGMENT_BYTES: Final = 1514
RECEIVE_BURST: Final = 1024
"""``>1`` in the thread; samples/pktgen/pktgen_bench_xmit_mode_netif_receive.sh: BURST=1024."""
RING_CALL_FRAMES: Final = 256
"""Frames that trafgen hands over in one call; nothing tells, and it hardly matters."""

RING_PROFILES: Final = {"v1-followup": "ixgbe", "baseline": "ixgbe@baseline"}
PATCH_PROFILES: Final = {
    ("v1", "baseline"): "ixgbe@baseline",
    ("v1", "patch2"): "ixgbe@baseline",
    ("v1", "patch3"): "ixgbe@v1-patch3",
    ("v1", "patch4"): "ixgbe@v1-patch4",
    ("v1", "patch5 no lock"): "ixgbe@v1-unlocked",
    ("v1", "patch5"): "ixgbe@v1",
    ("v1", "no HARD_TX_LOCK"): "ixgbe@v1-no-tx-lock",
    ("v2", "previous"): "ixgbe@baseline",
    ("v2", "patch2"): "ixgbe@v2-patch2",
    ("v2", "patch3"): "ixgbe@v2",
}
FLUSH_PROFILES: Final = {
    "baseline": "ixgbe-e5-2695",
    "infrastructure only": "ixgbe-e5-2695",
    "flush active": "ixgbe-e5-2695@xmit-flush",
    "ndo_xmit_flush per packet with mmiowb": "ixgbe-e5-2695@xmit-flush-mmiowb",
    "ndo_xmit_flush per packet without mmiowb": "ixgbe-e5-2695@xmit-flush",
    "flush threshold 8": "ixgbe-e5-2695@flush-8",
}
IMAGES: Final = {1: "gianfar", 2: "gianfar@image2", 3: "gianfar@image3"}
COALESCING: Final[Mapping[str, Mapping[str, int]]] = {
    "default": {"rx_usecs": 0, "rx_frames": 0, "tx_usecs": 10, "tx_frames": 16},
    "rx/tx 22 frames 32 usecs": {"rx_usecs": 32, "rx_frames": 22, "tx_usecs": 32, "tx_frames": 22},
}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure that the event loop answers.

    Attributes
    ----------
    file, table : str
        CSV file, and which of its tables.
    setting : dict
        What was set, for people.
    unit : str
        Of `published`.
    published : float
        The figure.
    profile : str
        Simulated machine.
    settings : mapping
        Settings of its device.
    sender : Sender
        What it sends.
    run : Run
        How long.
    figure : callable
        The same quantity out of the loop's answer.
    """

    file: str
    table: str
    setting: dict[str, Scalar]
    unit: str
    published: float
    profile: str
    settings: Mapping[str, Any]
    sender: Sender
    run: Run
    figure: Figure


def pps(_profile: Profile, found: Simulated) -> float:
    """Frames a second."""
    return found.pps or 0.0


def ns_each(_profile: Profile, found: Simulated) -> float:
    """Time of a frame in nanoseconds."""
    return found.elapsed_ns / found.sent


def interrupts(profile: Profile, found: Simulated) -> float:
    """Interrupts a second, those of others included."""
    own = sum(found.tx_interrupts) + sum(found.rx_interrupts)
    return own / found.elapsed_ns * NS_PER_S + profile.value("background_irqs_per_s")


def megabits(_profile: Profile, found: Simulated) -> float:
    """Payload of a TCP stream in 10⁶ bits a second."""
    return found.sent * PAYLOAD_BYTES * 8 / found.elapsed_ns * 1000


def busy_percent(_profile: Profile, found: Simulated) -> float:
    """Share of its CPU that the sender uses, in percent."""
    (counts,) = found.per_cpu
    idle = counts["idle_ps"] + counts["window_wait_ps"] + counts["ring_wait_ps"]
    return 100 * (1 - idle / counts["elapsed_ps"])


def service_demand(profile: Profile, found: Simulated) -> float:
    """Microseconds of CPU time for 1024 bytes of payload, as netperf counts it."""
    kilobytes_per_s = megabits(profile, found) * 1e6 / 8 / 1024
    return busy_percent(profile, found) / 100 * 1e6 / kilobytes_per_s


def cases(folder: Path | None = None) -> Iterator[Case]:
    """Every published figure that the loop answers, table by table."""
    for name, row_type, of_row in OF_ROW:
        for row in published_rows(name, row_type, folder):
            yield from of_row(row)


def _ring(row: RingCoalesceRow) -> Iterator[Case]:
    setting: dict[str, Scalar] = {"tx_ring": row.ring, "rx_usecs": row.rx_usecs}
    case = Case(
        file="ixgbe_ring_coalesce",
        table=row.table,
        setting=setting,
        unit="pps",
        published=row.pps,
        profile=RING_PROFILES[row.kernel],
        settings=setting,
        sender=PKTGEN,
        run=SHORT,
        figure=pps,
    )
    yield case
    if row.irqs_per_s is not None:
        yield msgspec.structs.replace(case, unit="irqs/s", published=row.irqs_per_s, figure=interrupts)


def _patch_step(row: PatchStepRow) -> Iterator[Case]:
    if row.pps is None:
        return
    yield Case(
        file="pktgen_patch_steps",
        table="pktgen_patch_steps",
        setting={"series": row.series, "step": row.step, "tx_ring": row.ring, "rx_usecs": row.rx_usecs},
        unit="ns/packet",
        published=NS_PER_S / row.pps,
        profile=PATCH_PROFILES[row.series, row.step],
        settings={"tx_ring": row.ring, "rx_usecs": row.rx_usecs},
        sender=PKTGEN,
        run=SHORT,
        figure=ns_each,
    )


def _trafgen(row: AfPacketFlushRow) -> Iterator[Case]:
    yield Case(
        file="af_packet_flush",
        table="af_packet_flush",
        setting={"path": row.path, "variant": row.variant},
        unit="pps",
        published=row.pps,
        profile=FLUSH_PROFILES[row.variant],
        settings={},
        sender=Sender(engine="tx_ring", batch=RING_CALL_FRAMES, qdisc_bypass=row.path == "qdisc bypass"),
        run=SHORT,
        figure=pps,
    )


def _flush_run(row: FlushRunRow) -> Iterator[Case]:
    yield Case(
        file="ab_ndo_xmit_flush",
        table=row.arm,
        setting={"arm": row.arm, "run": row.run, "rx_usecs": 30},
        unit="pps",
        published=row.average_pps,
        profile=FLUSH_PROFILES[row.arm],
        settings={"rx_usecs": 30},
        sender=PKTGEN,
        run=SHORT,
        figure=pps,
    )


def _gianfar(row: GianfarRow) -> Iterator[Case]:
    limit = {"tcp_limit_output_bytes": row.tcp_limit_output_bytes}
    case = Case(
        file="gianfar_netperf",
        table=f"image {row.image}",
        setting={"coalescing": row.coalescing, "run": row.run, **limit},
        unit="Mbit/s",
        published=row.throughput_mbit,
        profile=IMAGES[row.image],
        settings={"tx_ring": 64, "rx_ring": 64, **COALESCING[row.coalescing], **limit},
        sender=Sender(engine="tcp", frame_bytes=SEGMENT_BYTES),
        run=STREAM,
        figure=megabits,
    )
    yield case
    yield msgspec.structs.replace(case, unit="CPU %", published=row.cpu_local_pct, figure=busy_percent)
    yield msgspec.structs.replace(
        case, unit="us/KB", published=row.sdem_local_us_per_kb, figure=service_demand
    )


def _receive(row: NetifReceiveRow) -> Iterator[Case]:
    burst = RECEIVE_BURST if row.burst == ">1" else 1
    yield Case(
        file="pktgen_netif_receive",
        table="pktgen_netif_receive",
        setting={"device": row.device, "burst": row.burst},
        unit="pps",
        published=row.pps,
        profile="pktgen-receive",
        settings={},
        sender=Sender(engine="pktgen", xmit_mode="netif_receive", batch=burst),
        run=SHORT,
        figure=pps,
    )


def _commit(row: CommitMessageRow) -> Iterator[Case]:
    case = Case(
        file="beyond_the_seeds",
        table=row.source.removeprefix("kernel commit "),
        setting={"setting": row.setting, "cpus": row.cpus},
        unit="pps",
        published=row.pps,
        profile="ixgbe-af-packet",
        settings={},
        sender=Sender(
            engine="tx_ring", batch=RING_CALL_FRAMES, cpus=row.cpus, qdisc_bypass="bypass" in row.setting
        ),
        run=SHORT,
        figure=pps,
    )
    if not row.setting.startswith("pktgen burst"):
        yield case
        return
    burst = int(row.setting.split()[2])
    yield msgspec.structs.replace(
        case,
        profile="ixgbe@burst",
        settings={"rx_usecs": 30},
        sender=Sender(engine="pktgen", batch=burst),
    )


OF_ROW: Final[tuple[tuple[str, Any, Callable[[Any], Iterator[Case]]], ...]] = (
    ("ixgbe_ring_coalesce", RingCoalesceRow, _ring),
    ("pktgen_patch_steps", PatchStepRow, _patch_step),
    ("af_packet_flush", AfPacketFlushRow, _trafgen),
    ("ab_ndo_xmit_flush", FlushRunRow, _flush_run),
    ("gianfar_netperf", GianfarRow, _gianfar),
    ("pktgen_netif_receive", NetifReceiveRow, _receive),
    ("beyond_the_seeds", CommitMessageRow, _commit),
)
"""Tables with runs, the type of their rows, and what a row asks the loop."""
