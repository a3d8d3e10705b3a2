"""ethtool's generic netlink messages as tables: attribute numbers, their kinds, and labkit's names for them.

Numbers and kinds are those of <linux/ethtool_netlink_generated.h> (before Linux 6.14 in
<linux/ethtool_netlink.h>); an attribute's place in its table is its number.
Where an attribute is a setting, the table has labkit's name for it (ethtool's word in snake case). What newer
kernels add behind a table's end is skipped when an answer is read.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyroute2.netlink import NLA_F_NESTED, genlmsg, nla

from labkit.errors import SettingRefusedError, WorkloadError
from labkit.factors import Scalar
from labkit.linux import ethtool_profiles

FAMILY: Final = "ethtool"
VERSION: Final = 1
U32_MAX: Final = 2**32 - 1
STRINGS_GET: Final = 1
FEATURES_GET: Final = 11
FEATURES_SET: Final = 12
COMPACT_BITSETS: Final = 1
"""``ETHTOOL_FLAG_COMPACT_BITSETS``: features come as bits, not as a list of names."""
OMIT_REPLY: Final = 2
"""``ETHTOOL_FLAG_OMIT_REPLY``: a change is acknowledged, and not told in full."""
FEATURE_STRINGS: Final = 4
"""``ETH_SS_FEATURES``: the names of all features, in the order of their bits."""


def table(*rows: str) -> tuple[tuple[str, str], ...]:
    """Attributes from rows ``"kind: name name"``, numbered from 1; number 0 is never used."""
    pairs = [("unspecified", "none")]
    for row in rows:
        kind, _, names = row.partition(":")
        pairs += [(name, kind) for name in names.split()]
    return tuple(pairs)


def nest(*rows: str, **nested: Any) -> Any:
    """Class of an attribute that holds attributes."""
    return type("Nest", (nla,), {"nla_flags": NLA_F_NESTED, "nla_map": table(*rows), **nested})


def _message(*rows: str, **nested: Any) -> Any:
    """Class of a message about one device."""
    attributes = table("Device: device", *rows)
    return type("Message", (genlmsg,), {"nla_map": attributes, "Device": Device, **nested})


Device: Final = nest("uint32: ifindex", "asciiz: ifname", "uint32: flags")
_BIT: Final = nest("uint32: index", "asciiz: name", "flag: value")
Bitset: Final = nest(
    "flag: nomask",
    "uint32: size",
    "Bits: bits",
    "cdata: value mask",
    Bits=nest("Bit: bit", Bit=_BIT),
)
_STRING: Final = nest("uint32: index", "asciiz: value")
_STRING_SET: Final = nest("uint32: id count", "Strings: strings", Strings=nest("Text: string", Text=_STRING))

Strings: Final = _message("Sets: sets", Sets=nest("Set: set", Set=_STRING_SET))
Features: Final = _message("Bitset: hw wanted active nochange", Bitset=Bitset)


class Group(NamedTuple):
    """Settings that one request reads and another one writes.

    Attributes
    ----------
    title : str
        What they are, for people.
    message : type
        Message class of both requests and of the answer.
    read_command, write_command : int
        The two requests (``ETHTOOL_MSG_*_GET`` and ``_SET``).
    kinds : dict
        Netlink's kind of each setting: ``uint32`` for a number, ``uint8`` for a switch, ``Profile`` for a
        text of `labkit.linux.ethtool_profiles`.
    """

    title: str
    message: Any
    read_command: int
    write_command: int
    kinds: dict[str, str]


def _group(title: str, read_command: int, *rows: str, **nested: Any) -> Group:
    message = _message(*rows, **nested)
    kinds = {
        name: kind
        for name, kind in message.nla_map
        if kind in {"uint8", "uint32", "Profile"} and not name.endswith("_max")
    }
    return Group(title, message, read_command, read_command + 1, kinds)


RINGS: Final = _group(
    "rings",
    15,
    "uint32: rx_ring_max rx_mini_ring_max rx_jumbo_ring_max tx_ring_max",
    "uint32: rx_ring rx_mini_ring rx_jumbo_ring tx_ring rx_buf_len",
    "uint8: tcp_data_split",
    "uint32: cqe_size",
    "uint8: tx_push rx_push",
    "uint32: tx_push_buf_len tx_push_buf_len_max hds_thresh hds_thresh_max",
)
CHANNELS: Final = _group(
    "channels",
    17,
    "uint32: rx_channels_max tx_channels_max other_channels_max channels_max",
    "uint32: rx_channels tx_channels other_channels channels",
)
COALESCE: Final = _group(
    "coalescing",
    19,
    "uint32: rx_usecs rx_frames rx_usecs_irq rx_frames_irq tx_usecs tx_frames tx_usecs_irq tx_frames_irq",
    "uint32: stats_block_usecs",
    "uint8: adaptive_rx adaptive_tx",
    "uint32: pkt_rate_low rx_usecs_low rx_frames_low tx_usecs_low tx_frames_low",
    "uint32: pkt_rate_high rx_usecs_high rx_frames_high tx_usecs_high tx_frames_high sample_interval",
    "uint8: cqe_mode_tx cqe_mode_rx",
    "uint32: tx_aggr_max_bytes tx_aggr_max_frames tx_aggr_time_usecs",
    "Profile: rx_profile tx_profile",
    "uint32: rx_cqe_frames rx_cqe_nsecs",
    Profile=nest("Step: irq_moderation", Step=nest("uint32: usec pkts comps")),
)
PAUSE: Final = _group("pause", 21, "uint8: pause_autoneg pause_rx pause_tx")

SPLIT_CODES: Final = {1: False, 2: True}
"""``tcp_data_split`` is not 0 and 1: 0 leaves the choice to the driver (``ETHTOOL_TCP_DATA_SPLIT_*``)."""

FEATURE_WORDS: Final = {
    "rx_checksum": ("rx-checksum",),
    "tx_checksum": (
        "tx-checksum-ipv4",
        "tx-checksum-ip-generic",
        "tx-checksum-ipv6",
        "tx-checksum-fcoe-crc",
        "tx-checksum-sctp",
    ),
    "sg": ("tx-scatter-gather", "tx-scatter-gather-fraglist"),
    "tso": (
        "tx-tcp-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-tcp6-segmentation",
        "tx-tcp-accecn-segmentation",
    ),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro",),
    "lro": ("rx-lro",),
    "rxvlan": ("rx-vlan-hw-parse",),
    "txvlan": ("tx-vlan-hw-insert",),
    "ntuple": ("rx-ntuple-filter",),
    "rxhash": ("rx-hashing",),
}
"""The short words of ``ethtool -K`` and the kernel's features behind them.

