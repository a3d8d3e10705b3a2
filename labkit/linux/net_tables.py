"""Routes and TCP connections of a network namespace, as the text files of /proc/net tell them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

RTF_UP: Final = 0x1
RTF_REJECT: Final = 0x200
"""<linux/route.h>: the route is in use; the route refuses (unreachable, prohibit, blackhole)."""
ESTABLISHED: Final = 1
"""TCP_ESTABLISHED of include/net/tcp_states.h."""
DEFAULT_PREFIX_BITS: Final = {4: 1, 6: 3}
"""Longest prefix, by version, of a route that acts as a default one: 0.0.0.0/1 of tunnels, 2000::/3."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route, and the file that told it."""

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


def routes(root: Path) -> list[Route]:
    """Read every route that is up and does not refuse.

    IPv4 are those of table main with the first next hop of each (`fib_route_seq_show`, net/ipv4/fib_trie.c);
    IPv6 are those of all tables.

    Raises
    ------
    OSError, ValueError
        A file is missing or unreadable, or has another form.
    """
    found = [_ipv4_route(line) for line in (root / IPV4_ROUTES).read_text().splitlines()[1:] if line.strip()]
    if _has_ipv6(root):
        found += [_ipv6_route(line) for line in (root / IPV6_ROUTES).read_text().splitlines()]
    return [route for route in found if route is not None]


def established(root: Path) -> Iterator[Connection]:
    """Established TCP connections of IPv4 and IPv6; raises as `routes` does."""
    for name in (IPV4_TCP, IPV6_TCP) if _has_ipv6(root) else (IPV4_TCP,):
        for line in (root / name).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            address, _, port = local.partition(":")
            if int(state, 16) == ESTABLISHED:
                yield Connection(address=_address(address), port=int(port, 16), source=name)


def route_to(address: Address, known: Sequence[Route]) -> Route | None:
    """Route that the kernel takes to `address`: the longest prefix, then the smallest metric."""
    fitting = [route for route in known if address in route.network]
    return min(fitting, key=lambda route: (-route.network.prefixlen, route.metric), default=None)


def plain_address(text: str) -> Address:
    """Address without zone or the IPv6 form of an IPv4 address; a ValueError where `text` is none."""
    address = ip_address(text.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


IPV4_ROUTES: Final = "proc/net/route"
IPV6_ROUTES: Final = "proc/net/ipv6_route"
IPV4_TCP: Final = "proc/net/tcp"
IPV6_TCP: Final = "proc/net/tcp6"
IPV6_ADDRESSES: Final = "proc/net/if_inet6"


def _has_ipv6(root: Path) -> bool:
    """Whether the kernel has IPv6: without it none of the three files is there."""
    return any((root / name).exists() for name in (IPV6_ADDRESSES, IPV6_ROUTES, IPV6_TCP))


def _ipv4_route(line: str) -> Route | None:
    interface, destination, _, flags, _, _, metric, mask, *_ = line.split()
    network = IPv4Network((int(_address(destination)), int(_address(mask)).bit_count()))
    return _route(interface, network, int(metric), int(flags, 16), IPV4_ROUTES)


def _ipv6_route(line: str) -> Route | None:
    destination, prefix, _, _, _, metric, _, _, flags, interface = line.split()
    network = IPv6Network((int(destination, 16), int(prefix, 16)))
    return _route(interface, network, int(metric, 16), int(flags, 16), IPV6_ROUTES)


def _route(interface: str, network: Network, metric: int, flags: int, source: str) -> Route | None:
    usable = flags & RTF_UP and not flags & RTF_REJECT
    return Route(interface=interface, network=network, metric=metric, source=source) if usable else None


def _address(text: str) -> Address:
    """Address from 32-bit words in hexadecimal, each in the machine's own byte order."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    address = ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
