"""A fake /proc and /sys of a machine with four interfaces, for the guard's tests.

eth0 has the default route and 192.0.2.10; eth1 has 198.51.100.10 and a route to 203.0.113.0/24; eth2 and eth3
are idle.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

from labkit.linux.management import ManagementFacts, management_facts
from labkit.linux.net_facts import NetlinkFacts, Tunnel
from labkit.linux.net_tables import Route

ANY = "0.0.0.0"  # noqa: S104 - an address in a file, no socket binds to it
TCP_HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
)
MOUNT = "22 1 0:21 / /proc rw,relatime - proc proc rw\n"
ADDRESSES = {
    "lo": frozenset({ip_address("127.0.0.1"), ip_address("::1")}),
    "eth0": frozenset({ip_address("192.0.2.10"), ip_address("2001:db8::10")}),
    "eth1": frozenset({ip_address("198.51.100.10"), ip_address("2001:db8:1::10")}),
    "eth2": frozenset(),
    "eth3": frozenset(),
}


def hex_words(address: str) -> str:
    """Write an address as /proc/net/tcp writes it: words in the machine's byte order."""
    packed = ip_address(address).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def route(interface: str, network: str, *, metric: int = 0, table: str = "main") -> Route:
    return Route(
        interface=interface,
        network=ip_network(network),
        metric=metric,
        source=f"routing table {table}",
    )


def tunnel(name: str, *endpoints: str, kind: str = "wireguard", bound_to: str | None = None) -> Tunnel:
    ends = tuple(ip_address(endpoint) for endpoint in endpoints)
    return Tunnel(name=name, kind=kind, endpoints=ends, bound_to=bound_to)


def tcp_row(address: str, port: int, *, state: int = 1) -> str:
    remote = hex_words("192.0.2.99" if "." in address and ":" not in address else "2001:db8::99") + ":C001"
    return (
        f"   0: {hex_words(address)}:{port:04X} {remote} {state:02X} 00000000:00000000 00:00000000 0 0 0 1\n"
    )


class Tree:
    """The fake machine; every file may be replaced before the facts are asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.addresses = dict(ADDRESSES)
        self.routes = [
            route("eth0", "0.0.0.0/0"),
            route("eth0", "::/0", metric=1024),
            route("eth0", "192.0.2.0/24"),
            route("eth1", "198.51.100.0/24"),
            route("eth1", "203.0.113.0/24"),
        ]
        self.tunnels: list[Tunnel] = []
        for name in ADDRESSES:
            self.device(name)
        self.write("proc/net/if_inet6", "")
        self.write("proc/net/tcp", TCP_HEAD)
        self.write("proc/net/tcp6", TCP_HEAD)
        self.write("proc/self/mountinfo", MOUNT)

    def device(self, name: str, *entries: str) -> None:
        for entry in ("ifindex", *entries):
            self.write(f"sys/class/net/{name}/{entry}", "1")

    def master(self, member: str, name: str) -> None:
        """Make device `member` one of `name`'s, as netdev_master_upper_dev_link does."""
        self.device(name)
        self.device(member, f"upper_{name}/ifindex")
        (self.root / f"sys/class/net/{member}/master").symlink_to(f"../{name}")

    def write(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def append(self, name: str, content: str) -> None:
        self.write(name, (self.root / name).read_text() + content)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def mount(self, kind: str, device: str, options: str, on: str = "/home") -> None:
        self.append("proc/self/mountinfo", f"36 22 0:9 / {on} rw shared:7 - {kind} {device} {options}\n")

    def facts(self, interface: str, ssh_connection: str | None = None) -> ManagementFacts:
        told = NetlinkFacts(addresses=self.addresses, routes=tuple(self.routes), tunnels=tuple(self.tunnels))
        return management_facts(
            interface, ssh_connection=ssh_connection, netlink=lambda: told, root=self.root
        )
