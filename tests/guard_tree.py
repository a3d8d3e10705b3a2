"""A fake /proc and /sys of a machine with four interfaces, for the guard's tests.

eth0 has the default route and 192.0.2.10; eth1 has 198.51.100.10 and a route to 203.0.113.0/24; eth2 and eth3
are idle.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address
from pathlib import Path

from labkit.linux.management import ManagementFacts, NetlinkFacts, management_facts

ANY = "0.0.0.0"  # noqa: S104 - a destination, no socket binds to it
ROUTE_HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
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
    """Write an address as /proc/net/tcp and /proc/net/route write it: words in the machine's byte order."""
    packed = ip_address(address).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def ipv4_route(interface: str, network: str, mask: str, *, flags: int = 1, metric: int = 0) -> str:
    fields = [interface, hex_words(network), "00000000", f"{flags:04X}", "0", "0", str(metric)]
    return "\t".join([*fields, hex_words(mask), "0", "0", "0"]) + "\n"


def ipv6_route(interface: str, network: str, prefix: int, *, flags: int = 1, metric: int = 1024) -> str:
    zero = "0" * 32
    words = [ip_address(network).packed.hex(), f"{prefix:02x}", zero, "00", zero, f"{metric:08x}"]
    return " ".join([*words, "00000001", "00000000", f"{flags:08x}", interface]) + "\n"


def tcp_row(address: str, port: int, *, state: int = 1) -> str:
    remote = hex_words("192.0.2.99" if "." in address and ":" not in address else "2001:db8::99") + ":C001"
    return (
        f"   0: {hex_words(address)}:{port:04X} {remote} {state:02X} 00000000:00000000 00:00000000 0 0 0 1\n"
    )


class Tree:
    """The fake machine; every file may be replaced before the facts are asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.next_hops = frozenset({"eth0"})
        for name in ADDRESSES:
            self.device(name)
        self.write(
            "proc/net/route",
            ROUTE_HEAD
            + ipv4_route("eth0", ANY, ANY, flags=3)
            + ipv4_route("eth0", "192.0.2.0", "255.255.255.0")
            + ipv4_route("eth1", "198.51.100.0", "255.255.255.0")
            + ipv4_route("eth1", "203.0.113.0", "255.255.255.0", flags=3),
        )
        self.write(
            "proc/net/ipv6_route", ipv6_route("eth0", "::", 0) + ipv6_route("lo", "::", 0, flags=0x200200)
        )
        self.write("proc/net/if_inet6", "")
        self.write("proc/net/tcp", TCP_HEAD)
        self.write("proc/net/tcp6", TCP_HEAD)
        self.write("proc/self/mountinfo", MOUNT)

    def device(self, name: str, *entries: str) -> None:
        for entry in ("ifindex", *entries):
            self.write(f"sys/class/net/{name}/{entry}", "1")

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
        told = NetlinkFacts(addresses=ADDRESSES, default_interfaces=self.next_hops)
        return management_facts(
            interface, ssh_connection=ssh_connection, netlink=lambda: told, root=self.root
        )
