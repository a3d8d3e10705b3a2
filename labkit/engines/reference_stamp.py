"""The twins' stamps: pktgen's header at the start of a UDP payload, the checksum mended word by word."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from labkit.records import Frames
from labkit.units import ETHERNET_HEADER_BYTES, NS_PER_S, NS_PER_US, VLAN_TAG_BYTES

MAGIC: Final = 0xBE9BE955
HEADER: Final = struct.Struct("!4I")
"""struct pktgen_hdr (net/core/pktgen.c): magic, sequence, seconds, microseconds."""
TAGS: Final = (0x8100, 0x88A8, 0x9100)
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
UDP_BYTES: Final = 8
LEAST_IP_BYTES: Final = 20


class Stamps:
    """Where each frame of a flow takes its stamp; `ValueError` for one that takes none."""

    def __init__(self, frames: Frames) -> None:
        self._places = [payload_at(frames.frame(index), index) for index in range(len(frames))]

    def on(self, frame: bytes, index: int, attempt: int, date_ns: int) -> bytes:
        """Frame `index` of the flow as attempt `attempt` at `date_ns`, CLOCK_REALTIME."""
        return stamped(frame, self._places[index], attempt, date_ns)


def stamped(frame: bytes, at: int, attempt: int, date_ns: int) -> bytes:
    """`frame` with a stamp at `at`; its checksum stays as right or wrong as it was (RFC 1624, equation 3)."""
    seconds, ns = divmod(date_ns, NS_PER_S)
    stamp = HEADER.pack(MAGIC, attempt & 0xFFFFFFFF, seconds & 0xFFFFFFFF, ns // NS_PER_US)
    checksum = int.from_bytes(frame[at - 2 : at], "big")
    if checksum != 0:  # 0 says that there is none
        total = 0xFFFF - checksum
        for old, new in zip(_words(frame[at : at + HEADER.size]), _words(stamp), strict=True):
            total += 0xFFFF - old + new
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        checksum = 0xFFFF - total or 0xFFFF
    return frame[: at - 2] + checksum.to_bytes(2, "big") + stamp + frame[at + HEADER.size :]


def payload_at(frame: bytes, index: int) -> int:
    """Where the UDP payload of frame `index` begins; `ValueError` for one that holds no stamp."""
    ip_at = ETHERNET_HEADER_BYTES
    _needs(frame, index, ip_at + LEAST_IP_BYTES)
    while _word(frame, ip_at - 2) in TAGS:
        ip_at += VLAN_TAG_BYTES
        _needs(frame, index, ip_at + LEAST_IP_BYTES)
    ethertype = _word(frame, ip_at - 2)
    if ethertype not in {IPV4, IPV6}:
        raise _no_stamp(index, "neither IPv4 nor IPv6")
    why, ip_bytes = (_ipv4 if ethertype == IPV4 else _ipv6)(frame[ip_at:])
    if why:
        raise _no_stamp(index, why)
    udp_at = ip_at + ip_bytes
    _needs(frame, index, udp_at)
    if (udp_bytes := _word(frame, udp_at + 4)) < UDP_BYTES + HEADER.size:
        raise _no_stamp(index, f"its UDP length of {udp_bytes} holds no stamp, it takes 24")
    return udp_at + UDP_BYTES


def _ipv4(packet: bytes) -> tuple[str | None, int]:
    header_bytes = 4 * (packet[0] & 0x0F)
    wrongs = {
        "no IPv4 header": packet[0] >> 4 != 4 or header_bytes < LEAST_IP_BYTES,
        "IPv4 without UDP": packet[9] != UDP,
        "a fragment": _word(packet, 6) & 0x3FFF != 0,
    }
    return next((why for why, wrong in wrongs.items() if wrong), None), header_bytes


def _ipv6(packet: bytes) -> tuple[str | None, int]:
    wrongs = {"no IPv6 header": packet[0] >> 4 != 6, "IPv6 without UDP right behind it": packet[6] != UDP}
    return next((why for why, wrong in wrongs.items() if wrong), None), 40


def _needs(frame: bytes, index: int, udp_at: int) -> None:
    needed = udp_at + UDP_BYTES + HEADER.size
    if len(frame) < needed:
        raise _no_stamp(index, f"{len(frame)} bytes hold no stamp, it takes {needed}")


def _no_stamp(index: int, why: str) -> ValueError:
    return ValueError(
        f"frame {index}: {why}; a stamp is {HEADER.size} bytes of payload of UDP over IPv4 or IPv6"
    )


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _words(data: bytes) -> Iterator[int]:
    return (word for (word,) in struct.iter_unpack("!H", data))
