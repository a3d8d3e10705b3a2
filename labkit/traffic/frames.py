"""Packets of scapy to bytes: settled once, checked field by field, built once. The only importer of scapy.

Scapy asks the host's routing table and the network's ARP for addresses that a packet leaves open, and wraps
numbers that do not fit. Neither happens here: open addresses are those of the default flow, and each raw
value is held against the width of its field before anything is built.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import random
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, TypeAlias

from labkit.errors import WorkloadError
from labkit.traffic.fields import (
    BUILD_FAULTS,
    Packet,
    PacketField,
    check_layer,
    header_of,
    inner_field,
    layers_of,
    plain,
)
from labkit.traffic.texts import WRITERS, check_text
from labkit.units import ETHERNET_HEADER_BYTES, VLAN_TAG_BYTES

Vlan: TypeAlias = int | tuple[int, int]
"""Id of one 802.1Q tag, or of an 802.1ad tag and the 802.1Q tag within it."""

SRC_MAC, DST_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
SRC_IP, DST_IP = "192.0.2.1", "198.51.100.2"
SRC_IP6, DST_IP6 = "2001:db8::1", "2001:db8::2"

COUNTED = {"IP": ("len", 0), "IPv6": ("plen", 40), "UDP": ("len", 0)}
"""Length fields of 16 bits that scapy fills in, and the header bytes that they do not count."""

LONGEST = 0xFFFF
LONGEST_FRAME_BYTES = LONGEST + ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES
"""What the largest MTU that Linux has lets pass."""
SHOWN_BYTES = 64


def scapy() -> SimpleNamespace:
    """Scapy's layers, loaded without a word and without reading the host's routes.

    A session that loads labkit first and then also sends with scapy calls ``conf.route.resync()``.
    """
    logger = logging.getLogger("scapy")
    level = logger.level
    logger.setLevel(logging.ERROR)
    from scapy.config import conf

    autoload = conf.route_autoload, conf.route6_autoload
    conf.route_autoload = conf.route6_autoload = False
    try:
        from scapy import fields, packet, volatile
        from scapy.layers import inet, inet6, l2

        from labkit.traffic import pktgen_header
    finally:
        logger.setLevel(level)
        conf.route_autoload, conf.route6_autoload = autoload
    return SimpleNamespace(
        fields=fields,
        packet=packet,
        volatile=volatile,
        inet=inet,
        inet6=inet6,
        l2=l2,
        pktgen_header=pktgen_header,
    )


def udp_packet(
    *,
    src_mac: str,
    dst_mac: str,
    src: str,
    dst: str,
    ipv6: bool,
    sport: int,
    dport: int,
    vlan: Vlan | None,
    pktgen_header: bool,
) -> Packet:
    """UDP packet without payload besides pktgen's header; in a VLAN, or in one within another (QinQ)."""
    # before scapy sees them: it asks the resolver about text that is no address
    for name, text in (("src", src), ("dst", dst)):
        check_text(name, "ip6" if ipv6 else "ip4", text)
    s = scapy()
    packet = s.l2.Ether(src=src_mac, dst=dst_mac)
    if isinstance(vlan, tuple):
        if len(vlan) != 2:
            raise WorkloadError(f"vlan {vlan!r}: give the id of one tag, or two as (outer, inner)")
        packet /= s.l2.Dot1AD(vlan=vlan[0])
    if vlan is not None:
        packet /= s.l2.Dot1Q(vlan=vlan[1] if isinstance(vlan, tuple) else vlan)
    packet /= (s.inet6.IPv6 if ipv6 else s.inet.IP)(src=src, dst=dst)
    try:
        packet /= s.inet.UDP(sport=sport, dport=dport)
        return packet / s.pktgen_header.Pktgen() if pktgen_header else packet
    except BUILD_FAULTS as fault:  # text that names no service
        raise WorkloadError(f"UDP ports {sport!r} and {dport!r} are out of range; 0..65535") from fault


def settle(packet: object, seed: int) -> Packet:
    """Give a copy of `packet` that always builds the same, its fields checked and open ones filled.

    Raises
    ------
    WorkloadError
        No Ethernet packet, or a value that does not fit its field.
    """
    s = scapy()
    if not isinstance(packet, s.l2.Ether):
        raise WorkloadError(
            f"a flow needs a scapy packet that begins with Ether, not {type(packet).__name__}"
        )
    settled: Packet = packet.copy()
    with _seeded(seed):
        for layer in layers_of(settled):
            _fill_addresses(s, layer)
            for name, value in list(layer.fields.items()):
                if isinstance(value, s.volatile.VolatileValue):
                    layer.setfieldval(name, value._fix())  # noqa: SLF001
    for layer in layers_of(settled):
        check_layer(s, layer)
        if isinstance(layer, s.inet.UDP):
            check_udp_checksum(layer, [layer.chksum])
    _check_lengths(settled)
    return settled


