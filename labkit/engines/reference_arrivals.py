"""What a receiving sink counts: the slow, obvious Python twin of `native/rx_known.h` and `rx_sequence.h`.

received
    Frames of ours: MAC addresses and type are those of a frame of the table. Corrupted ones count, too.
foreign
    All others, and what the receiving end itself sent.
corrupted
    Of the received: the bytes are none of the table, pktgen's magic is not there, or the UDP checksum is
    wrong where those of the table are right. A corrupted frame's number is not believed, so that it counts
    as lost.
distinct
    Numbers that came at least once; what was sent less these is lost.
reordered
    Frames with a number smaller than the one expected next, which is the largest so far plus one (RFC 4737,
    3.3), that were not there before.
duplicates
    Frames with a number that was there before, and nothing else besides.
beyond_window
    Of the reordered: more than `WINDOW` behind the largest, where nobody remembers what was there before;
    they count as distinct.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from labkit.engines.reference_stamp import HEADER, IPV4, IPV6, MAGIC, TAGS, UDP, UDP_BYTES
from labkit.records import Frames

WINDOW: Final = 1 << 16
"""Numbers behind the largest that are remembered."""
HEADER_BYTES: Final = HEADER.size
HEAD_BYTES: Final = 14
SHORTEST_BYTES: Final = 60
"""A device pads what is shorter."""
NUMBERS: Final = 1 << 32


class Arrivals:
    """Counts the frames of one socket.

    Parameters
    ----------
    frames : Frames
        What was sent, over and over.
    content : bool
        Whether it was sent in order and as it is, so that bytes can be compared.
    numbered : bool
        Whether each frame carries pktgen's header; number k is then frame k % size of the table.
    first_number : int
        What the first frame was numbered.
    """

    def __init__(self, frames: Frames, *, content: bool, numbered: bool, first_number: int = 0) -> None:
        self._frames = [frames.frame(index) for index in range(len(frames))]
        self._content, self._numbered, self._first = content, numbered, first_number
        self._sums_hold = all(
            place is None or checksum_holds(frame, place)
            for frame, place in ((frame, udp_place(frame)) for frame in self._frames)
        )
        self._seen: set[int] = set()
        self._next = 0
        self.received = self.foreign = self.corrupted = 0
        self.distinct = self.duplicates = self.reordered = self.beyond_window = 0

    def frame(self, frame: bytes) -> None:
        """Count one more."""
        if frame[:HEAD_BYTES] not in {each[:HEAD_BYTES] for each in self._frames}:
            self.foreign += 1
            return
        self.received += 1
        if self._numbered:
            place = self._place(frame)
            if place is None:
                self.corrupted += 1
            else:
                self._note(place)
        elif self._content and not any(_same(frame, each) for each in self._frames):
            self.corrupted += 1

    def _note(self, place: int) -> None:
        if place >= self._next:
            self._next = place + 1
        elif self._next - place > WINDOW:
            self.beyond_window += 1
            self.reordered += 1
            self.distinct += 1
            return
        elif place in self._seen:
            self.duplicates += 1
            return
        else:
            self.reordered += 1
        self._seen.add(place)
        self.distinct += 1

    def _place(self, frame: bytes) -> int | None:
        """How many frames were numbered before this one; None when it cannot be believed."""
        udp = udp_place(frame)
        if udp is None or udp.udp_bytes < UDP_BYTES + HEADER_BYTES:
            return None
        header = frame[udp.udp_at + UDP_BYTES :]
        magic, number = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
        ahead = (number - (self._first + self._next)) % NUMBERS
        place = self._next + (ahead if ahead < NUMBERS // 2 else ahead - NUMBERS)
        if magic != MAGIC or place < 0 or (self._sums_hold and not checksum_holds(frame, udp)):
            return None
        wanted = self._frames[place % len(self._frames)]
        if self._content and not (
            _same_length(frame, wanted) and _blank(frame, udp).startswith(_blank(wanted, udp))
        ):
            return None
        return place


class UdpPlace(NamedTuple):
    """Where the headers of a frame begin, and how long UDP's and its payload are together."""

    ip_at: int
    udp_at: int
    udp_bytes: int
    ipv6: bool


def udp_place(frame: bytes) -> UdpPlace | None:
    """UDP over IPv4 or IPv6 without extension headers, behind any tags; None for anything else."""
    type_at = 12
    while len(frame) >= type_at + 6 and int.from_bytes(frame[type_at : type_at + 2], "big") in TAGS:
        type_at += 4
    ip_at, kind = type_at + 2, int.from_bytes(frame[type_at : type_at + 2], "big")
    ip = frame[ip_at:]
    if kind == IPV4 and len(ip) >= 20:
        header_bytes, protocol, version = 4 * (ip[0] & 15), ip[9], 4
        whole = header_bytes >= 20 and int.from_bytes(ip[6:8], "big") & 0x3FFF == 0
    elif kind == IPV6 and len(ip) >= 40:
        header_bytes, protocol, version, whole = 40, ip[6], 6, True
    else:
        return None
    udp = ip[header_bytes:]
    if not whole or ip[0] >> 4 != version or protocol != UDP or len(udp) < UDP_BYTES:
        return None
    udp_bytes = int.from_bytes(udp[4:6], "big")
    if not UDP_BYTES <= udp_bytes <= len(udp):
        return None
    return UdpPlace(ip_at, ip_at + header_bytes, udp_bytes, ipv6=kind == IPV6)


def checksum_holds(frame: bytes, place: UdpPlace) -> bool:
    """Whether the UDP checksum is right; over IPv4 one of 0 says that there is none (RFC 768)."""
    udp = frame[place.udp_at : place.udp_at + place.udp_bytes]
    if udp[6:8] == b"\0\0":
        return not place.ipv6
    first, last = (8, 40) if place.ipv6 else (12, 20)
    pseudo = frame[place.ip_at + first : place.ip_at + last] + struct.pack(">II", UDP, len(udp))
    summed = pseudo + udp + bytes(len(udp) % 2)
    words = (int.from_bytes(summed[at : at + 2], "big") for at in range(0, len(summed), 2))
    return sum(words) % 0xFFFF == 0


def _same_length(arrived: bytes, sent: bytes) -> bool:
    return len(arrived) == len(sent) or len(sent) < len(arrived) == SHORTEST_BYTES


def _same(arrived: bytes, sent: bytes) -> bool:
    """Equal but for padding."""
    return _same_length(arrived, sent) and arrived[: len(sent)] == sent


def _blank(frame: bytes, place: UdpPlace) -> bytes:
    """`frame` without what is written as it leaves: the UDP checksum and pktgen's header behind it."""
    return frame[: place.udp_at + 6] + frame[place.udp_at + UDP_BYTES + HEADER_BYTES :]
