"""A flow's frames as commands to pktgen, which builds its own: what it cannot build is refused in words.

Source: fill_packet_ipv4, fill_packet_ipv6, mod_cur_headers and pktgen_setup_inject of net/core/pktgen.c.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from typing import Any, Final

from labkit.errors import WorkloadError
from labkit.linux.pktgen_commands import MOST_IMIX_SIZES, NO_VLAN, Asked, ask
from labkit.records import Frames

IPV4, IPV6, VLAN, QINQ = 0x0800, 0x86DD, 0x8100, 0x88A8
UDP: Final = 17
ETHERNET_BYTES, TAG_BYTES, UDP_BYTES = 14, 4, 8
IP_BYTES: Final = {IPV4: 20, IPV6: 40}
HEADER_BYTES: Final = 16
"""struct pktgen_hdr, for which each frame has room at the start of its payload."""
MAGIC: Final = bytes.fromhex("be9be955")
HOPS: Final = 32
"""Time to live, or hop limit, of all its frames."""
RANGES: Final = ("udp_src", "udp_dst", "src", "dst", "dst6")
DRAWN: Final = frozenset({"VID_RND", "SVID_RND", "MPLS_RND"})
"""Flags that draw anew without a range (mod_cur_headers); all others draw from one."""
NO_NUMBER: Final = -1
"""Stands where a frame is too short to hold a field."""


def flow_commands(frames: Frames) -> list[Asked]:
    """Commands by which pktgen builds these frames: lengths, addresses, tags, ports.

    Raises
    ------
    WorkloadError
        Frames that it cannot build: another protocol, a payload of meaning, fields that vary otherwise than
        by consecutive numbers, lengths that are no mix of its.
    """
    fields = _Fields(frames)
    return [*_sizes(frames, fields), *_ethernet(fields), *_tags(fields), *_ip(fields), *_ports(fields)]


def is_mix(frames: Frames) -> bool:
    """Whether the frames have several lengths."""
    return frames.shortest_bytes != frames.longest_bytes


def differences(frames: Frames) -> list[str]:
    """What pktgen's frames have otherwise than the flow's, in words."""
    fields = _Fields(frames)
    found = ["the payload is pktgen's: magic 0xbe9be955, its own running number and time, then zeros"]
    if fields.tags and fields.one("outer tag", fields.words(12)) == QINQ:
        found.append("the outer tag has type 0x8100 instead of 0x88a8")
    hops = fields.octets(fields.ip + (8 if fields.kind == IPV4 else 7))
    if hops.count(HOPS) != len(hops):
        found.append(f"{'TTL' if fields.kind == IPV4 else 'hop limit'} is {HOPS}")
    if fields.kind == IPV4:
        found.append("IP ids count from 0")
    if any(fields.words(fields.udp + 6)):
        found.append("there is no UDP checksum; give pktgen='flag UDPCSUM' for one")
    if is_mix(frames):
        found.append("lengths are drawn at random by their shares, in steps of a hundredth")
    return found


class _Fields:
    """Fields of all frames at once, by their place in a frame."""

    def __init__(self, frames: Frames) -> None:
        # one after the other, without numpy: the agent, which asks this too, has none
        self._frames = [frames.frame(each) for each in range(len(frames))]
        self.tags = self._tags()
        self.ip = ETHERNET_BYTES + TAG_BYTES * self.tags
        self.kind = self._kind()
        self.udp = self.ip + IP_BYTES[self.kind]
        self._check_udp()
        self._check_payload()

    def octets(self, at: int) -> list[int]:
        """Byte `at` of each frame; `NO_NUMBER` where it is too short."""
        return self.numbers(at, 1)

    def numbers(self, at: int, length: int) -> list[int]:
        """Big-endian number of `length` bytes of each frame; `NO_NUMBER` where it is too short."""
        parts = [frame[at : at + length] for frame in self._frames]
        return [int.from_bytes(part, "big") if len(part) == length else NO_NUMBER for part in parts]

    def words(self, at: int) -> list[int]:
        """Number of two bytes."""
        return self.numbers(at, 2)

    def one(self, what: str, values: list[int]) -> int:
        """The value that all frames have."""
        if values.count(values[0]) != len(values):
            raise WorkloadError(
                f"pktgen: {what} varies over the flow's frames, and pktgen cannot: it varies UDP ports, IPv4 "
                "addresses and MAC addresses; take another engine, or one flow a value"
            )
        return values[0]

    def bytes_of_first(self, at: int, length: int) -> bytes:
        """Bytes of the first frame."""
        return self._frames[0][at : at + length]

    def _tags(self) -> int:
        outer = self.one("the frame's type", self.words(12))
        if outer not in (VLAN, QINQ):
            return 0
        inner = self.one("the type behind the tag", self.words(16))
        return 2 if inner in (VLAN, QINQ) else 1

    def _kind(self) -> int:
        kind = self.one("the frame's type", self.words(self.ip - 2))
        if kind not in IP_BYTES:
            raise WorkloadError(
                f"pktgen: frames of type {kind:#06x}: it sends UDP over IPv4 or IPv6 with up to two VLAN "
                "tags; take engine 'sendmmsg'"
            )
        return kind

    def _check_udp(self) -> None:
        at = self.ip
        first = self.one("the IP version or header length", self.octets(at))
        protocol = self.one("the protocol", self.octets(at + (9 if self.kind == IPV4 else 6)))
        if protocol != UDP or (first != 0x45 and self.kind == IPV4):
            raise WorkloadError(
                f"pktgen: IP protocol {protocol} with a first byte {first:#04x}: it sends plain UDP, without "
                "IP options or extension headers; take engine 'sendmmsg'"
            )
        place, length, bits = (6, 2, 0x3FFF) if self.kind == IPV4 else (1, 3, 0xFFFFF)
        if any(number & bits for number in self.numbers(at + place, length)):
            what = "fragments" if self.kind == IPV4 else "flow label"
            raise WorkloadError(f"pktgen: it sends no {what}; take engine 'sendmmsg'")

    def _check_payload(self) -> None:
        """Only zeros, or pktgen's header and zeros."""
        start = self.udp + UDP_BYTES
        shortest = start + HEADER_BYTES
        least = min(map(len, self._frames))
        if least < shortest:
            raise WorkloadError(
                f"pktgen: frames of {least} bytes: it puts {HEADER_BYTES} bytes of its "
                f"own into each payload, so that these are {shortest} bytes at least; give more frame_bytes"
            )
        for frame in self._frames:
            own = frame[start : start + len(MAGIC)] == MAGIC
            if frame[shortest if own else start :].strip(b"\0"):
                raise WorkloadError(
                    "pktgen: the flow's payload holds bytes of meaning, and pktgen's is its own header and "
                    "zeros; leave the payload out, or take engine 'sendmmsg'"
                )


