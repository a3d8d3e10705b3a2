"""Routes of a network namespace, and its TCP connections as the text files of /proc/net tell them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

ESTABLISHED: Final = 1
"""TCP_ESTABLISHED of include/net/tcp_states.h."""
DEFAULT_PREFIX_BITS: Final = {4: 1, 6: 3}
"""Longest prefix, by version, of a route that acts as a default one: 0.0.0.0/1 of tunnels, 2000::/3."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One way of a route, and the table that it is in."""

    interface: str
    network: Network
    metric: int
    source: str

    @property
    def is_default(self) -> bool:
        """Whether it takes whatever no other route takes."""
        return self.network.prefixlen <= DEFAULT_PREFIX_BITS[self.network.version]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One established TCP connection's own end, and the file that told it."""

    address: Address
    port: int
    source: str


def established(root: Path) -> Iterator[Connection]:
    """Established TCP connections of IPv4 and IPv6.

    Raises
    ------
    OSError, ValueError
        A file is missing or unreadable, or has another form.
    """
    for name in (IPV4_TCP, IPV6_TCP) if _has_ipv6(root) else (IPV4_TCP,):
        for line in (root / name).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            address, _, port = local.partition(":")
            if int(state, 16) == ESTABLISHED:
                yield Connection(address=_address(address), port=int(port, 16), source=name)


def carriers_of(address: Address, known: Iterable[Route]) -> frozenset[str]:
    """Interfaces that the kernel may take to `address`.

    Each table's choice counts, that is its longest prefix, then its smallest metric: which table is asked
    depends on rules, and on marks that a packet gets on its way.
    """
    best: dict[str, tuple[int, int]] = {}
    carriers: dict[str, set[str]] = {}
    for route in known:
        if address not in route.network:
            continue
        rank = (-route.network.prefixlen, route.metric)
        if rank < best.get(route.source, (1, 0)):
            best[route.source], carriers[route.source] = rank, set()
        if rank == best[route.source]:
            carriers[route.source].add(route.interface)
    return frozenset().union(*carriers.values())


def plain_address(text: str) -> Address:
    """Address without zone or the IPv6 form of an IPv4 address; a ValueError where `text` is none."""
    address = ip_address(text.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


IPV4_TCP: Final = "proc/net/tcp"
IPV6_TCP: Final = "proc/net/tcp6"
IPV6_ADDRESSES: Final = "proc/net/if_inet6"


def _has_ipv6(root: Path) -> bool:
    """Whether the kernel has IPv6: without it neither file is there."""
    return any((root / name).exists() for name in (IPV6_ADDRESSES, IPV6_TCP))


def _address(text: str) -> Address:
    """Address from 32-bit words in hexadecimal, each in the machine's own byte order."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    address = ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
