"""pktgen's own words as data: every command of a device file, what it takes, what it answers.

Source: pktgen_if_write, num_arg, hex32_arg, get_labels and get_imix_entries of net/core/pktgen.c (Linux 6.1
and 6.12). What the kernel's documentation says otherwise stands in `MISTAKEN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["number", "hex", "ip", "ip6", "mac", "mode", "flag", "imix", "labels", "nothing"]

MOST: Final = 2**32 - 1
MOST_IMIX_SIZES: Final = 20
"""MAX_IMIX_ENTRIES; one more is refused with E2BIG."""
MOST_LABELS: Final = 15
"""Kernels up to 6.12 refuse the 16th with E2BIG, later ones a 17th."""
SHORTEST_SIZE: Final = 42
"""A shorter size becomes this without a word: Ethernet, IP and UDP header (14 + 20 + 8)."""
NO_VLAN: Final = 4096
"""From here on an id takes the tag away, and nothing is answered."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command.

    Attributes
    ----------
    name : str
        What is written.
    kind : str
        What it takes.
    low, high : int
        Numbers that mean something; what the kernel makes of others is for the kernel to say.
    digits : int
        The kernel reads so many of a number and leaves the rest unread.
    answer : str
        What the answer calls it.
    """

    name: str
    kind: Kind
    low: int = 0
    high: int = MOST
    digits: int = 10
    answer: str


class Asked(msgspec.Struct, frozen=True):
    """A command, and the value that it is given."""

    command: Command
    value: str

    @property
    def line(self) -> str:
        """What is written, without its newline."""
        return f"{self.command.name} {self.value}".rstrip()


def ask(name: str, value: object = "") -> Asked:
    """Command `name` with `value`, both known to be right."""
    return Asked(COMMANDS[name], str(value))


def _command(name: str, kind: Kind = "number", **more: int | str) -> Command:
    return msgspec.convert({"name": name, "kind": kind, "answer": name, **more}, Command)


COMMANDS: Final[Mapping[str, Command]] = {
    command.name: command
    for command in (
        *(_command(name) for name in ("pkt_size", "min_pkt_size", "max_pkt_size")),
        _command("imix_weights", "imix", answer=""),
        _command("frags", high=2**31 - 1),
        _command("count", high=10**10 - 1),
        _command("delay", high=2**31 - 1),
        *(_command(name, low=1, answer="rate", high=10**9) for name in ("rate", "ratep")),
        _command("clone_skb", high=2**31 - 1),
        _command("burst", low=1),
        _command("xmit_mode", "mode"),
        _command("dst", "ip", answer="dst_min"),
        *(_command(name, "ip") for name in ("dst_min", "dst_max", "src_min", "src_max")),
        *(_command(name, "ip6") for name in ("dst6", "dst6_min", "dst6_max", "src6")),
        _command("dst_mac", "mac", answer="dstmac"),
        _command("src_mac", "mac", answer="srcmac"),
        *(_command(name) for name in ("src_mac_count", "dst_mac_count")),
        *(
            _command(name, high=65535)
            for name in ("udp_src_min", "udp_src_max", "udp_dst_min", "udp_dst_max")
        ),
        _command("flows", high=65536),
        _command("flowlen"),
        *(_command(name, digits=5, high=65535) for name in ("queue_map_min", "queue_map_max")),
        _command("skb_priority", digits=9, high=10**9 - 1),
        _command("node", high=2**31 - 1),
        *(_command(name, digits=4, high=9999) for name in ("vlan_id", "svlan_id")),
        *(_command(name, digits=1, high=7) for name in ("vlan_p", "svlan_p")),
        *(_command(name, digits=1, high=1) for name in ("vlan_cfi", "svlan_cfi")),
        _command("mpls", "labels"),
        *(_command(name, "hex", digits=2, high=255) for name in ("tos", "traffic_class")),
        _command("spi"),
        _command("debug"),
        _command("clear_counters", "nothing", answer="Clearing counters."),
        _command("flag", "flag", answer="flags"),
    )
}
"""Every command by name."""

FLAGS: Final = (
    *("IPV6", "IPSRC_RND", "IPDST_RND", "TXSIZE_RND", "UDPSRC_RND", "UDPDST_RND", "UDPCSUM", "NO_TIMESTAMP"),
    *("MPLS_RND", "QUEUE_MAP_RND", "QUEUE_MAP_CPU", "FLOW_SEQ", "FLOW_RND", "IPSEC", "MACSRC_RND"),
    *("MACDST_RND", "VID_RND", "SVID_RND", "NODE", "SHARED"),
)
"""Flags of all kernels; with ``!`` before its name one is cleared. IPV6 can only be cleared."""
SHOWN_WITH_FLOWS: Final = ("FLOW_SEQ", "FLOW_RND")
"""Two names of one flag, which a device's file shows only where `flows` is set."""

MISTAKEN: Final[Mapping[str, str]] = {
    "dstmac": "dst_mac (its answer says dstmac)",
    "srcmac": "src_mac (its answer says srcmac)",
    "NODE_ALLOC": "NODE",
    "src": "src_min",
}
"""Words of the documentation and other near misses, and what the kernel knows instead."""

OF_A_FIELD: Final[Mapping[str, str]] = {
    "count": "count (of the run)",
    "rate": "rate_pps",
    "ratep": "rate_pps",
    "delay": "delay_ns",
    "clone_skb": "clone_skb",
    "burst": "batch",
    "xmit_mode": "xmit_mode",
    "pkt_size": "frame_bytes (of the flow)",
    "max_pkt_size": "frame_bytes (of the flow)",
}
"""Commands for which a workload has a field."""

OUTLIVING: Final = ("debug",)
"""Commands whose effect is the whole module's and stays."""