def _sizes(frames: Frames, fields: _Fields) -> list[Asked]:
    del fields  # made first: it refuses frames that are too short
    if not is_mix(frames):
        return [ask("pkt_size", frames.longest_bytes)]
    counted = Counter(memoryview(frames.lengths).cast("I").tolist())
    if len(counted) > MOST_IMIX_SIZES:
        raise WorkloadError(
            f"pktgen: frames of {len(counted)} lengths: imix_weights has room for {MOST_IMIX_SIZES}; take "
            "fewer, or one length and pktgen='min_pkt_size ...'"
        )
    share = math.gcd(*counted.values())
    return [ask("imix_weights", " ".join(f"{size},{n // share}" for size, n in sorted(counted.items())))]


def _ethernet(fields: _Fields) -> list[Asked]:
    found = []
    for name, at in (("dst_mac", 0), ("src_mac", 6)):
        first, several = _run(f"the {name}", fields.numbers(at, 6))
        found.append(ask(name, ":".join(f"{byte:02x}" for byte in first.to_bytes(6, "big"))))
        found += [ask(f"{name}_count", several)] if several > 1 else []
    return found


def _tags(fields: _Fields) -> list[Asked]:
    """The inner tag is ``vlan``, one around it ``svlan``; that order, for a svlan needs its vlan."""
    found = []
    names = ("vlan",) if fields.tags == 1 else ("svlan", "vlan")
    for place, name in list(enumerate(names[: fields.tags]))[::-1]:
        tag = fields.one(f"the {name} tag", fields.words(ETHERNET_BYTES + TAG_BYTES * place))
        found += [
            ask(f"{name}_id", tag & 0xFFF),
            ask(f"{name}_p", tag >> 13),
            ask(f"{name}_cfi", tag >> 12 & 1),
        ]
    return found


