"""The twin of `gso`: one frame's headers, its payload over and over, and a virtio_net_hdr before both."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from labkit.engines.base import EngineConfig
from labkit.engines.reference_calls import SOL_PACKET, Call, LengthLimit
from labkit.records import Frames
from labkit.units import ETHERNET_HEADER_BYTES as IP_AT

# linux/if_packet.h, linux/virtio_net.h; GSO_UDP_L4 came with Linux 6.2
PACKET_VNET_HDR: Final = 15
NEEDS_CHECKSUM, GSO_NONE, GSO_UDP_L4 = 1, 0, 5
OFFLOAD: Final = struct.Struct("=BBHHHH")
UDP: Final = 17
UDP_BYTES: Final = 8
IPV6_BYTES: Final = 40
MOST_IP_BYTES: Final = 65535


class _Template(msgspec.Struct, frozen=True):
    """One frame, taken apart."""

    headers: bytes
    payload: bytes
    udp_at: int
    ipv6: bool

    def most_segments(self) -> int:
        """Segments of this payload that one IP packet holds."""
        ip_headers = len(self.headers) - IP_AT - (IPV6_BYTES if self.ipv6 else 0)
        return (MOST_IP_BYTES - ip_headers) // len(self.payload)

    def super_packet(self, payloads: list[bytes]) -> bytes:
        """The offload header, headers whose lengths span all segments, and the payloads."""
        segments = len(payloads)
        head, payload = bytearray(self.headers), b"".join(payloads)
        udp_bytes = UDP_BYTES + len(payload)
        if self.ipv6:
            struct.pack_into("!H", head, IP_AT + 4, udp_bytes)
        else:
            struct.pack_into("!H", head, IP_AT + 2, self.udp_at - IP_AT + udp_bytes)
            struct.pack_into("!H", head, IP_AT + 10, 0)
            struct.pack_into("!H", head, IP_AT + 10, ~_sum(head[IP_AT : self.udp_at]) & 0xFFFF)
        addresses = head[IP_AT + 8 : IP_AT + 40] if self.ipv6 else head[IP_AT + 12 : IP_AT + 20]
        pseudo = _sum(addresses + struct.pack("!HH", UDP, udp_bytes))
        struct.pack_into("!HH", head, self.udp_at + 4, udp_bytes, pseudo)
        kind, size = (GSO_UDP_L4, len(self.payload)) if segments > 1 else (GSO_NONE, 0)
        offload = OFFLOAD.pack(NEEDS_CHECKSUM, kind, len(head), size, self.udp_at, 6)
        return offload + bytes(head) + payload


@contextmanager
def gso_call(sock: socket.socket, frames: Frames, config: EngineConfig) -> Iterator[Call]:
    """Super-packets of one frame each, whose segments differ in payload alone."""
    templates = [_template(frames.frame(index), index) for index in range(len(frames))]
    for index, template in enumerate(templates):
        if template.most_segments() < config.batch:
            raise ValueError(
                f"frame {index}: {config.batch} segments of it make no IP packet; "
                f"ask for batch {template.most_segments()} or less"
            )
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    limit = LengthLimit(sock, config.ifindex)

    def call(asked: list[bytes]) -> int:
        template = _template(asked[0], 0)
        # the kernel holds no segment against the MTU, and the peer would drop it
        limit.check(len(asked[0]), 0)
        sock.send(template.super_packet([frame[len(template.headers) :] for frame in asked]))
        return len(asked)

    yield call


def _template(frame: bytes, index: int) -> _Template:
    why, udp_at = _taken_apart(frame)
    if why is not None:
        raise ValueError(
            f"frame {index}: {why}; only UDP over IPv4 or IPv6 goes out in super-packets, take engine "
            "'sendmmsg' for other frames"
        )
    end = udp_at + UDP_BYTES
    return _Template(frame[:end], frame[end:], udp_at, ipv6=frame[12:14] == b"\x86\xdd")


def _taken_apart(frame: bytes) -> tuple[str | None, int]:
    """What is wrong with `frame`, if anything, and where its UDP header lies."""
    if len(frame) < IP_AT + 20 + UDP_BYTES:
        return "too short for UDP over IP", 0
    ethertype = _word(frame, 12)
    if ethertype == 0x86DD:
        why, udp_at = _ipv6(frame), IP_AT + IPV6_BYTES
    elif ethertype == 0x0800:
        why, udp_at = _ipv4(frame), IP_AT + 4 * (frame[IP_AT] & 0x0F)
    else:
        return "neither IPv4 nor IPv6 behind the MAC addresses", 0
    return why or _udp(frame, udp_at), udp_at


def _ipv4(frame: bytes) -> str | None:
    wrongs = {
        "no IPv4 header": frame[IP_AT] >> 4 != 4 or frame[IP_AT] & 0x0F < 5,
        "IPv4 without UDP": frame[IP_AT + 9] != UDP,
        "a fragment": _word(frame, IP_AT + 6) & 0x3FFF != 0,
        "IPv4 says another length than the frame has": _word(frame, IP_AT + 2) != len(frame) - IP_AT,
    }
    return next((why for why, wrong in wrongs.items() if wrong), None)


def _ipv6(frame: bytes) -> str | None:
    behind = len(frame) - IP_AT - IPV6_BYTES
    wrongs = {
        "too short for UDP over IP": behind < UDP_BYTES,
        "no IPv6 header": frame[IP_AT] >> 4 != 6,
        "IPv6 without UDP right behind it": frame[IP_AT + 6] != UDP,
        "IPv6 says another length than the frame has": _word(frame, IP_AT + 4) != behind,
    }
    return next((why for why, wrong in wrongs.items() if wrong), None)


def _udp(frame: bytes, udp_at: int) -> str | None:
    if len(frame) <= udp_at + UDP_BYTES:
        return "no payload to make segments of"
    if _word(frame, udp_at + 4) != len(frame) - udp_at:
        return "UDP says another length than the frame has"
    if _word(frame, udp_at + 6) == 0:
        return "a UDP checksum of 0, where the kernel fills one in"
    return None


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _sum(data: bytes | bytearray) -> int:
    """The ones' complement sum of an even number of bytes (RFC 1071)."""
    total: int = sum(word for (word,) in struct.iter_unpack("!H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total
