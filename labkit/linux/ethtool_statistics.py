"""Standard statistics over ethtool's netlink: IEEE 802.3 and RMON, the same in every driver that counts them.

What a driver counts beyond these (``ethtool -S`` without ``--groups``) has no netlink message: that stays
with the ioctl (`labkit.linux.links.driver_statistics`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pyroute2.netlink import genlmsg

from labkit.linux.ethtool_messages import Bitset, Device, nest, table
from labkit.linux.netlink_refusals import attributes

STATISTICS_GET: Final = 32
"""``ETHTOOL_MSG_STATS_GET``, Linux 5.13."""
GROUPS: Final = ("eth-phy", "eth-mac", "eth-ctrl", "rmon")
GROUP_STRINGS: Final = 16
"""``ETH_SS_STATS_STD``: the names of the groups, in the order of their numbers."""
LOW, HIGH, COUNT = 8, 9, 10
"""``ETHTOOL_A_STATS_GRP_HIST_*``: a bucket of frame lengths, and how many frames were in it."""

_GROUP: Final = nest("none: pad", "uint32: id names", "cdata: stat hist_rx hist_tx")
Statistics: Final = type(
    "Statistics",
    (genlmsg,),
    {
        "nla_map": table("none: pad", "Device: device", "Bitset: groups", "Group: group", "uint32: source"),
        "Device": Device,
        "Bitset": Bitset,
        "Group": _GROUP,
    },
)

WANTED: Final = (
    "groups",
    {"attrs": [("bits", {"attrs": [("bit", {"attrs": [("name", n), ("value", True)]}) for n in GROUPS]})]},
)


def counts_of(answer: Any, names_of: Callable[[int], Sequence[str]]) -> dict[str, int]:
    """Counters as ``eth-mac/FramesTransmittedOK``; what the driver does not count is absent.

    Parameters
    ----------
    answer : Statistics
        The kernel's answer.
    names_of : callable
        Names in one of the kernel's sets of strings, by its number.
    """
    found: dict[str, int] = {}
    for group in answer.get_attrs("group"):
        title, names = names_of(GROUP_STRINGS)[group.get_attr("id")], names_of(group.get_attr("names"))
        for stat in group.get_attrs("stat"):
            for number, value in attributes(stat, 0).values():
                if number < len(names):
                    found[f"{title}/{names[number]}"] = _count(value)
        for direction in ("rx", "tx"):
            found.update(_buckets(title, direction, group.get_attrs(f"hist_{direction}")))
    return found


def _buckets(title: str, direction: str, buckets: Sequence[bytes]) -> Iterator[tuple[str, int]]:
    for bucket in buckets:
        parts = dict(attributes(bucket, 0).values())
        low, high = (_count(parts[edge]) for edge in (LOW, HIGH))
        yield f"{title}/{direction}-etherStatsPkts{low}to{high}Octets", _count(parts[COUNT])


def _count(body: bytes) -> int:
    (value,) = struct.unpack("=Q" if len(body) == 8 else "=I", body)
    return int(value)