def _ip(fields: _Fields) -> list[Asked]:
    at = fields.ip
    if fields.kind == IPV6:
        traffic_class = fields.one("the traffic class", fields.words(at)) >> 4 & 0xFF
        found = [ask("traffic_class", f"{traffic_class:02x}")] if traffic_class else []
        for name, place in (("src6", at + 8), ("dst6", at + 24)):
            for part in range(0, 16, 4):
                fields.one("an IPv6 address", fields.numbers(place + part, 4))
            found.append(ask(name, ipaddress.IPv6Address(fields.bytes_of_first(place, 16))))
        return found
    tos = fields.one("the type of service", fields.octets(at + 1))
    found = [ask("tos", f"{tos:02x}")] if tos else []
    for name, place in (("src", at + 12), ("dst", at + 16)):
        first, several = _run(f"the {name} address", fields.numbers(place, 4))
        found.append(ask(f"{name}_min", ipaddress.IPv4Address(first)))
        # of addresses the last one is sent, too; of ports it is not
        found.append(ask(f"{name}_max", ipaddress.IPv4Address(first + several - 1)))
    return found


def _ports(fields: _Fields) -> list[Asked]:
    found = []
    for name, place in (("src", fields.udp), ("dst", fields.udp + 2)):
        first, several = _run(f"the {name} port", fields.words(place))
        end = first + several if several > 1 else first
        if end > 65535:
            raise WorkloadError(
                f"pktgen: {name} ports {first} to {end - 1}: its range ends before its maximum, which is "
                "65535 itself at the most; begin at a lower port"
            )
        found += [ask(f"udp_{name}_min", first), ask(f"udp_{name}_max", end)]
    return found


def _run(what: str, values: list[int]) -> tuple[int, int]:
    """First number and how many follow each other, over and over; one that all frames have is one."""
    first = values[0]
    several = max(values) - first + 1
    if any(number != first + each % several for each, number in enumerate(values)):
        raise WorkloadError(
            f"pktgen: {what} varies otherwise than by consecutive numbers from its first on: use "
            "lk.count(first, how_many), or let pktgen draw them: pktgen='flag UDPSRC_RND'"
        )
    return first, several


def header_changes(commands: list[Asked]) -> bool:
    """Whether anything that `commands` ask for varies from frame to frame."""
    # by the name of the answer: dst is dst_min
    asked: dict[str, Any] = {each.command.answer: each.value for each in commands}
    varied = any(asked.get(f"{name}_min") != asked.get(f"{name}_max") for name in RANGES)
    drawn = {each.value for each in commands if each.command.kind == "flag"} & DRAWN
    return varied or bool(drawn) or any(name.endswith("_mac_count") for name in asked)


def least_bytes(commands: list[Asked]) -> int:
    """Length of the shortest frame that a device sends after `commands`, whatever length it is told.

    Its own result says the length that it was told. Labels and tags exclude each other, the later ones win.
    """
    vlan = svlan = False
    labels, ip = 0, IP_BYTES[IPV4]
    for name, value in ((asked.command.name, asked.value) for asked in commands):
        if name in ("vlan_id", "svlan_id"):
            tagged = int(value) < NO_VLAN and (vlan or name == "vlan_id")
            svlan = tagged and (svlan or name == "svlan_id")
            vlan, labels = tagged, 0 if tagged and name == "vlan_id" else labels
        elif name == "mpls":
            vlan, svlan, labels = False, False, len(value.split(","))
        elif name in ("src6", "dst6"):
            ip = IP_BYTES[IPV6]
    return ETHERNET_BYTES + TAG_BYTES * (vlan + svlan + labels) + ip + UDP_BYTES + HEADER_BYTES