def build(packet: Packet, seed: int, numbers: Mapping[PacketField, int]) -> bytes:
    """Bytes of the packet with `numbers` in its fields, built by scapy.

    Raises
    ------
    WorkloadError
        Scapy cannot build it.
    """
    built = packet.copy()
    for field, number in numbers.items():
        layer = next(layer for layer in layers_of(built) if type(layer) is type(field.layer))
        layer.setfieldval(field.descriptor.name, WRITERS.get(field.kind, int)(number))
    try:
        with _seeded(seed):
            return bytes(built)
    except BUILD_FAULTS as fault:
        raise WorkloadError(f"scapy cannot build {packet.summary()}: {fault}; check its fields") from fault


def resized(packet: Packet, seed: int, frame_bytes: int) -> Packet:
    """Give the packet with a payload cut or filled up with zero bytes so that it builds `frame_bytes` bytes.

    Raises
    ------
    WorkloadError
        The headers alone are longer, or no device takes a frame as long.
    """
    whole = isinstance(frame_bytes, int) and not isinstance(frame_bytes, bool)
    if not whole or frame_bytes > LONGEST_FRAME_BYTES:
        raise WorkloadError(
            f"frame_bytes {frame_bytes!r}: give a whole number of bytes, {LONGEST_FRAME_BYTES} at most"
        )
    s = scapy()
    bare = packet.copy()
    load = b""
    for layer in layers_of(bare):
        if isinstance(layer, s.packet.Raw | s.packet.Padding):
            load = b"" if isinstance(layer, s.packet.Padding) else bytes(layer.load)
            layer.underlayer.remove_payload()
            break
    header_bytes = max(len(build(bare, seed, {})), ETHERNET_HEADER_BYTES)
    if frame_bytes < header_bytes:
        raise WorkloadError(
            f"a frame of {frame_bytes} bytes cannot hold the headers of {bare.summary()}: "
            f"the shortest has {header_bytes} bytes"
        )
    payload_bytes = frame_bytes - header_bytes
    load = load[:payload_bytes].ljust(payload_bytes, b"\0")
    return bare / s.packet.Raw(load) if load else bare


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    # scapy draws from the interpreter's own generator, which belongs to the user
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def _fill_addresses(s: SimpleNamespace, layer: Packet) -> None:
    open_addresses = {
        s.l2.SourceMACField: SRC_MAC,
        s.l2.DestMACField: DST_MAC,
        s.fields.SourceIPField: SRC_IP,
        s.inet.DestIPField: DST_IP,
        s.fields.SourceIP6Field: SRC_IP6,
        s.fields.DestIP6Field: DST_IP6,
    }
    for descriptor in layer.fields_desc:
        inner = inner_field(layer, descriptor)
        address = open_addresses.get(type(inner))
        # a multicast destination that the layer above brings along is not open: ff02::1 of ICMPv6 neighbours
        if address and layer.fields.get(inner.name) is None and inner.name not in layer.overloaded_fields:
            layer.setfieldval(inner.name, address)


def check_udp_checksum(layer: Packet, numbers: list[int | None]) -> None:
    """Refuse "no checksum" in a UDP layer on IPv6, where receivers drop it (RFC 8200, section 8.1)."""
    s = scapy()
    if 0 in numbers and _on_ipv6(s, layer):
        raise WorkloadError(
            "UDP.chksum: 0 is out of range on IPv6, which has no UDP without checksum; 1..65535"
        )


def _on_ipv6(s: SimpleNamespace, layer: Packet) -> bool:
    below = layer.underlayer
    while isinstance(below, s.inet6._IPv6ExtHdr):  # noqa: SLF001
        below = below.underlayer
    return isinstance(below, s.inet6.IPv6)


def _check_lengths(packet: Packet) -> None:
    layers = [layer for layer in layers_of(packet) if type(layer).__name__ != "Padding"]
    try:
        sizes = [len(header_of(layer)) for layer in layers]
    except BUILD_FAULTS as fault:
        raise WorkloadError(f"scapy cannot build {packet.summary()}: {fault}; check its fields") from fault
    for index, layer in enumerate(layers):
        name, uncounted = COUNTED.get(type(layer).__name__, ("", 0))
        length = sum(sizes[index:]) - uncounted
        if name and layer.getfieldval(name) is None and length > LONGEST:
            raise WorkloadError(
                f"{type(layer).__name__}.{name}: {length} is out of range 0..{LONGEST}; "
                f"the payload is {length - LONGEST} bytes too long"
            )


def fields_set(packet: Packet) -> list[dict[str, Any]]:
    """Layers of the packet with the fields that are set in each, as plain JSON values."""
    return [
        {
            "layer": type(layer).__name__,
            "fields": {
                name: _plain(value) for name, value in layer.fields.items() if value not in (None, [])
            },
        }
        for layer in layers_of(packet)
    ]


def _plain(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, bytes | bytearray):
        many = len(value) > SHOWN_BYTES
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()} if many else value.hex()
    # scapy's addresses are kinds of str, its enumerations kinds of int: JSON wants the bare ones
    if isinstance(value, bool | int):
        return int(value)
    return str(value) if isinstance(value, str) else repr(value)
