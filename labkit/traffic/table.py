"""Frames laid out for the native engines: one block of bytes, offsets, lengths. Standard library only."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrameTable:
    """Every frame of a flow, built once before the run.

    Attributes
    ----------
    block : bytes
        All frames, back to back.
    offsets : bytes
        Start of each frame in `block`: native unsigned 64-bit values.
    lengths : bytes
        Length of each frame in bytes: native unsigned 32-bit values.
    """

    block: bytes
    offsets: bytes
    lengths: bytes

    def __post_init__(self) -> None:
        starts, sizes = self._starts(), self._sizes()
        if len(starts) != len(sizes):
            raise ValueError(f"frame table: {len(starts)} offsets for {len(sizes)} lengths")
        if any(start + size > len(self.block) for start, size in zip(starts, sizes, strict=True)):
            raise ValueError(f"frame table: a frame ends behind the block's {len(self.block)} bytes")

    @classmethod
    def of(cls, frames: Iterable[bytes]) -> FrameTable:
        """Lay `frames` out one after the other."""
        parts = list(frames)
        offsets, end = array("Q"), 0
        for part in parts:
            offsets.append(end)
            end += len(part)
        return cls(b"".join(parts), offsets.tobytes(), array("I", map(len, parts)).tobytes())

    def __len__(self) -> int:
        return len(self.lengths) // 4

    def frame(self, index: int) -> bytes:
        """Bytes of one frame."""
        start = self._starts()[index]
        return self.block[start : start + self._sizes()[index]]

    @property
    def longest_bytes(self) -> int:
        """Length of the longest frame; 0 when there is none."""
        return max(self._sizes(), default=0)

    @property
    def shortest_bytes(self) -> int:
        """Length of the shortest frame; 0 when there is none."""
        return min(self._sizes(), default=0)

    def _starts(self) -> memoryview:
        return memoryview(self.offsets).cast("Q")

    def _sizes(self) -> memoryview:
        return memoryview(self.lengths).cast("I")
