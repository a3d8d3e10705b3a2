"""Addresses as text and as numbers. Stricter than scapy: what is no address is an error, not ASCII bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from labkit.errors import WorkloadError

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)


def mac_number(text: str) -> int:
    """Number of a MAC address written in six pairs of hex digits with colons."""
    if not MAC.fullmatch(text):
        raise ValueError(text)
    return int(text.replace(":", ""), 16)


def mac_text(number: int) -> str:
    """Text of a MAC address."""
    return number.to_bytes(6, "big").hex(":")


READERS: Final[Mapping[str, Callable[[str], int]]] = {
    "mac": mac_number,
    "ip4": lambda text: int(IPv4Address(text)),
    "ip6": lambda text: int(IPv6Address(text)),
}
WRITERS: Final[Mapping[str, Callable[[int], str]]] = {
    "mac": mac_text,
    "ip4": lambda number: str(IPv4Address(number)),
    "ip6": lambda number: str(IPv6Address(number)),
}
RANGES: Final[Mapping[str, str]] = {
    "mac": "six pairs of hex digits with colons, 00:00:00:00:00:00 to ff:ff:ff:ff:ff:ff",
    "ip4": "an IPv4 address, 0.0.0.0 to 255.255.255.255",
    "ip6": "an IPv6 address, :: to ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
}
"""Kinds of fields that are written as text, and what they may be."""


def check_text(name: str, kind: str, text: str) -> None:
    """Refuse `text` when it is no address of its kind."""
    try:
        READERS[kind](text)
    except ValueError as fault:
        raise WorkloadError(f"{name}: {text!r} is out of range; it must be {RANGES[kind]}") from fault
