"""What depends on an interface: default routes, ssh sessions, network file systems, bridges and bonds.

A change of settings may take the link down, and with it whatever stands on it. What cannot be read is told as
unknown, never as "nothing depends on it".
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from labkit.errors import WorkloadError
from labkit.linux.net_tables import Address, Route, established, plain_address, route_to, routes
from labkit.linux.network_mounts import NetworkMount, network_mounts

SSH_PORT: Final = 22
RTN_UNICAST: Final = 1
"""<linux/rtnetlink.h>: a route that leads somewhere, not one that refuses."""
DEVICES: Final = "sys/class/net"
MEMBERS: Final = {
    "brport": "a bridge forwards through it",
    "bonding_slave": "a bond sends through it",
    "bridge": "it is a bridge",
    "bonding": "it is a bond",
    "master": "it is a member of another interface",
}
"""Entries of a device's folder in sysfs that only a member or a master has."""

Addresses = Mapping[str, frozenset[Address]]


class Dependent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that stands on an interface, and where that was read."""

    what: str
    where: str


class ManagementFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known to depend on `interface`, and what could not be found out."""

    interface: str
    dependents: tuple[Dependent, ...]
    unknown: tuple[str, ...]


class NetlinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What only netlink tells: addresses of each interface, and every next hop of default routes.

    /proc/net/route shows the first next hop of a route alone.
    """

    addresses: Addresses
    default_interfaces: frozenset[str]


def netlink_facts() -> NetlinkFacts:
    """Read this thread's network namespace."""
    with IPRoute() as netlink:
        names = {link["index"]: str(link.get_attr("IFLA_IFNAME")) for link in netlink.get_links()}
        addresses: dict[str, set[Address]] = {name: set() for name in names.values()}
        for row in netlink.get_addr():
            # on a point-to-point link IFA_ADDRESS is the other end's
            text = row.get_attr("IFA_LOCAL") or row.get_attr("IFA_ADDRESS")
            addresses.setdefault(names.get(row["index"], ""), set()).add(plain_address(str(text)))
        hops = {
            index
            for family in (socket.AF_INET, socket.AF_INET6)
            for route in netlink.get_default_routes(family=family)
            if route["type"] == RTN_UNICAST
            for index in _next_hops(route)
        }
    return NetlinkFacts(
        addresses={name: frozenset(own) for name, own in addresses.items()},
        default_interfaces=frozenset(names[index] for index in hops if index in names),
    )


def _next_hops(route: Any) -> list[int]:
    """Interface indexes of a route's next hops."""
    several = [hop["oif"] for hop in route.get_attr("RTA_MULTIPATH") or ()]
    one = route.get_attr("RTA_OIF")
    return several if one is None else [*several, one]


def management_facts(
    interface: str,
    *,
    ssh_connection: str | None = None,
    netlink: Callable[[], NetlinkFacts] = netlink_facts,
    root: Path = Path("/"),
) -> ManagementFacts:
    """What depends on `interface`, or on one that is stacked on it (a VLAN, a bridge, a bond).

    Parameters
    ----------
    interface : str
        Name in the namespace of `root`'s /proc/net and sysfs.
    ssh_connection : str or None
        The variable SSH_CONNECTION as the user's own process has it; sudo takes it away.
    netlink : callable
        Reads what no file tells.
    root : Path
        Folder that holds proc and sys.

    Raises
    ------
    WorkloadError
        No interface can have this name.
    """
    if not interface or "/" in interface or interface in {".", ".."}:
        raise WorkloadError(f"{interface!r}: no interface can have this name")
    reader = _Reader(interface, root)
    reader.collect("interfaces stacked on it", reader.stack)
    reader.collect("default routes", lambda: reader.default_routes(netlink().default_interfaces))
    reader.collect("ssh sessions", lambda: reader.ssh_sessions(ssh_connection, netlink().addresses))
    reader.collect("network file systems", reader.file_systems)
    return ManagementFacts(
        interface=interface, dependents=tuple(reader.dependents), unknown=tuple(reader.unknown)
    )


