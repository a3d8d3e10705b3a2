"""Lengths of frames that are not all of one length. Standard library only."""

from __future__ import annotations

from collections import Counter
from typing import Any

from labkit.records import Frames
from labkit.units import wire_bytes

LISTED_IN_FULL = 16
"""So many lengths are told one by one."""


def sizes_of(frames: Frames) -> dict[str, Any]:
    """Longest and mean length in bytes, and the mean on the wire, as plain JSON values.

    The mean on the wire is that of every frame's own `wire_bytes`: short frames are padded there, so that it
    is not the wire length of the mean frame. Packets per second of a mix times 8 times this are its bits per
    second. `sizes` says how many frames have which length, when there are few lengths.
    """
    counted = Counter(memoryview(frames.lengths).cast("I").tolist())
    listed = (
        {str(size): counted[size] for size in sorted(counted)} if len(counted) <= LISTED_IN_FULL else None
    )
    return {
        "frames": len(frames),
        "frame_bytes": frames.longest_bytes,
        "shortest_frame_bytes": frames.shortest_bytes,
        "mean_frame_bytes": sum(size * n for size, n in counted.items()) / len(frames),
        "mean_wire_bytes": sum(wire_bytes(size) * n for size, n in counted.items()) / len(frames),
        "sizes": listed,
    }


def sizes_text(described: dict[str, Any], frame_bytes: int) -> str:
    """Lengths that a flow's description tells: ``60 bytes``, or ``60 to 1514 bytes, 357.8 on average``."""
    shortest = described.get("shortest_frame_bytes", frame_bytes)
    if shortest == frame_bytes:
        return f"{frame_bytes} bytes"
    return f"{shortest} to {frame_bytes} bytes, {described['mean_frame_bytes']:.1f} on average"


def mean_wire_bytes(described: dict[str, Any], frame_bytes: int) -> float:
    """Bytes that a frame takes on the wire, the mean of a mix: from the description of what was sent."""
    return float(described.get("mean_wire_bytes", wire_bytes(frame_bytes)))
