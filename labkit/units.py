"""The only place where one unit becomes another. Pure arithmetic: no clock, no file.

Absent values stay absent: every conversion of ``None`` is a ``TypeError`` by nature, never 0.
"""

from __future__ import annotations

NS_PER_S = 1_000_000_000
NS_PER_US = 1_000

FCS_BYTES = 4
"""Frame check sequence; ``frame_bytes`` excludes it."""

MIN_WIRE_FRAME_BYTES = 64
"""Shortest frame on the wire, FCS included (IEEE 802.3)."""

PREAMBLE_AND_GAP_BYTES = 20
"""Preamble, start delimiter (8) and inter-frame gap (12)."""

ETHERNET_HEADER_BYTES = 14
VLAN_TAG_BYTES = 4
MIN_FRAME_BYTES = 60
"""Frames are padded to this by default: 64 on the wire less the FCS."""


def wire_bytes(frame_bytes: int) -> int:
    """Bytes that a frame of `frame_bytes` (no FCS) occupies on the wire, preamble and gap included."""
    return max(frame_bytes + FCS_BYTES, MIN_WIRE_FRAME_BYTES) + PREAMBLE_AND_GAP_BYTES


def line_rate_pps(frame_bytes: int, link_bits_per_s: float) -> float:
    """Packets per second that fill a link of `link_bits_per_s`: 60 B at 10G is 14 880 952."""
    return link_bits_per_s / (8 * wire_bytes(frame_bytes))


def gbit_per_s(pps: float, on_wire: float) -> float:
    """Gigabits per second of `pps` packets that take `on_wire` bytes each."""
    return pps * 8 * on_wire / 1e9


def ns_per_packet(pps: float) -> float | None:
    """Nanoseconds a packet at `pps` packets per second; None at 0, which no packet took."""
    return NS_PER_S / pps if pps > 0 else None


def rate_pps(packets: int, elapsed_ns: int) -> float | None:
    """Packets per second of `packets` in `elapsed_ns`; None when no time passed."""
    return packets * NS_PER_S / elapsed_ns if elapsed_ns > 0 else None


def seconds_to_ns(seconds: float) -> int:
    """Whole nanoseconds in `seconds`."""
    return round(seconds * NS_PER_S)


def ns_to_seconds(nanoseconds: int) -> float:
    """Seconds in `nanoseconds`."""
    return nanoseconds / NS_PER_S


def percent_error(measured: float, reference: float) -> float:
    """Difference of `measured` from `reference` in percent of `reference`."""
    return (measured - reference) / reference * 100
