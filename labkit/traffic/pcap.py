"""The classic pcap format: bytes to frames and back. Standard library only, and it trusts no byte.

Format: pcap-savefile(5) of libpcap, and draft-ietf-opsawg-pcap; link types: tcpdump.org/linktypes.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from labkit.errors import WorkloadError
from labkit.records import Frames
from labkit.traffic.table import FrameTable
from labkit.units import ETHERNET_HEADER_BYTES

BYTE_ORDERS: Final = {
    bytes.fromhex("a1b2c3d4"): ">",
    bytes.fromhex("d4c3b2a1"): "<",
    bytes.fromhex("a1b23c4d"): ">",
    bytes.fromhex("4d3cb2a1"): "<",
}
"""Byte order by a file's first four bytes; those with 3c count nanoseconds. Time stamps are not read."""

OTHER_FORMATS: Final = {
    bytes.fromhex("0a0d0d0a"): "this is pcapng; make it classic: editcap -F pcap IN.pcapng OUT.pcap",
    bytes.fromhex(
        "a1b2cd34"
    ): "this is the pcap of a patched libpcap; make it classic: editcap -F pcap IN OUT",
    bytes.fromhex(
        "34cdb2a1"
    ): "this is the pcap of a patched libpcap; make it classic: editcap -F pcap IN OUT",
    bytes.fromhex("1f8b"): "this is compressed; unpack it first: gunzip FILE.gz",
    bytes.fromhex("28b52ffd"): "this is compressed; unpack it first: unzstd FILE.zst",
}
MAGIC_BYTES: Final = 4
HEADER_BYTES: Final = 24
RECORD_BYTES: Final = 16
ETHERNET: Final = 1
LINK_TYPES: Final = {
    0: "BSD loopback",
    101: "raw IP",
    113: "Linux cooked (SLL), as captured on interface any",
    127: "radiotap 802.11",
    276: "Linux cooked v2 (SLL2), as captured on interface any",
}
FCS_PRESENT: Final = 0x0400_0000
LONGEST_BYTES: Final = 1 << 18
"""MAXIMUM_SNAPLEN of libpcap: what is longer is no length."""


def read_pcap(data: bytes) -> FrameTable:
    """Frames of a capture of Ethernet frames.

    Raises
    ------
    WorkloadError
        Another format or link type, a file that was cut, a length that cannot be, a frame that was captured
        in part, no frame at all. The message says which, where, and what to do.
    """
    order = _byte_order(data)
    if len(data) < HEADER_BYTES:
        raise WorkloadError(
            f"the file is cut: {len(data)} of the {HEADER_BYTES} bytes of a pcap header; get it again"
        )
    major, minor, link = struct.unpack_from(f"{order}HH12xI", data, MAGIC_BYTES)
    if (major, minor) != (2, 4):
        raise WorkloadError(f"pcap version {major}.{minor}; labkit reads 2.4: editcap -F pcap IN OUT")
    if link & FCS_PRESENT and link >> 28:
        raise WorkloadError(
            f"each frame ends in a check sequence of {2 * (link >> 28)} bytes, which would be sent as "
            "payload; capture without it"
        )
    link &= ~0xF400_0000
    if link != ETHERNET:
        raise WorkloadError(
            f"not Ethernet: link type {link}{_called(link)}; its frames have no Ethernet header to send, "
            "so capture on one Ethernet interface"
        )
    table = FrameTable.of(_frames(data, order))
    if not len(table):
        raise WorkloadError("no packets: the capture is empty, and an empty flow cannot be sent")
    return table


def pcap_bytes(frames: Frames) -> bytes:
    """Classic little-endian pcap of the frames, their time stamps 0: equal frames, equal bytes."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, LONGEST_BYTES, ETHERNET)]
    for index in range(len(frames)):
        frame = frames.frame(index)
        parts += [struct.pack("<IIII", 0, 0, len(frame), len(frame)), frame]
    return b"".join(parts)


def _byte_order(data: bytes) -> str:
    if not data:
        raise WorkloadError("the file is empty, it has not even a pcap header; capture again")
    for magic, what in OTHER_FORMATS.items():
        if data.startswith(magic):
            raise WorkloadError(what)
    order = BYTE_ORDERS.get(data[:MAGIC_BYTES])
    if order is None:
        raise WorkloadError(f"not a pcap file: it begins with {data[:MAGIC_BYTES].hex()}; give a capture")
    return order


def _called(link: int) -> str:
    return f", {LINK_TYPES[link]}" if link in LINK_TYPES else ""


def _frames(data: bytes, order: str) -> Iterator[bytes]:
    record, at, index = struct.Struct(f"{order}8xII"), HEADER_BYTES, 0
    while at < len(data):
        if len(data) - at < RECORD_BYTES:
            raise WorkloadError(
                f"the file is cut in frame {index}: {len(data) - at} of {RECORD_BYTES} bytes of its head; "
                "get it again"
            )
        captured, original = record.unpack_from(data, at)
        at += RECORD_BYTES
        _check_lengths(index, captured, original)
        if captured > len(data) - at:
            raise WorkloadError(
                f"the file is cut in frame {index}: {len(data) - at} of its {captured} bytes; get it again"
            )
        yield data[at : at + captured]
        at, index = at + captured, index + 1


def _check_lengths(index: int, captured: int, original: int) -> None:
    if captured > original or original > LONGEST_BYTES:
        raise WorkloadError(
            f"frame {index} cannot be: {captured} bytes captured of {original}; the file is damaged"
        )
    if captured < original:
        raise WorkloadError(
            f"frame {index} was captured in part, {captured} of {original} bytes; "
            "capture whole frames: tcpdump -s 0"
        )
    if captured < ETHERNET_HEADER_BYTES:
        raise WorkloadError(
            f"frame {index} of {captured} bytes is shorter than an Ethernet header, so it cannot be sent"
        )