class _Reader:
    """Collects, for one interface, what depends on it and what is unknown."""

    def __init__(self, interface: str, root: Path) -> None:
        self._interface = interface
        self._root = root
        self._stack = {interface}
        self.dependents: list[Dependent] = []
        self.unknown: list[str] = []

    def collect(self, what: str, read: Callable[[], list[Dependent]]) -> None:
        """Add what `read` finds; what it cannot read is unknown."""
        try:
            self.dependents += read()
        except (OSError, ValueError, NetlinkError) as error:
            self.unknown.append(f"{what}: {error}")

    def stack(self) -> list[Dependent]:
        """Learn which interfaces stand on this one, and whether it is a bridge's or bond's."""
        waiting, found = [self._interface], []
        while waiting:
            name = waiting.pop()
            entries = {entry.name for entry in (self._root / DEVICES / name).iterdir()}
            for entry in sorted(entries & MEMBERS.keys()):
                where = f"{DEVICES}/{name}/{entry}"
                found.append(Dependent(what=f"{MEMBERS[entry]}{self._by(name)}", where=where))
            uppers = {entry.removeprefix("upper_") for entry in entries if entry.startswith("upper_")}
            waiting += sorted(uppers - self._stack)
            self._stack |= uppers
        return found

    def default_routes(self, next_hops: frozenset[str]) -> list[Dependent]:
        """Tell default routes over the stack; those of `next_hops` that no file has shown too."""
        told = [each for each in routes(self._root) if each.is_default and each.interface in self._stack]
        hidden = (next_hops & self._stack) - {each.interface for each in told}
        return [
            *(
                Dependent(
                    what=f"the default route {each.network}{self._by(each.interface)}", where=each.source
                )
                for each in told
            ),
            *(
                Dependent(what=f"a next hop of a default route{self._by(name)}", where="netlink")
                for name in sorted(hidden)
            ),
        ]

    def ssh_sessions(self, ssh_connection: str | None, addresses: Addresses) -> list[Dependent]:
        """Tell ssh sessions whose own address an interface of the stack carries."""
        found = dict.fromkeys(self._on_address(ssh_connection, addresses))
        for each in established(self._root):
            if each.port != SSH_PORT:
                continue
            carriers = [name for name, own in addresses.items() if each.address in own]
            if not carriers:
                raise ValueError(f"{each.source}: no interface is known to carry {each.address}")
            found |= dict.fromkeys(self._sessions(each.address, carriers, each.source))
        return list(found)

    def _on_address(self, ssh_connection: str | None, addresses: Addresses) -> Iterator[Dependent]:
        """Sessions of SSH_CONNECTION: client's address and port, own address and port (ssh(1))."""
        if ssh_connection is None:
            return
        fields = ssh_connection.split()
        if len(fields) != 4:
            raise ValueError(f"SSH_CONNECTION is {ssh_connection!r}, not two addresses and two ports")
        address, (_, _, zone) = plain_address(fields[2]), fields[2].partition("%")
        # an address that this namespace lacks is another namespace's, and so is the session
        carriers = [zone] if zone else [name for name, own in addresses.items() if address in own]
        yield from self._sessions(address, carriers, "SSH_CONNECTION")

    def _sessions(self, address: Address, carriers: list[str], where: str) -> Iterator[Dependent]:
        for name in carriers:
            if name in self._stack:
                yield Dependent(what=f"an ssh session to {address}{self._by(name)}", where=where)

    def file_systems(self) -> list[Dependent]:
        """Tell network file systems whose server is reached over the stack."""
        mounts = network_mounts(self._root)
        known = routes(self._root) if mounts else []
        found = []
        for mount in mounts:
            interface = _carrier(mount, known)
            if interface is None:
                self.unknown.append(
                    f"{mount.what} ({mount.source}): no route to its server {mount.server or 'is told'}"
                )
            elif interface in self._stack:
                what = f"{mount.what} from {mount.server}{self._by(interface)}"
                found.append(Dependent(what=what, where=mount.source))
        return found

    def _by(self, name: str) -> str:
        """Say through which interface, where it is not the asked one."""
        return "" if name == self._interface else f", through {name}"


def _carrier(mount: NetworkMount, known: list[Route]) -> str | None:
    """Interface that leads to the server; None when that is not known (a host name, no route)."""
    try:
        address = plain_address(mount.server)
    except ValueError:
        return None
    if address.is_loopback:
        return "lo"
    route = route_to(address, known)
    return None if route is None else route.interface
