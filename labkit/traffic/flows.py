"""What to send: one packet of scapy and the fields that vary over the frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from labkit.errors import WorkloadError
from labkit.factors import typed
from labkit.traffic import frames
from labkit.traffic.fields import PacketField, find, restructures
from labkit.traffic.patch import Template, patch
from labkit.traffic.sums import checksums
from labkit.traffic.table import FrameTable
from labkit.traffic.vary import Generator, Limbs, check_seed, choices, count, parse_vary, randoms
from labkit.units import ETHERNET_HEADER_BYTES, MIN_FRAME_BYTES

__all__ = ["Flow", "choices", "count", "parse_vary", "randoms", "udp_flow"]

SEQUENCE = "Pktgen.seq_num"


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """Frames of one packet in which some fields vary.

    All varying fields advance together, one step a frame. There are as many frames as the longest generator
    has values; shorter ones begin again. The longest being a `count` or distinct `randoms`, N values make N
    distinct flows.

    Any integer or address field of fixed width varies, in the first layer of its name, as long as only that
    field and the IP, UDP, TCP and ICMP checksums change in the bytes that scapy builds: `IP.proto`, `IP.ihl`,
    `Ether.type`, `UDP.len` and checksums come out as scapy builds them, which restructures nothing. A field
    on which other bytes depend (`IP.len` below UDP) is refused.

    What the packet sets itself stays as set, checksums too; UDP checksum 0 is "no checksum" on IPv4 and
    refused on IPv6. Addresses that it leaves open are the default flow's (see `udp_flow`), never looked up on
    this host. Scapy's own random fields are drawn once, with the seed.

    Attributes
    ----------
    packet : scapy packet
        Begins with Ether; copied.
    vary : mapping of str to generator
        ``{"UDP.sport": count(1024, 64)}``; layers are named as scapy's classes.
    seed : int
        Same seed, same bytes.
    pad_bytes : int or None
        Shorter frames get zero bytes up to this length; None leaves them short.

    Raises
    ------
    WorkloadError
        At once, before anything is sent: a value out of its field's range, an unknown layer or field, an
        empty flow, a packet that scapy cannot build.
    """

    packet: Any
    vary: Mapping[str, Generator] = field(default_factory=dict)
    seed: int = 0
    pad_bytes: int | None = MIN_FRAME_BYTES
    _template: Template = field(init=False, repr=False)
    _values: Mapping[str, Limbs] = field(init=False, repr=False)
    _frames: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_seed(self.seed)
        packet = frames.settle(self.packet, self.seed)
        fields = {name: find(frames.scapy(), packet, name) for name in self.vary}
        drawn = {name: generator.draw(fields[name], self.seed) for name, generator in self.vary.items()}
        longest = max((len(limbs[0]) for limbs in drawn.values()), default=1)
        values = {
            name: tuple(np.tile(limb, -(-longest // len(limb)))[:longest] for limb in limbs)
            for name, limbs in drawn.items()
        }
        _check_varied_checksum(fields, drawn)
        template = _template(packet, fields, values, self.seed, self.pad_bytes)
        if len(template.frame) < ETHERNET_HEADER_BYTES:
            raise WorkloadError(f"a frame of {len(template.frame)} bytes is shorter than an Ethernet header")
        for name, value in {
            "packet": packet,
            "vary": MappingProxyType(dict(self.vary)),
            "_template": template,
            "_values": values,
            "_frames": longest,
        }.items():
            object.__setattr__(self, name, value)

    @property
    def frame_bytes(self) -> int:
        """Length of every frame in bytes, FCS excluded."""
        return len(self._template.frame)

    def with_frame_bytes(self, frame_bytes: int) -> Flow:
        """Give the same traffic with its payload cut or zero-filled to frames of `frame_bytes`.

        Raises
        ------
        WorkloadError
            The headers do not fit; the message names the shortest frame.
        """
        typed("frame_bytes", frame_bytes)
        packet = frames.resized(self.packet, self.seed, frame_bytes)
        too_padded = self.pad_bytes is not None and frame_bytes < self.pad_bytes
        return replace(self, packet=packet, pad_bytes=None if too_padded else self.pad_bytes)

    def describe(self) -> dict[str, Any]:
        """Say in plain JSON values what is sent; equal descriptions send equal bytes."""
        return {
            "packet": self.packet.summary(),
            "layers": frames.fields_set(self.packet),
            "vary": {name: generator.describe() for name, generator in self.vary.items()},
            "seed": self.seed,
            "frames": self._frames,
            "frame_bytes": self.frame_bytes,
            "pad_bytes": self.pad_bytes,
        }

    def table(self) -> FrameTable:
        """Every frame, written by numpy; byte for byte what scapy builds."""
        return patch(self._template, self._values, self._frames)


def udp_flow(
    frame_bytes: int | None = None,
    flows: int = 64,
    *,
    src_mac: str = frames.SRC_MAC,
    dst_mac: str = frames.DST_MAC,
    src: str | None = None,
    dst: str | None = None,
    sport: int = 1024,
    dport: int = 9,
    vlan: frames.Vlan | None = None,
    ipv6: bool = False,
    pktgen_header: bool = False,
    vary: Mapping[str, Generator] | None = None,
    seed: int = 0,
) -> Flow:
    """UDP frames of `frame_bytes`, in `flows` distinct flows that differ in their source port.

    By default 192.0.2.1 sends to port 9 (discard) of 198.51.100.2 (RFC 5737; 2001:db8::1 and ::2 with `ipv6`,
    RFC 3849), to a MAC address that is not the peer's, so that the peer's stack counts and drops it.

    Parameters
    ----------
    frame_bytes : int or None
        Length of each frame, FCS excluded; None is 60, or the headers' length where that is more.
    flows : int
        Number of flows; source ports count from `sport`.
    vlan : int, (int, int) or None
        Id of an 802.1Q tag; two are QinQ, an 802.1ad tag and the 802.1Q tag within it.
    pktgen_header : bool
        The payload begins with the header of the kernel's pktgen (layer `Pktgen`): magic 0xbe9be955, sequence
        number, seconds and microseconds, each 4 bytes, big-endian. The number counts the frames of the flow
        from 0 and begins again with them, unless `Pktgen.seq_num` varies otherwise. The time stamp is 0:
        frames are built before the run, and no engine writes into them.
    vary : mapping of str to generator or None
        Fields to vary besides, or instead of the source port under its name.

    Raises
    ------
    WorkloadError
        A value out of range, or more flows than there are source ports from `sport` on.
    """
    packet = frames.udp_packet(
        src_mac=src_mac,
        dst_mac=dst_mac,
        src=src or (frames.SRC_IP6 if ipv6 else frames.SRC_IP),
        dst=dst or (frames.DST_IP6 if ipv6 else frames.DST_IP),
        ipv6=ipv6,
        sport=sport,
        dport=dport,
        vlan=vlan,
        pktgen_header=pktgen_header,
    )
    ports = 65536 - sport if isinstance(sport, int) else 0
    if 0 < ports < flows:
        raise WorkloadError(
            f"{flows} flows were asked, but from source port {sport} on there are {ports}; "
            'ask for fewer, or vary an address too: vary={"IP.src": ...}'
        )
    flow = Flow(packet, {"UDP.sport": count(sport, flows), **(vary or {})}, seed)
    if pktgen_header and SEQUENCE not in flow.vary:
        flow = numbered(flow, flow._frames)  # noqa: SLF001
    return flow.with_frame_bytes(
        max(flow.frame_bytes, MIN_FRAME_BYTES) if frame_bytes is None else frame_bytes
    )


def numbered(flow: Flow, frames: int) -> Flow:
    """Give the flow of so many frames whose pktgen header counts them from 0."""
    return replace(flow, vary={**flow.vary, SEQUENCE: count(0, frames)})


def _check_varied_checksum(fields: Mapping[str, PacketField], drawn: Mapping[str, Limbs]) -> None:
    if "UDP.chksum" in drawn:
        frames.check_udp_checksum(fields["UDP.chksum"].layer, drawn["UDP.chksum"][-1].tolist())


def _template(
    packet: Any,
    fields: Mapping[str, PacketField],
    values: Mapping[str, Limbs],
    seed: int,
    pad_bytes: int | None,
) -> Template:
    """First frame and how the others differ from it, held against a second frame that scapy builds."""

    def built_with(rows: Mapping[str, int]) -> bytes:
        numbers = {fields[name]: _number(values[name], row) for name, row in rows.items()}
        return frames.build(packet, seed, numbers)

    first = dict.fromkeys(fields, 0)
    built = built_with(first)
    varied = {found.place.bit // 8 for found in fields.values()}
    template = Template(
        built.ljust(pad_bytes or 0, b"\0"),
        {name: found.place for name, found in fields.items()},
        tuple(sum_ for sum_ in checksums(frames.scapy(), packet, len(built)) if sum_.at not in varied),
    )
    for rows in [
        {name: _another_row(limbs) for name, limbs in values.items()},
        *_restructuring(fields, values),
    ]:
        probed = first | rows
        one = {name: tuple(limb[row : row + 1] for limb in values[name]) for name, row in probed.items()}
        if patch(template, one, 1).block != built_with(probed).ljust(pad_bytes or 0, b"\0"):
            raise WorkloadError(
                f"{', '.join(rows)} cannot vary in {packet.summary()}: other bytes than this field and the "
                "IP, UDP, TCP and ICMP checksums depend on it; build one flow a value instead"
            )
    return template


def _restructuring(
    fields: Mapping[str, PacketField], values: Mapping[str, Limbs]
) -> Iterator[dict[str, int]]:
    """First row of every value of each field that may change what its layer holds."""
    for name, found in fields.items():
        if restructures(frames.scapy(), found):
            _, rows = np.unique(values[name][0], return_index=True)
            yield from ({name: int(row)} for row in rows)


def _another_row(limbs: Limbs) -> int:
    """First frame whose value differs from the first frame's; 0 when there is none."""
    return int(np.argmax(np.any([limb != limb[0] for limb in limbs], axis=0)))


def _number(limbs: Limbs, row: int) -> int:
    number = 0
    for limb in limbs:
        number = number << 64 | int(limb[row])
    return number
