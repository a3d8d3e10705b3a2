"""Links and their queueing disciplines over netlink (pyroute2); one `Links` is one network namespace."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import msgspec
from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool, NotSupportedError
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import tcmsg

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.linux.netlink_refusals import Refusal, error_of
from labkit.linux.tbf import TBF_BURST_BYTES, tbf_burst_bytes
from labkit.units import ETHERNET_HEADER_BYTES

QDISC_KINDS = ("noqueue", "pfifo", "bfifo", "tbf")
# both fifos are told by the same struct tc_fifo_qopt (<linux/pkt_sched.h>); pyroute2 knows it as pfifo only
tcmsg.plugins.setdefault("bfifo", tcmsg.plugins["pfifo"])


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a link says of itself."""

    name: str
    ifindex: int
    mac: str
    mtu: int
    up: bool
    carrier: bool
    carrier_changes: int
    operational: bool
    txqueuelen: int


class Qdisc(msgspec.Struct, frozen=True, kw_only=True):
    """Root queueing discipline: `limit` in packets (pfifo) or bytes (bfifo, tbf), rate in bits per second."""

    kind: str
    limit: int | None = None
    rate_bps: int | None = None


class QdiscCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Packets that a qdisc dropped since it was added, those that wait in it, and those it got back.

    Attributes
    ----------
    requeued : int or None
        How often it took packets back because the device below was full; None for noqueue, which takes none.
    """

    dropped: int
    queued: int
    requeued: int | None


class Links:
    """Netlink requests in the namespace in which the object was made."""

    def __init__(self) -> None:
        self._ip = IPRoute()

    def close(self) -> None:
        """Close the netlink socket."""
        self._ip.close()

    def add_veth(self, name: str, mac: str, peer: str, peer_mac: str, peer_network: int) -> None:
        """Join this namespace with `peer_network` (a descriptor) by a veth pair, both ends down."""
        other = {"ifname": peer, "address": peer_mac, "net_ns_fd": peer_network}
        self._ask(
            f"veth pair {name}/{peer}", "link", "add", ifname=name, kind="veth", address=mac, peer=other
        )

    def add_ifb(self, name: str, mac: str) -> None:
        """Add an ifb device: it counts and drops what is sent to it."""
        self._ask(f"ifb device {name}", "link", "add", ifname=name, kind="ifb", address=mac)

    def index(self, name: str) -> int:
        """Interface index of `name`."""
        found = self._ip.link_lookup(ifname=name)
        if not found:
            raise LabError(f"{name}: no such interface in this namespace")
        return int(found[0])

    def names(self) -> list[str]:
        """Names of every link."""
        return [str(link.get_attr("IFLA_IFNAME")) for link in self._ip.get_links()]

    def facts(self, name: str) -> LinkFacts:
        """Read a link's state."""
        link = self._link(name)
        return LinkFacts(
            name=name,
            ifindex=int(link["index"]),
            mac=str(link.get_attr("IFLA_ADDRESS")),
            mtu=int(link.get_attr("IFLA_MTU")),
            up=link["state"] == "up",
            carrier=link.get_attr("IFLA_CARRIER") == 1,
            carrier_changes=int(link.get_attr("IFLA_CARRIER_CHANGES")),
            # after both ends of a pair come up the qdisc stays noop for some milliseconds: frames sent then
            # are taken and lost without a count. A device without a carrier of its own says UNKNOWN
            operational=link.get_attr("IFLA_OPERSTATE") in {"UP", "UNKNOWN"}
            and link.get_attr("IFLA_QDISC") != "noop",
            txqueuelen=int(link.get_attr("IFLA_TXQLEN")),
        )

    def permanent_address(self, name: str) -> str | None:
        """Address that the hardware was made with; None where there is no hardware."""
        found = self._link(name).get_attr("IFLA_PERM_ADDRESS")
        return None if found is None else str(found)

    def set_up(self, name: str, *, up: bool) -> None:
        """Bring a link up or down."""
        self._ask(
            f"{name} {'up' if up else 'down'}", "link", "set", ifname=name, state="up" if up else "down"
        )

    def set_promiscuous(self, name: str) -> None:
        """Let a link take in what is addressed to others."""
        self._ask(f"{name}: promiscuous", "link", "set", ifname=name, flags=PROMISCUOUS, change=PROMISCUOUS)

    def move(self, name: str, network: int) -> None:
        """Move a link to another network namespace (a descriptor); it arrives there down."""
        self._ask(f"{name} to another namespace", "link", "set", ifname=name, net_ns_fd=network)

    def set_mtu(self, name: str, mtu: int) -> None:
        """Set the largest payload in bytes."""
        self._ask(f"{name}: MTU {mtu}", "link", "set", ifname=name, mtu=mtu)

    def set_txqueuelen(self, name: str, packets: int) -> None:
        """Set the device's queue length in packets; a qdisc added later takes it as its limit."""
        self._ask(f"{name}: txqueuelen {packets}", "link", "set", ifname=name, txqlen=packets)

    def qdisc(self, name: str) -> Qdisc:
        """Read the root qdisc."""
        found = self._root(name)
        if found is None:
            return Qdisc(kind="noqueue")
        kind, options = str(found.get_attr("TCA_KIND")), found.get_attr("TCA_OPTIONS")
        if kind == "tbf":
            parms = options.get_attr("TCA_TBF_PARMS")
            return Qdisc(kind=kind, limit=int(parms["limit"]), rate_bps=int(parms["rate"]) * 8)
        limit = options.get("limit") if isinstance(options, dict) and kind in {"pfifo", "bfifo"} else None
        return Qdisc(kind=kind, limit=None if limit is None else int(limit))

    def qdisc_counts(self, name: str) -> QdiscCounts:
        """Packets that the root qdisc dropped since it was added, and holds now; noqueue keeps none."""
        found = self._root(name)
        if found is None or found.get_attr("TCA_KIND") == "noqueue":
            return QdiscCounts(dropped=0, queued=0, requeued=None)
        stats = found.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")
        return QdiscCounts(
            dropped=int(stats["drops"]), queued=int(stats["qlen"]), requeued=int(stats["requeues"])
        )

    def set_qdisc(self, name: str, qdisc: Qdisc) -> None:
        """Replace the root qdisc."""
        index, asked = self.index(name), f"{name}: qdisc {qdisc.kind}"
        options = self._options(name, qdisc)
        # a fresh qdisc, never a changed one: its counters start at 0 and no option of the old one stays
        self.remove_qdisc(name)
        if self.qdisc(name).kind != qdisc.kind:
            self._ask(asked, "tc", "add", kind=qdisc.kind, index=index, root=True, handle=0x10000, **options)

    def qdisc_is_default(self, name: str) -> bool:
        """Whether the root qdisc is the kernel's own choice, which has no handle."""
        found = self._root(name)
        return found is None or not found["handle"]

    def remove_qdisc(self, name: str) -> None:
        """Give the kernel's own default back; nothing to do where it is in force."""
        if not self.qdisc_is_default(name):
            self._ask(f"{name}: default qdisc", "tc", "del", index=self.index(name), root=True)

    def _options(self, name: str, qdisc: Qdisc) -> dict[str, int]:
        """What the kernel is told; a limit that was not given is the kernel's own default, in so many words.

        pyroute2 would send a limit of 0 for it. The defaults are those of net/sched/sch_fifo.c.
        """
        if qdisc.kind == "noqueue":
            return {}
        if qdisc.kind == "tbf":
            rate = (qdisc.rate_bps or 0) // 8
            return {
                "rate": rate,
                "burst": tbf_burst_bytes(rate),
                "limit": qdisc.limit or TBF_BURST_BYTES,
            }
        if qdisc.limit is not None:
            return {"limit": qdisc.limit}
        facts = self.facts(name)
        each = 1 if qdisc.kind == "pfifo" else facts.mtu + ETHERNET_HEADER_BYTES
        return {"limit": facts.txqueuelen * each}

    def _root(self, name: str) -> Any:
        """Root qdisc as the kernel tells it, or None."""
        index = self.index(name)
        for found in self._ip.get_qdiscs(index):
            if found["index"] == index and found["parent"] == ROOT_PARENT:
                return found
        return None

    def _link(self, name: str) -> Any:
        """Everything that the kernel tells of a link."""
        try:
            return self._ip.get_links(self.index(name))[0]
        except NetlinkError as refused:  # it went between two requests
            raise LabError(f"{name}: cannot be read; is it still there?", errno=refused.code) from refused

    def _ask(self, what: str, method: str, command: str, **fields: Any) -> None:
        try:
            getattr(self._ip, method)(command, **fields)
        except struct.error as odd:
            raise SettingRefusedError(f"{what}: the kernel has no room for such a number ({odd})") from odd
        except NetlinkError as refused:
            text = str(refused.args[1]) if len(refused.args) > 1 else str(refused)
            raise error_of(what, Refusal(errno=refused.code, text=text), writing=True) from refused


