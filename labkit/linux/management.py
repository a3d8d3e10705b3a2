"""What depends on an interface: default routes, ssh sessions, network file systems, bridges and their like.

A change of settings may take the link down, and with it whatever stands on it. What cannot be read is told as
unknown, never as "nothing depends on it".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from pyroute2.netlink.exceptions import NetlinkError

from labkit.errors import WorkloadError
from labkit.linux.net_facts import Addresses, NetlinkFacts, netlink_facts
from labkit.linux.net_tables import established, plain_address
from labkit.linux.network_mounts import NetworkMount, network_mounts

SSH_PORT: Final = 22
DEVICES: Final = "sys/class/net"
MEMBERS: Final = {
    "brport": "a bridge forwards through it",
    "bonding_slave": "a bond sends through it",
    "bridge": "it is a bridge",
    "bonding": "it is a bond",
}
"""Entries of a device's folder in sysfs that only a member or a master has."""
OPEN_VSWITCH: Final = "ovs-system"
"""Master of every interface that Open vSwitch forwards through (net/openvswitch/vport-netdev.c)."""


class Dependent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that stands on an interface, and where that was read."""

    what: str
    where: str


class ManagementFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known to depend on `interface`, and what could not be found out."""

    interface: str
    dependents: tuple[Dependent, ...]
    unknown: tuple[str, ...]


def management_facts(
    interface: str,
    *,
    ssh_connection: str | None = None,
    netlink: Callable[[], NetlinkFacts] = netlink_facts,
    root: Path = Path("/"),
) -> ManagementFacts:
    """What depends on `interface`, or on one that is stacked on it (a VLAN, a bridge, a bond, a tunnel).

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
    reader.collect("routes, addresses and tunnels", lambda: reader.ask(netlink))
    reader.collect("interfaces stacked on it", reader.stack)
    reader.collect("default routes", reader.default_routes)
    reader.collect("ssh sessions", lambda: reader.ssh_sessions(ssh_connection))
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
        self._adrift: dict[str, str] = {}
        self._net = NetlinkFacts(addresses={}, routes=(), tunnels=())
        self.dependents: list[Dependent] = []
        self.unknown: list[str] = []

    def collect(self, what: str, read: Callable[[], None]) -> None:
        """Add what `read` finds; what it cannot read is unknown."""
        try:
            read()
        except (OSError, ValueError, NetlinkError) as error:
            self.unknown.append(f"{what}: {error}")

    def ask(self, netlink: Callable[[], NetlinkFacts]) -> None:
        """Learn what netlink tells; what stands on it tells nothing where this failed."""
        self._net = netlink()

    def stack(self) -> None:
        """Learn which interfaces stand on this one, and whether it is a bridge's or the like."""
        lost = {each.name: each.kind for each in self._net.tunnels if not self._net.carriers(each)[1]}
        for name, kind in lost.items():
            # one that is gone by now carries nothing
            if (self._root / DEVICES / name).exists():
                self._adrift |= dict.fromkeys(self._climb(name), f"{name} ({kind})")
        self._stack = set()
        for name in self._climb(self._interface):
            self._stack.add(name)
            for what, entry in self._membership(name):
                self._add(f"{what}{self._by(name)}", f"{DEVICES}/{name}/{entry}")

    def default_routes(self) -> None:
        """Tell default routes over the stack, those of policy routing's tables too."""
        for each in self._net.routes:
            if each.is_default:
                self._tell(each.interface, f"the default route {each.network}", each.source)

    def ssh_sessions(self, ssh_connection: str | None) -> None:
        """Tell ssh sessions whose own address an interface of the stack carries."""
        addresses = self._net.addresses
        for name, what in self._on_address(ssh_connection, addresses):
            self._tell(name, what, "SSH_CONNECTION")
        for each in established(self._root):
            if each.port != SSH_PORT:
                continue
            carriers = [name for name, own in addresses.items() if each.address in own]
            if not carriers:
                raise ValueError(f"{each.source}: no interface is known to carry {each.address}")
            for name in carriers:
                self._tell(name, f"an ssh session to {each.address}", each.source)

    def file_systems(self) -> None:
        """Tell network file systems and disks whose server is reached over the stack."""
        for mount in network_mounts(self._root):
            carriers = self._leading_to(mount)
            if not carriers:
                self._doubt(
                    f"{mount.what} ({mount.source}): no route to its server {mount.server or 'is told'}"
                )
            for name in sorted(carriers):
                self._tell(name, f"{mount.what} from {mount.server}", mount.source)

    def _climb(self, name: str) -> Iterator[str]:
        """`name`, and everything that stands on it, as sysfs and tunnels tell."""
        waiting, seen = [name], {name}
        while waiting:
            name = waiting.pop()
            yield name
            entries = (entry.name for entry in (self._root / DEVICES / name).iterdir())
            uppers = {entry.removeprefix("upper_") for entry in entries if entry.startswith("upper_")}
            uppers |= {each.name for each in self._net.tunnels if name in self._net.carriers(each)[0]}
            waiting += sorted(uppers - seen)
            seen |= uppers

    def _membership(self, name: str) -> Iterator[tuple[str, str]]:
        """What makes `name` a part of something larger, or something larger, and the entry that says so."""
        folder = self._root / DEVICES / name
        entries = sorted(entry for entry in MEMBERS if (folder / entry).exists())
        yield from ((MEMBERS[entry], entry) for entry in entries)
        master = folder / "master"
        if master.is_symlink() and not {"brport", "bonding_slave"} & set(entries):
            above = master.readlink().name
            vswitch = "Open vSwitch forwards through it"
            yield vswitch if above == OPEN_VSWITCH else f"it is a member of {above}", "master"
        members = sorted(
            link.parent.name
            for link in (self._root / DEVICES).glob("*/master")
            if link.is_symlink() and link.readlink().name == name
        )
        if members and not {"bridge", "bonding"} & set(entries):
            yield f"{', '.join(members)} send through it", f"../{members[0]}/master"

    def _on_address(self, ssh_connection: str | None, addresses: Addresses) -> Iterator[tuple[str, str]]:
        """Sessions of SSH_CONNECTION: client's address and port, own address and port (ssh(1))."""
        if ssh_connection is None:
            return
        fields = ssh_connection.split()
        if len(fields) != 4:
            raise ValueError(f"SSH_CONNECTION is {ssh_connection!r}, not two addresses and two ports")
        address, (_, _, zone) = plain_address(fields[2]), fields[2].partition("%")
        # an address that this namespace lacks is another namespace's, and so is the session
        for name in [zone] if zone else [name for name, own in addresses.items() if address in own]:
            yield name, f"an ssh session to {address}"

    def _leading_to(self, mount: NetworkMount) -> frozenset[str]:
        """Interfaces that may lead to the server; none when that is not known (a host name, no route)."""
        try:
            return self._net.leading_to(plain_address(mount.server))
        except ValueError:
            return frozenset()

    def _tell(self, name: str, what: str, where: str) -> None:
        """Add what stands on interface `name`, if that is on the stack or may be."""
        if name in self._stack:
            self._add(f"{what}{self._by(name)}", where)
        elif name in self._adrift:
            self._doubt(f"{what}: what carries the tunnel {self._adrift[name]} is not known")

    def _add(self, what: str, where: str) -> None:
        found = Dependent(what=what, where=where)
        if found not in self.dependents:
            self.dependents.append(found)

    def _doubt(self, reason: str) -> None:
        if reason not in self.unknown:
            self.unknown.append(reason)

    def _by(self, name: str) -> str:
        """Say through which interface, where it is not the asked one."""
        return "" if name == self._interface else f", through {name}"
