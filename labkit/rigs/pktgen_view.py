"""What the kernel's pktgen told of a run, as a trial tells it. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from labkit.engines.base import EngineReport
from labkit.engines.pktgen_told import PktgenTold

RECEIVED_ERRORS: Final = "dropped by the receive path, as is meant: they are for nobody here; counted as sent"


def pktgen_told(report: EngineReport) -> dict[str, Any]:
    """What stands under ``environment["pktgen"]``; nothing for other engines.

    ``accepted`` holds what the kernel took otherwise than asked, ``pps`` its own rate, all devices together.
    """
    told = report.pktgen
    if told is None:
        return {}
    seen: dict[str, Any] = {
        "xmit_mode": told.xmit_mode,
        "clone_skb": told.clone_skb,
        "burst": told.burst,
        "commands": told.commands,
        "accepted": _accepted(told),
        "frames_differ": told.frames_differ,
        "pps": sum(device.pps for device in told.devices),
        "idle_ns": sum(device.idle_ns for device in told.devices),
        "errors": sum(device.errors for device in told.devices),
        "beyond_count": sum(device.beyond_count for device in told.devices),
        "devices": [msgspec.to_builtins(device) for device in told.devices],
    }
    if told.xmit_mode == "netif_receive" and seen["errors"]:
        seen["errors_note"] = RECEIVED_ERRORS
    return {"pktgen": seen}


def ended_early(report: EngineReport) -> str | None:
    """Why pktgen ended before its count or time; None where it did not."""
    devices = [] if report.pktgen is None else report.pktgen.devices
    return "; ".join(dict.fromkeys(device.early for device in devices if device.early)) or None


def sent_bytes(report: EngineReport, asked_bytes: int) -> int:
    """Length of the frames that left: pktgen has a shortest one, which its tags lengthen."""
    told = report.pktgen
    if told is None or not told.one_size:
        return asked_bytes
    return max((device.size_bytes for device in told.devices if device.pps), default=asked_bytes)


def _accepted(told: PktgenTold) -> list[dict[str, str]]:
    """Each pair once, whichever worker's it is."""
    pairs = dict.fromkeys(pair for device in told.devices for pair in map(tuple, device.accepted))
    return [{"asked": asked, "accepted": accepted} for asked, accepted in pairs]
