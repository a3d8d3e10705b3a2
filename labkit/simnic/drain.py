"""How long a full ring takes to leave on the wire."""

from __future__ import annotations

from labkit.units import NS_PER_S

BITS_PER_BYTE = 8


def drain_ns(frames: int, bytes_each: int, link_bits_per_s: float, *, queues: int = 1) -> float:
    """Time until the last of `frames` has left, in nanoseconds.

    Parameters
    ----------
    frames : int
        Frames in one ring.
    bytes_each : int
        What each occupies: `labkit.units.wire_bytes` of its length, or less where framing is left out.
    link_bits_per_s : float
        Speed of the wire.
    queues : int
        Rings that are as full and share the wire: the last frame of one may have to wait for all.
    """
    return frames * bytes_each * BITS_PER_BYTE * queues / link_bits_per_s * NS_PER_S


def ring_bytes(descriptors: int, bytes_each: int) -> int:
    """Memory that the bookkeeping of a ring takes, in bytes."""
    return descriptors * bytes_each