PROMISCUOUS = 0x100
"""IFF_PROMISC, <linux/if.h>"""
ROOT_PARENT = 0xFFFF_FFFF
_VETH_QUEUE = re.compile(r"rx_queue_\d+_(?P<counter>.+)")


def driver_statistics(name: str) -> list[tuple[str, int]]:
    """Names and values that the driver reports (`ethtool -S`), in its order; empty without any.

    A name may come twice: some drivers repeat them for each queue.
    """
    device = IoctlEthtool(name)
    try:
        return [(str(counter), int(value)) for counter, value in device.get_statistics()]
    except (NotSupportedError, OSError):
        return []
    finally:
        device.close()


def veth_queue_counts(name: str) -> dict[str, int]:
    """What the receive queues of a veth count, all queues together; empty for a device without any.

    ``drops`` are frames that there was no room for, ``xdp_packets`` those that NAPI took in, with an XDP
    program or without (drivers/net/veth.c, veth_xdp_rcv).
    """
    found: dict[str, int] = {}
    for each, value in driver_statistics(name):
        if (queue := _VETH_QUEUE.fullmatch(each)) is not None:
            found[queue["counter"]] = found.get(queue["counter"], 0) + value
    return found


def veth_queue_drops(name: str) -> int | None:
    """Frames that the receive queues of a veth had no room for; None for any other device."""
    return veth_queue_counts(name).get("drops")


def switch_ipv6_off(proc: Path = Path("/proc")) -> bool:
    """Keep every link of this thread's namespace, to come or there, free of autoconfiguration's frames.

    A link's own switch is not enough: an MTU below 1280 takes IPv6 off the link, and a larger one brings it
    back with the namespace's defaults (net/ipv6/addrconf.c, NETDEV_CHANGEMTU).

    Returns
    -------
    bool
        False where the kernel has no IPv6.

    Raises
    ------
    CapabilityMissingError
        The switch cannot be written, as in a container whose /proc/sys is read-only.
    """
    knobs = [proc / "sys/net/ipv6/conf" / scope / "disable_ipv6" for scope in ("all", "default")]
    if not all(knob.exists() for knob in knobs):
        return False
    try:
        for knob in knobs:
            knob.write_text("1")
    except OSError as refused:
        raise CapabilityMissingError(
            f"veth rig: IPv6 cannot be switched off here ({knobs[0].parent.parent} cannot be written), so "
            "frames of its own would be counted; give the container a writable /proc/sys, or use rig "
            "'sim:ixgbe'",
            errno=refused.errno,
        ) from refused
    return True
