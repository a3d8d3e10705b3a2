"""Hostile inputs and what must hold of whatever is made of them, for `tests/fuzz` and `tests/soak`."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import TypeAlias

from hypothesis import strategies as st
from scapy.utils import RawPcapReader

from labkit import _native
from labkit.errors import WorkloadError
from labkit.traffic.pcap import pcap_bytes, read_pcap
from labkit.traffic.table import FrameTable

Parts: TypeAlias = tuple[bytes, bytes, bytes]

MAGICS = [0xA1B2C3D4, 0xA1B23C4D]
ODD_WORDS = [0, 1, 13, 14, 60, 0xFFFF, 1 << 18, (1 << 18) + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]


@st.composite
def captures(draw: st.DrawFn) -> bytes:
    """Files that are nearly captures: right ones, then words, bytes and ends changed."""
    order = draw(st.sampled_from("<>"))
    link = draw(st.sampled_from([1, 1, 1, 0, 113, 276, 0x2400_0001]))
    data = bytearray(struct.pack(f"{order}IHHiIII", draw(st.sampled_from(MAGICS)), 2, 4, 0, 0, 65535, link))
    words = [4, 20]  # version and link type; then both lengths of each record
    for frame in draw(st.lists(st.binary(min_size=14, max_size=70), max_size=4)):
        words += [len(data) + 8, len(data) + 12]
        data += struct.pack(f"{order}IIII", 1, 2, len(frame), len(frame)) + frame
    for damage in draw(st.lists(st.sampled_from(["word", "byte", "cut", "tail"]), max_size=2)):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        if damage == "word" and len(data) > max(words) + 4:
            struct.pack_into(
                f"{order}I", data, draw(st.sampled_from(words)), draw(st.sampled_from(ODD_WORDS))
            )
        elif damage == "byte" and data:
            data[at] = draw(st.integers(0, 255))
        elif damage == "cut":
            del data[at:]
        elif damage == "tail":
            data += draw(st.binary(max_size=40))
    return bytes(data)


def refused(error: type[Exception], make: Callable[[], object]) -> str | None:
    """Words with which `make` refuses; None when it does not, and any other exception is a bug."""
    try:
        make()
    except error as fault:
        return str(fault)
    return None


def check_capture(data: bytes) -> bool:
    """Refused as a request that makes no sense, or whole: every byte accounted for, and as scapy reads it."""
    words = refused(WorkloadError, lambda: read_pcap(data))
    if words is not None:
        assert words
        return False
    table = read_pcap(data)
    frames = [table.frame(index) for index in range(len(table))]
    assert frames
    assert 24 + sum(16 + len(frame) for frame in frames) == len(data)
    assert min(map(len, frames)) >= 14
    assert frames == [frame for frame, _ in RawPcapReader(io.BytesIO(data))]
    assert read_pcap(pcap_bytes(table)) == table
    return True


@st.composite
def tables(draw: st.DrawFn) -> Parts:
    """Block, offsets and lengths: right ones, some of which then point outside, lack a word or end in one."""
    block = draw(st.binary(max_size=40))
    starts = draw(st.lists(st.integers(0, len(block)), max_size=5))
    sizes = [draw(st.integers(0, len(block) - start)) for start in starts]
    offsets, lengths = struct.pack(f"={len(starts)}Q", *starts), struct.pack(f"={len(sizes)}I", *sizes)
    damage = draw(st.sampled_from(["none", "offset", "length", "missing", "odd"]))
    if damage == "offset" and starts:
        offsets = offsets[8:] + struct.pack("=Q", draw(st.sampled_from([len(block), 1 << 63, (1 << 64) - 1])))
    elif damage == "length" and sizes:
        lengths = lengths[4:] + struct.pack("=I", draw(st.sampled_from([len(block), 1 << 31, (1 << 32) - 1])))
    elif damage == "missing":
        offsets = offsets[8:]
    elif damage == "odd":
        offsets, lengths = offsets + draw(st.binary(max_size=9)), lengths + draw(st.binary(max_size=5))
    return block, offsets, lengths


def check_table(parts: Parts) -> bool:
    """Refused with a ValueError, or every frame lies within the block; the native table takes the same."""
    ours = refused(ValueError, lambda: FrameTable(*parts))
    natives = refused(ValueError, lambda: _native.FrameTable(*parts))
    for words in (ours, natives):
        assert words is None or words.startswith("frame table: ")
    if ours is not None or not parts[1]:  # no frame is no table for an engine
        assert natives is not None
        return False
    assert natives is None
    table = FrameTable(*parts)
    assert len(_native.FrameTable(*parts)) == len(table)
    sizes = [len(table.frame(index)) for index in range(len(table))]
    assert sizes == list(memoryview(parts[2]).cast("I"))
    assert (table.shortest_bytes, table.longest_bytes) == (min(sizes), max(sizes))
    return True
