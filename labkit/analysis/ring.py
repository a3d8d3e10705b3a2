"""What lies in a TX ring: how long it takes to drain, which part delays packets, and what BQL changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from labkit.simnic.drain import drain_ns
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.run import Run, Zones
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S, NS_PER_US, line_rate_pps, wire_bytes

LINKS: Final = {
    "10G": 10_000_000_000,
    "25G": 25_000_000_000,
    "40G": 40_000_000_000,
    "100G": 100_000_000_000,
}
"""Speeds in bits per second that a packet's time is held against."""

NS_PER_MS: Final = 1_000_000
SETTLED: Final = Run(duration_s=0.1, warmup_s=0.05)
"""Long enough for some 800 interrupts of the slowest moderation, behind the time that dynamic modes take."""


def wire_budget(frame_bytes: int = 60, *, on_wire: float | None = None) -> dict[str, float]:
    """Nanoseconds that a frame of `frame_bytes` (no FCS) takes on the wire, by speed: 67.2 to 6.72 at 60.

    `on_wire` is its length there when that is no frame's own, but the mean of a mix.
    """
    bits = 8 * (wire_bytes(frame_bytes) if on_wire is None else on_wire)
    return {name: bits * NS_PER_S / speed for name, speed in LINKS.items()}


class DrainCase(msgspec.Struct, frozen=True, kw_only=True):
    """A full ring as a thread worked it out; `statement` is its line in ``data/published/arithmetic.csv``."""

    statement: str
    descriptors: int
    frames_each: int
    bytes_each: int
    note: str


DRAIN_CASES: Final = (
    DrainCase(
        statement="drain of 1024 jumbo frames of 9000 B at 10 Gbit/s",
        descriptors=1024,
        frames_each=1,
        bytes_each=9000,
        note="no overhead on the wire counted",
    ),
    DrainCase(
        statement="drain of 512 jumbo frames of 9000 B at 10 Gbit/s",
        descriptors=512,
        frames_each=1,
        bytes_each=9000,
        note="no overhead on the wire counted",
    ),
    DrainCase(
        statement="drain of 1024 frames of 1538 B at 10 Gbit/s",
        descriptors=1024,
        frames_each=1,
        bytes_each=1538,
        note="1500 bytes and 38 of Ethernet",
    ),
    DrainCase(
        statement="drain of 1024 TSO frames of 64 KB at 10 Gbit/s",
        descriptors=1024,
        frames_each=44,
        bytes_each=1538,
        note="about 44 Ethernet frames each",
    ),
)
"""The four full rings of the published threads."""


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Time until the last byte of full rings has left, in milliseconds: what a new packet may wait."""

    case: DrainCase
    link_bits_per_s: float
    queues: int
    ms: float


def drain_ms(
    descriptors: int,
    bytes_each: int,
    *,
    frames_each: int = 1,
    link_bits_per_s: float = LINKS["10G"],
    queues: int = 1,
) -> float:
    """Milliseconds that full rings take to drain; queues share the wire, so each adds its ring.

    Parameters
    ----------
    descriptors : int
        Of one ring, all in use.
    bytes_each : int
        Bytes that one frame takes on the wire.
    frames_each : int
        Frames that the card makes of one descriptor (TSO).
    link_bits_per_s : float
        Speed of the wire.
    queues : int
        Rings that are full at once.
    """
    frames = descriptors * frames_each
    return drain_ns(frames, bytes_each, link_bits_per_s, queues=queues) / NS_PER_MS


def drains(*, link_bits_per_s: float = LINKS["10G"], queues: int = 1) -> tuple[Drain, ...]:
    """Each of `DRAIN_CASES` at a speed and with so many queues."""
    return tuple(
        Drain(
            case=case,
            link_bits_per_s=link_bits_per_s,
            queues=queues,
            ms=drain_ms(
                case.descriptors,
                case.bytes_each,
                frames_each=case.frames_each,
                link_bits_per_s=link_bits_per_s,
                queues=queues,
            ),
        )
        for case in DRAIN_CASES
    )


class RingZones(msgspec.Struct, frozen=True, kw_only=True):
    """A ring's descriptors on average over time: only those that wait for the wire delay a new packet.

    Attributes
    ----------
    label : str
        What it is, for a figure's axis.
    tx_ring : int
        All descriptors.
    waiting, uncleaned, free : float
        Not yet on the wire; sent, and waiting for the cleaner; the rest.
    frame_bytes : int
        Of each frame, without FCS.
    wire_ns : float
        Time of one frame on the wire.
    """

    label: str
    tx_ring: int
    waiting: float
    uncleaned: float
    free: float
    frame_bytes: int
    wire_ns: float

    @property
    def bytes_ahead(self) -> float:
        """Bytes that a new packet finds before it."""
        return self.waiting * self.frame_bytes

    @property
    def delay_us(self) -> float:
        """Microseconds until these are gone."""
        return self.waiting * self.wire_ns / NS_PER_US

    @property
    def drain_us(self) -> float:
        """Microseconds that the whole ring would take if every descriptor waited for the wire."""
        return self.tx_ring * self.wire_ns / NS_PER_US

    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.waiting:.1f} of {self.tx_ring} descriptors wait for the wire and delay a new packet by "
            f"{self.delay_us:.2f} us; {self.uncleaned:.0f} are sent and not yet cleaned, which delays none; "
            f"{self.free:.0f} are free"
        )

    def __repr__(self) -> str:
        return f"<RingZones {self.label}: {self.text()}>"


def zones_of(label: str, tx_ring: int, zones: Zones, frame_bytes: int, link_bits_per_s: float) -> RingZones:
    """The event loop's zones with what is needed to read them."""
    return RingZones(
        label=label,
        tx_ring=tx_ring,
        waiting=zones.waiting,
        uncleaned=zones.uncleaned,
        free=zones.free,
        frame_bytes=frame_bytes,
        wire_ns=NS_PER_S / line_rate_pps(frame_bytes, link_bits_per_s),
    )


