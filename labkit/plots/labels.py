"""Words on figures: what each name means, in which unit, and how a number of it is written."""

from __future__ import annotations

import math
from typing import Final

from labkit.factors import SETTING_NAMES, Scalar

_UNITS: Final = {
    "_usecs": "µs",
    "_ns": "ns",
    "_ring": "descriptors",
    "_frames": "frames",
    "_bytes": "bytes",
    "_len": "bytes",
    "_channels": "queues",
}
"""Units of settings by the end of their names."""
TITLES: Final = {
    **{
        name: (name.replace("_", "-"), next((u for end, u in _UNITS.items() if name.endswith(end)), None))
        for name in SETTING_NAMES
    },
    "tx_ring": ("TX ring", "descriptors"),
    "rx_ring": ("RX ring", "descriptors"),
    "rx_usecs": ("rx-usecs", "µs"),
    "tx_usecs": ("tx-usecs", "µs"),
    "rx_frames": ("rx-frames", "frames"),
    "tx_frames": ("tx-frames", "frames"),
    "adaptive_rx": ("adaptive RX", None),
    "adaptive_tx": ("adaptive TX", None),
    "channels": ("channels", "queues"),
    "txqueuelen": ("txqueuelen", "packets"),
    "qdisc": ("queueing discipline", None),
    "qdisc_limit": ("qdisc limit", "packets or bytes"),
    "qdisc_rate_bps": ("qdisc rate", "bit/s"),
    "mtu": ("MTU", "bytes"),
    "engine": ("engine", None),
    "sink": ("sink", None),
    "frame_bytes": ("frame without FCS", "bytes"),
    "batch": ("batch", "frames a call"),
    "rate_pps": ("asked rate", "packets/s"),
    "qdisc_bypass": ("qdisc bypass", None),
    "cpu": ("CPU", None),
    "cpus": ("sending CPUs", None),
    "ring_frames": ("sender's ring", "frames"),
    "stamp": ("stamped", None),
    "realtime_priority": ("real-time priority", None),
    "sink_cpu": ("sink's CPU", None),
    "sink_sockets": ("sink's sockets", None),
    "sink_block_bytes": ("sink's block", "bytes"),
    "sink_retire_ms": ("retire time-out", "ms"),
    "clone_skb": ("clone-skb", "frames a buffer"),
    "xmit_mode": ("xmit mode", None),
    "delay_ns": ("delay", "ns"),
    "pktgen": ("pktgen", None),
    "message_bytes": ("bytes a write", "bytes"),
    "pps": ("packets/s", None),
    "ns_per_packet": ("time a packet", "ns"),
    "elapsed_ns": ("elapsed", "ns"),
    "cpu_ns": ("CPU time", "ns"),
    "error_percent": ("error", "%"),
}
STAGES: Final = {"_accepted": ", read back", "_effective": ", effective"}
SI_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def of_machine(heading: str, caveat: str | None) -> str:
    """`heading` of a figure, which says so where nobody ever measured the machine, or it is emulated."""
    return heading if caveat is None else f"{heading} ({caveat})"


def title(name: str) -> str:
    """Axis title with the unit: ``rx-usecs (µs)``; a name without an entry speaks for itself."""
    for suffix, words in STAGES.items():
        if name.endswith(suffix):
            return _titled(name.removesuffix(suffix), words)
    return _titled(name, "")


def _titled(name: str, stage: str) -> str:
    words, unit = TITLES.get(name, (name.replace("_", " "), None))
    return f"{words}{stage} ({unit})" if unit else f"{words}{stage}"


def level_text(level: Scalar) -> str:
    """Level as the axis shows it: ``on`` for True, ``default`` for None."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return "default" if level is None else f"{level:g}" if isinstance(level, float) else str(level)


def value_text(number: float | None, name: str) -> str:
    """Number as a cell or label shows it: ``5.36 M``, ``186.5``, ``+0.12`` percent; empty when none."""
    if number is None or not math.isfinite(number):
        return ""
    if name == "error_percent":
        return f"{number:+.2f}"  # the heading names the unit: a narrow cell has no room for it
    for size, prefix in SI_PREFIXES:
        if abs(number) >= size:
            # '#' keeps the zeros of 5.50, and a bare point behind 550
            return f"{number / size:#.3g}".removesuffix(".") + f" {prefix}"
    return f"{number:.4g}"


def drawable(number: float | None) -> float | None:
    """Turn what JSON and plotly can't draw (NaN, infinity) into a gap."""
    return number if number is not None and math.isfinite(number) else None
