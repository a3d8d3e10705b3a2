"""Fields of packets: how wide each is, which values fit it, where it lies.

Scapy's classes come as an argument: `frames` alone imports them.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

from labkit.errors import WorkloadError
from labkit.traffic.patch import Place
from labkit.traffic.texts import RANGES, READERS
from labkit.traffic.vary import LOWER

Packet: TypeAlias = Any
"""A packet of scapy, whose attributes are made at run time."""

BUILD_FAULTS = (
    struct.error,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OSError,
    IndexError,
    OverflowError,
)
"""What scapy raises on values that it cannot build."""

USUAL = {
    "mac": (READERS["mac"]("02:00:00:00:00:00"), READERS["mac"]("02:ff:ff:ff:ff:ff")),
    "ip4": (READERS["ip4"]("198.18.0.0"), READERS["ip4"]("198.19.255.255")),
}


@dataclass(frozen=True, slots=True, eq=False)
class PacketField:
    """One field of a packet: its name, its width, what its values look like, and where it lies."""

    name: str
    kind: str
    place: Place
    layer: Packet
    descriptor: Any

    @property
    def bits(self) -> int:
        """Width of the field."""
        return self.place.bits

    def number(self, value: object) -> int:
        """Number of `value`, itself a number or the field's own text; WorkloadError when it does not fit."""
        low = -(1 << (self.bits - 1)) if self.kind == "signed" else 0
        high = low + (1 << self.bits) - 1
        try:
            number = self._read(value)
        except BUILD_FAULTS:
            number = high + 1
        if not low <= number <= high:
            allowed = RANGES.get(self.kind, f"{low}..{high}")
            raise WorkloadError(f"{self.name}: {value!r} is out of range; it must be {allowed}")
        return number

    @property
    def usual(self) -> tuple[int, int]:
        """Range of random values when none is given; see `vary.randoms`."""
        if self.kind == "ip6":
            subnet = self.number(self.layer.getfieldval(self.descriptor.name)) >> 64 << 64
            return subnet, subnet | LOWER
        return USUAL.get(self.kind, (0, (1 << self.bits) - 1))

    def _read(self, value: object) -> int:
        if isinstance(value, str):
            if self.kind in READERS:
                return READERS[self.kind](value)
            # a name that scapy knows: flags "SA", port "domain"
            value = self.descriptor.any2i(self.layer, value)
        return operator.index(plain(value))


def plain(value: Any) -> Any:
    """Number within the object that scapy makes of flags; any other value as it is."""
    return getattr(value, "value", value)


def layers_of(packet: Packet) -> Iterator[Packet]:
    """Each layer of the packet, from the outermost."""
    while packet:
        yield packet
        packet = packet.payload


def header_of(layer: Packet) -> bytes:
    """Bytes of one layer alone, options padded; its lengths and checksums are those of an empty payload."""
    header: bytes = layer.post_build(layer.self_build(), b"")
    return header


def find(s: SimpleNamespace, packet: Packet, name: str) -> PacketField:
    """Find the field that `name` (``UDP.sport``) says, in the first layer of that name.

    Raises
    ------
    WorkloadError
        The packet has no such layer, or the layer no such field of fixed width and place.
    """
    layer_name, _, field_name = name.partition(".")
    start = 0
    for layer in layers_of(packet):
        if type(layer).__name__ == layer_name:
            break
        start += len(header_of(layer))
    else:
        there = ", ".join(type(layer).__name__ for layer in layers_of(packet))
        raise WorkloadError(f"{name}: the packet has no layer {layer_name!r}; it has {there}")
    bit = 8 * start
    known: dict[str, PacketField] = {}
    for descriptor in layer.fields_desc:
        if isinstance(descriptor, s.fields.ConditionalField) and not descriptor._evalcond(layer):  # noqa: SLF001
            continue
        inner = inner_field(layer, descriptor)
        kind, bits = _kind(s, inner)
        if not bits:
            break
        if kind != "signed":
            label = f"{layer_name}.{inner.name}"
            known[inner.name] = PacketField(label, kind, Place(bit, bits), layer, inner)
        bit += bits
    if field_name not in known:
        raise WorkloadError(f"{name}: no field of {layer_name} that can vary; those are {', '.join(known)}")
    return known[field_name]


def restructures(s: SimpleNamespace, field: PacketField) -> bool:
    """Whether a value of `field` may decide what else its layer holds, as `ICMP.type` does.

    Each of its values is then held against scapy. Layers whose every field has its one place are spared that.
    """
    plain_layers = s.l2.Ether | s.l2.Dot1Q | s.inet.IP | s.inet6.IPv6 | s.inet.UDP | s.inet.TCP
    return field.bits <= 8 and not isinstance(field.layer, plain_layers)


def check_layer(s: SimpleNamespace, layer: Packet) -> None:
    """Hold each value that the layer sets, options included, against the width of its field."""
    for name, value in layer.fields.items():
        if value is None or isinstance(value, s.packet.RawVal):
            continue
        inner = inner_field(layer, layer.get_field(name))
        kind, bits = _kind(s, inner)
        if bits:
            label = f"{type(layer).__name__}.{name}"
            PacketField(label, kind, Place(0, bits), layer, inner).number(value)
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, s.packet.Packet):
                for within in layers_of(part):
                    check_layer(s, within)


def inner_field(layer: Packet, descriptor: Any) -> Any:
    """Field within the containers that scapy wraps around it."""
    while hasattr(type(descriptor), "fld") or hasattr(descriptor, "flds"):
        multiple = hasattr(descriptor, "flds")
        descriptor = descriptor._find_fld_pkt(layer) if multiple else descriptor.fld  # noqa: SLF001
    return descriptor


def _kind(s: SimpleNamespace, inner: Any) -> tuple[str, int]:
    """What the field's values look like, and its width in bits; 0 when it holds no number of fixed width."""
    f = s.fields
    for of_kind, kind, bits in ((f.MACField, "mac", 48), (f.IPField, "ip4", 32), (f.IP6Field, "ip6", 128)):
        if isinstance(inner, of_kind):
            return kind, bits
    if isinstance(inner, f._BitField):  # noqa: SLF001
        return "number", abs(inner.size)
    packed = type(inner).addfield is f.Field.addfield or isinstance(inner, f.ThreeBytesField)
    if not packed or inner.fmt[-1] not in "BHIQbhiq":
        return "", 0
    return ("number" if inner.fmt[-1].isupper() else "signed"), 8 * int(inner.sz)