def ring_label(settings: Mapping[str, Any], ring: int, frame_bytes: int) -> str:
    """A ring, its interval and its frames in a few words."""
    usecs = settings.get("rx_usecs")
    interval = f", rx-usecs {usecs}" if usecs is not None else ""
    return f"ring {ring}{interval}, {frame_bytes} B"


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """What a new packet finds before it, without and with byte queue limits, under the same settings.

    Attributes
    ----------
    without, limited : RingZones
        pktgen, which ignores the stack's stop, and the same through the stack, which heeds it.
    bql_limit_bytes : int or None
        Where BQL's limit came to rest; None where the kernel has no BQL.
    without_pps, limited_pps : float
        Packets per second of the two.
    """

    without: RingZones
    limited: RingZones
    bql_limit_bytes: int | None
    without_pps: float
    limited_pps: float

    def __repr__(self) -> str:
        return (
            f"<Ahead of a new packet: {self.without.bytes_ahead:,.0f} bytes, {self.without.delay_us:.1f} us; "
            f"with BQL (limit {self.bql_limit_bytes} bytes) {self.limited.bytes_ahead:,.0f} bytes, "
            f"{self.limited.delay_us:.1f} us>"
        )


def bytes_ahead(profile: Profile, settings: Mapping[str, Any], frame_bytes: int) -> Ahead:
    """Send `frame_bytes` as fast as possible without and with byte queue limits, by the event loop.

    Parameters
    ----------
    profile : Profile
        The machine; it must answer pktgen and know what its qdisc path costs.
    settings : mapping of str to value
        What its driver accepted.
    frame_bytes : int
        Frame length without FCS.
    """
    past = Sender(engine="pktgen", frame_bytes=frame_bytes)
    through = msgspec.structs.replace(past, xmit_mode="queue_xmit")
    answers = [simulate(profile, settings, sender, SETTLED) for sender in (past, through)]
    ring = settings.get("tx_ring", profile.driver.defaults["tx_ring"])
    link = profile.value("link_bits_per_s")
    label = ring_label(settings, ring, frame_bytes)
    labels = (label, f"{label}, BQL")
    zones = [
        zones_of(label, ring, answer.zones, frame_bytes, link)
        for label, answer in zip(labels, answers, strict=True)
    ]
    return Ahead(
        without=zones[0],
        limited=zones[1],
        bql_limit_bytes=answers[1].bql_limit_bytes,
        without_pps=answers[0].pps or 0.0,
        limited_pps=answers[1].pps or 0.0,
    )
