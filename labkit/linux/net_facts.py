"""Addresses, routes of every table, and tunnels of a network namespace, as netlink tells them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final

import msgspec
from pyroute2 import IPRoute, WireGuard
from pyroute2.netlink.exceptions import NetlinkError

from labkit.linux.net_tables import Address, Route, carriers_of, plain_address

# <linux/rtnetlink.h>: a route that leads somewhere, not one that refuses; names of tables
RTN_UNICAST: Final = 1
TABLES: Final = {253: "default", 254: "main", 255: "local"}
AF_BRIDGE: Final = 7
ANYWHERE: Final = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}  # noqa: S104 - a destination
TUNNELS: Final = frozenset(
    (
        "wireguard gre gretap erspan ip6gre ip6gretap ip6erspan ipip sit ip6tnl vti vti6 vxlan geneve "
        "bareudp gtp amt l2tpeth ppp tun xfrm ovpn"
    ).split()
)
"""Kinds of links whose packets leave in other packets, over another interface."""

Addresses = Mapping[str, frozenset[Address]]


class Tunnel(msgspec.Struct, frozen=True, kw_only=True):
    """A link whose packets another interface carries, without a word of that in sysfs.

    Attributes
    ----------
    name, kind : str
        The link, and what it is.
    endpoints : tuple of Address
        Other ends, as far as the kernel knows them; it knows none of a program's tunnel.
    bound_to : str or None
        The interface that the tunnel itself names.
    """

    name: str
    kind: str
    endpoints: tuple[Address, ...]
    bound_to: str | None


class NetlinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What only netlink tells: own addresses of each interface, all routes, all tunnels."""

    addresses: Addresses
    routes: tuple[Route, ...]
    tunnels: tuple[Tunnel, ...]

    def leading_to(self, address: Address) -> frozenset[str]:
        """Interfaces that may lead to `address`: that of each table; empty when there is no route."""
        if address.is_loopback or any(address in own for own in self.addresses.values()):
            return frozenset({"lo"})
        return carriers_of(address, self.routes)

    def carriers(self, tunnel: Tunnel) -> tuple[frozenset[str], bool]:
        """Interfaces that may carry `tunnel`, and whether there can be no others."""
        ways = [self.leading_to(endpoint) - {tunnel.name} for endpoint in tunnel.endpoints]
        if tunnel.bound_to is not None:
            ways.append(frozenset({tunnel.bound_to}))
        return frozenset().union(*ways), bool(ways) and all(ways)


def netlink_facts() -> NetlinkFacts:
    """Read this thread's network namespace.

    Raises
    ------
    OSError, NetlinkError, ValueError
        The kernel refuses, or tells a route without its interface.
    """
    with IPRoute() as netlink:
        links = list(netlink.get_links())
        names = {link["index"]: str(link.get_attr("IFLA_IFNAME")) for link in links}
        addresses: dict[str, set[Address]] = {name: set() for name in names.values()}
        for row in netlink.get_addr():
            # on a point-to-point link IFA_ADDRESS is the other end's
            text = row.get_attr("IFA_LOCAL") or row.get_attr("IFA_ADDRESS")
            addresses.setdefault(names.get(row["index"], ""), set()).add(plain_address(str(text)))
        rows = [row for family in ANYWHERE for row in netlink.get_routes(family=family)]
        far_ends = [(row["ifindex"], row.get_attr("NDA_DST")) for row in netlink.get_neighbours(AF_BRIDGE)]
    return NetlinkFacts(
        addresses={name: frozenset(own) for name, own in addresses.items()},
        routes=tuple(dict.fromkeys(route for row in rows for route in routes_of(row, names))),
        tunnels=tuple(tunnels_of(links, names, far_ends)),
    )


def routes_of(row: Any, names: Mapping[int, str]) -> Iterator[Route]:
    """One route for each next hop of a netlink message; none where it refuses or is local.

    Raises
    ------
    ValueError
        It leads to a next hop object that the kernel does not spell out.
    """
    if row["type"] != RTN_UNICAST:
        return
    text = f"{row.get_attr('RTA_DST') or ANYWHERE[row['family']]}/{row['dst_len']}"
    table = row.get_attr("RTA_TABLE") or row["table"]
    where = f"routing table {TABLES.get(table, table)}"
    hops = [hop["oif"] for hop in row.get_attr("RTA_MULTIPATH") or ()]
    one = row.get_attr("RTA_OIF")
    hops += [] if one is None else [one]
    if not hops:
        raise ValueError(f"{where}: the route {text} does not tell its interface")
    for index in hops:
        yield Route(
            interface=names.get(index, f"interface {index}"),
            network=ip_network(text),
            metric=row.get_attr("RTA_PRIORITY") or 0,
            source=where,
        )


def tunnels_of(
    links: Iterable[Any], names: Mapping[int, str], far_ends: Iterable[tuple[int, str | None]]
) -> Iterator[Tunnel]:
    """Tunnels among netlink's `links`; `far_ends` are rows of forwarding tables: link, other end."""
    learned = list(far_ends)
    for link in links:
        info = link.get_attr("IFLA_LINKINFO")
        kind = "" if info is None else str(info.get_attr("IFLA_INFO_KIND"))
        # what carries one with IFLA_LINK_NETNSID is an interface of another namespace
        if kind not in TUNNELS or link.get_attr("IFLA_LINK_NETNSID") is not None:
            continue
        name, data = names[link["index"]], info.get_attr("IFLA_INFO_DATA")
        known = [(slot[0], slot[1]) for slot in data["attrs"]] if isinstance(data, dict) else []
        ends = [text for word, text in known if word.endswith(("_REMOTE", "_REMOTE6", "_GROUP", "_GROUP6"))]
        ends += [end for index, end in learned if index == link["index"]]
        ends += _wireguard_ends(name) if kind == "wireguard" else []
        bound = [int(index) for word, index in known if word.endswith("_LINK")]
        yield Tunnel(
            name=name,
            kind=kind,
            endpoints=tuple(_addresses(ends)),
            bound_to=next((names[index] for index in bound if index in names), None),
        )


def _addresses(ends: Iterable[object]) -> Iterator[Address]:
    """Addresses among `ends`; a tunnel without one has its far end wherever packets say."""
    for end in dict.fromkeys(str(end) for end in ends):
        with contextlib.suppress(ValueError):
            if not (address := plain_address(end)).is_unspecified:
                yield address


def _wireguard_ends(name: str) -> list[str]:
    """Peers' addresses; none where the kernel does not tell us, which then counts as unknown."""
    with contextlib.suppress(OSError, NetlinkError), WireGuard() as wireguard:
        return [
            end["addr"]
            for answer in wireguard.info(name)
            for peer in answer.get_attr("WGDEVICE_A_PEERS") or ()
            if (end := peer.get_attr("WGPEER_A_ENDPOINT"))
        ]
    return []
