"""Many frames of one template: fields and checksums written with numpy, over all frames at once."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.traffic.table import FrameTable
from labkit.traffic.vary import Limbs

ONES = 0xFFFF


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field lies in the frame: first bit and number of bits, counted from the frame's start."""

    bit: int
    bits: int


@dataclass(frozen=True, slots=True)
class Checksum:
    """An Internet checksum of the frame (RFC 1071).

    Attributes
    ----------
    at : int
        Byte where it stands.
    covers : tuple of (int, int)
        First byte and end of what it sums, the pseudo-header's addresses included.
    pseudo_header : bool
        The sum holds more than these bytes: a protocol number and a length (RFC 768, RFC 8200).
    zero_is_ones : bool
        A sum that gives 0 is written ffff: UDP, where 0 says "no checksum" (RFC 768).
    """

    at: int
    covers: tuple[tuple[int, int], ...]
    pseudo_header: bool = False
    zero_is_ones: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """One finished frame, the fields that vary in it, and the checksums that follow them."""

    frame: bytes
    places: Mapping[str, Place]
    checksums: tuple[Checksum, ...]


def patch(template: Template, values: Mapping[str, Limbs], frames: int) -> FrameTable:
    """Table of `frames` copies of the template, each with its own values and the checksums that fit them.

    `values` holds, for each place, what its field is in each frame. A checksum is never summed anew: the sum
    of the template is corrected by what changed (RFC 1624), so that payloads cost nothing.
    """
    size = len(template.frame)
    # BytesIO hands its bytes out without a copy; 100 000 frames are 6 MB, whose copy costs 4 ms
    stream = io.BytesIO(_blank(template) * frames)
    with stream.getbuffer() as buffer:
        rows = np.ndarray((frames, size), np.uint8, buffer)
        for name, place in template.places.items():
            _write(rows, place, values[name])
        for checksum in template.checksums:
            _write_checksum(rows, checksum, template, values)
        del rows
    offsets = np.arange(0, frames * size, size, dtype=np.uint64).tobytes()
    return FrameTable(stream.getvalue(), offsets, np.full(frames, size, np.uint32).tobytes())


def _blank(template: Template) -> bytes:
    """Frame with its varying bits at 0, so that bit fields sharing a byte can be or-ed in."""
    number, width = int.from_bytes(template.frame, "big"), 8 * len(template.frame)
    for place in template.places.values():
        number &= ~(((1 << place.bits) - 1) << (width - place.bit - place.bits))
    return number.to_bytes(len(template.frame), "big")


def _write(rows: NDArray[np.uint8], place: Place, limbs: Limbs) -> None:
    if place.bit % 8 or place.bits % 8:
        _write_bits(rows, place, limbs[-1])
        return
    end = (place.bit + place.bits) // 8
    left = place.bits // 8
    for limb in reversed(limbs):
        taken = 0
        while left and taken < 8:
            # the largest word that the rest of the field fills: 6 bytes of a MAC are 4 and 2
            word = next(size for size in (8, 4, 2, 1) if size <= left and size + taken <= 8)
            _column(rows, end - word, word)[...] = limb >> (8 * taken) if taken else limb
            end, left, taken = end - word, left - word, taken + word


def _write_bits(rows: NDArray[np.uint8], place: Place, values: NDArray[Any]) -> None:
    first, end = place.bit // 8, -(-(place.bit + place.bits) // 8)
    shift = 8 * end - place.bit - place.bits
    wide = values.astype(np.uint64) if place.bits + shift > 32 else values
    shifted = wide << shift
    for byte in range(first, end):
        column = rows[:, byte]
        np.bitwise_or(column, (shifted >> (8 * (end - 1 - byte))).astype(np.uint8), out=column)


def _column(rows: NDArray[np.uint8], byte: int, size: int) -> NDArray[Any]:
    """View of `size` bytes of every frame as one big-endian number."""
    return np.ndarray((len(rows),), f">u{size}", rows.data, byte, (rows.shape[1],))


def _write_checksum(
    rows: NDArray[np.uint8], checksum: Checksum, template: Template, values: Mapping[str, Limbs]
) -> None:
    covered = [
        (place, shift, values[name])
        for name, place in template.places.items()
        if (shift := _shift(place, checksum)) is not None
    ]
    if not covered:
        return
    written = int.from_bytes(template.frame[checksum.at : checksum.at + 2], "big")
    unchanged = (ONES - written - sum(_old(template, place) << shift for place, shift, _ in covered)) % ONES
    # 0 and ffff are the same to ones' complement, but only bytes that are all zero sum to 0
    nothing = 0 if _is_blank(template, checksum) else ONES
    total = np.full(len(rows), unchanged or nothing, np.uint32)
    for place, shift, limbs in covered:
        for limb in limbs:
            total += limb << shift if place.bits + shift <= 16 else _folded(limb, shift)
    _fold(total)
    _fold(total)
    np.subtract(ONES, total, out=total)
    if checksum.zero_is_ones:
        total[total == 0] = ONES
    _column(rows, checksum.at, 2)[...] = total


def _is_blank(template: Template, checksum: Checksum) -> bool:
    """Whether all that is summed besides the varying fields is zero: an empty ICMP echo reply."""
    blank = bytearray(_blank(template))
    blank[checksum.at : checksum.at + 2] = bytes(2)
    return not checksum.pseudo_header and not any(any(blank[start:end]) for start, end in checksum.covers)


def _shift(place: Place, checksum: Checksum) -> int | None:
    """Bits between the end of the field and the end of its 16-bit word; None when it is not summed."""
    for start, end in checksum.covers:
        if 8 * start <= place.bit and place.bit + place.bits <= 8 * end:
            return -(place.bit + place.bits - 8 * start) % 16
    return None


def _old(template: Template, place: Place) -> int:
    number, width = int.from_bytes(template.frame, "big"), 8 * len(template.frame)
    return number >> (width - place.bit - place.bits) & ((1 << place.bits) - 1)


def _folded(limb: NDArray[Any], shift: int) -> NDArray[Any]:
    """What the values add to a sum of 16-bit words, below 2**18."""
    if limb.dtype == np.uint64:
        limb = (limb >> 32) + (limb & 0xFFFFFFFF)
        limb = ((limb >> 16) + (limb & ONES)).astype(np.uint32)
    total = (limb >> 16) + (limb & ONES)
    if shift:
        total <<= shift
        _fold(total)
    return total


def _fold(total: NDArray[Any]) -> None:
    carry = total >> 16
    total &= ONES
    total += carry