ethtool's `tso` turns ``tx-tcp-mangleid-segmentation`` too. Here that stays a switch of its own: e1000e and
vmxnet3 leave it off, so that `tso` off and on again would not give back what was there.
"""


def feature_words(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Every setting made of the kernel's features `names`: the short words, then each other one by itself."""
    words = {word: tuple(name for name in group if name in names) for word, group in FEATURE_WORDS.items()}
    taken = {group[0] for group in words.values() if len(group) == 1}
    words |= {name.replace("-", "_"): (name,) for name in names if name and name not in taken}
    return {word: group for word, group in words.items() if group}


def request(
    message_class: Any,
    command: int,
    ifindex: int | None,
    attributes: Iterable[tuple[str, Any]] = (),
    flags: int | None = None,
) -> Any:
    """Message of exactly these attributes, about one device or none; a header it has in any case."""
    message = message_class()
    message["cmd"], message["version"] = command, VERSION
    device = [(name, value) for name, value in (("ifindex", ifindex), ("flags", flags)) if value is not None]
    message["attrs"] = [("device", {"attrs": device}), *attributes]
    return message


def settings_of(group: Group, raw: Mapping[str, Any]) -> dict[str, Scalar]:
    """Every setting of `group` as labkit has it; what the kernel did not tell is None."""
    return {name: _value(group, name, raw[name]) if name in raw else None for name in group.kinds}


def maxima_of(group: Group, raw: Mapping[str, Any]) -> dict[str, int]:
    """Largest values that the kernel told."""
    return {name: int(raw[f"{name}_max"]) for name in group.kinds if f"{name}_max" in raw}


def sent_of(group: Group, name: str, value: Scalar) -> Any:
    """`value` of setting `name` as the kernel takes it: a number, or the attributes of a profile.

    Raises
    ------
    WorkloadError
        Not a setting of this group, or a value of another kind.
    SettingRefusedError
        A number that the field has no room for, or a text that is no profile.
    """
    if name not in group.kinds:
        raise WorkloadError(f"{group.title}: no setting {name!r}; known: {', '.join(group.kinds)}")
    if group.kinds[name] == "Profile":
        return ethtool_profiles.attributes_of(name, str(value))
    if group.kinds[name] == "uint8":
        on = switch(name, value)
        return int(on) + 1 if name == "tcp_data_split" else int(on)
    if not isinstance(value, int) or isinstance(value, bool):
        raise WorkloadError(f"{name} {value!r}: give a whole number")
    if not 0 <= value <= U32_MAX:
        raise SettingRefusedError(f"{name} {value}: ethtool's field is 0 to {U32_MAX}", errno=errno.ERANGE)
    return value


def switch(name: str, value: Scalar) -> bool:
    """`value`, if it is true or false."""
    if not isinstance(value, bool):
        raise WorkloadError(f"{name} {value!r}: give true or false")
    return value


def names_on(bitset: Any, names: Sequence[str]) -> frozenset[str]:
    """Names of the bits that are set in an ``ETHTOOL_A_BITSET_*`` nest, compact or verbose.

    A verbose one lists, without a mask, the bits that are set; with one, those of the mask, each with its
    value.
    """
    words = bitset.get_attr("value")
    if words is not None:
        bits = int.from_bytes(b"".join(_little_endian(words)), "little")
        return frozenset(name for bit, name in enumerate(names) if name and bits >> bit & 1)
    listed = bitset.get_attr("bits")
    unmasked = bitset.get_attr("nomask") is not None
    return frozenset(
        str(bit.get_attr("name"))
        for bit in (listed.get_attrs("bit") if listed is not None else ())
        if unmasked or bit.get_attr("value")
    )


def _little_endian(words: bytes) -> Iterable[bytes]:
    """The bitmap's 32-bit words, which come in the machine's byte order."""
    for (word,) in struct.iter_unpack("=I", words):
        yield word.to_bytes(4, "little")


def _value(group: Group, name: str, told: Any) -> Scalar:
    if name == "tcp_data_split":
        return SPLIT_CODES.get(told)
    if group.kinds[name] == "Profile":
        return ethtool_profiles.text_of(told)
    return bool(told) if group.kinds[name] == "uint8" else int(told)
