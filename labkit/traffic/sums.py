"""Which checksums a packet of scapy has, and what each covers.

Scapy's classes come as an argument: `frames` alone imports them.
"""

from __future__ import annotations

from types import SimpleNamespace

from labkit.traffic.fields import Packet, header_of, layers_of
from labkit.traffic.patch import Checksum


def checksums(s: SimpleNamespace, packet: Packet, payload_end: int) -> tuple[Checksum, ...]:
    """Checksums that scapy computes for this packet, lower layers first; not those set by hand."""
    found: list[Checksum] = []
    start, addresses = 0, None
    for layer in layers_of(packet):
        end = start + len(header_of(layer))
        if isinstance(layer, s.inet.IP):
            addresses = (start + 12, start + 20)
            if layer.chksum is None:
                found.append(Checksum(start + 10, ((start, end),)))
        elif isinstance(layer, s.inet6.IPv6):
            addresses = (start + 8, start + 40)
        elif addresses and _is_under_way(s, layer):
            # the pseudo-header holds the last address of the route instead (RFC 8200, section 8.1)
            addresses = (addresses[0], addresses[0] + 16)
        elif isinstance(layer, s.inet.ICMP) and layer.chksum is None:
            found.append(Checksum(start + 2, ((start, payload_end),)))
        elif addresses and (place := _transport_checksum(s, layer)):
            covers = addresses, (start, payload_end)
            is_udp = isinstance(layer, s.inet.UDP)
            found.append(Checksum(start + place, covers, pseudo_header=True, zero_is_ones=is_udp))
        start = end
    return tuple(found)


def _is_under_way(s: SimpleNamespace, layer: Packet) -> bool:
    """Whether this is a routing header with segments left."""
    routing = s.inet6.IPv6ExtHdrRouting | s.inet6.IPv6ExtHdrSegmentRouting
    return isinstance(layer, routing) and layer.segleft != 0 and bool(layer.addresses)


def _transport_checksum(s: SimpleNamespace, layer: Packet) -> int:
    """Where in `layer` the checksum stands that covers a pseudo-header; 0 when scapy computes none."""
    for of_layer, name, place in (
        (s.inet.UDP, "chksum", 6),
        (s.inet.TCP, "chksum", 16),
        (s.inet6._ICMPv6, "cksum", 2),  # noqa: SLF001 - the base of every ICMPv6 message
    ):
        if isinstance(layer, of_layer):
            return place if layer.getfieldval(name) is None else 0
    return 0
