"""A workload's own commands for pktgen: read by pktgen's table, refused in words before anything is sent."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final

from labkit.errors import WorkloadError
from labkit.factors import XMIT_MODES
from labkit.linux.pktgen_commands import (
    COMMANDS,
    FLAGS,
    MISTAKEN,
    MOST_IMIX_SIZES,
    MOST_LABELS,
    OF_A_FIELD,
    OUTLIVING,
    Asked,
    Command,
)

BETWEEN: Final = re.compile(r"[;\n]")
NAME: Final = re.compile(r"\s*([^\s=]*)[\s=]*(.*?)\s*$", re.DOTALL)
MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
LABEL: Final = re.compile(r"[0-9a-f]{1,8}")
LONGEST_WORD: Final = 31
"""Characters of a flag, a mode or an address that the kernel reads."""


def parse(text: str | None) -> list[Asked]:
    """The commands of ``flag UDPSRC_RND; vlan_id 5``, in their order; ``name=value`` is the same.

    Raises
    ------
    WorkloadError
        An unknown command or flag (near names are told), a value that the kernel would read as another, a
        command for which a workload has a field of its own.
    """
    found = []
    for part in BETWEEN.split(text or ""):
        if part.strip():
            split = NAME.match(part)
            name, value = split.groups() if split else (part, "")
            found.append(_checked(name, value.strip("\"'")))
    return found


def _checked(name: str, value: str) -> Asked:
    if name not in COMMANDS:
        raise WorkloadError(
            f"pktgen: no command is called '{name}'{_near(name, COMMANDS)} (commands of Linux 6.1 to 6.12: "
            "how a later one answers is not known here)"
        )
    if name in OF_A_FIELD:
        raise WorkloadError(f"pktgen: {name}: give {OF_A_FIELD[name]} instead, which stands for it")
    if name in OUTLIVING:
        raise WorkloadError(f"pktgen: {name} is the whole module's and outlives a run; write it yourself")
    command = COMMANDS[name]
    wrong = CHECKS.get(command.kind, _number)(command, value)
    if wrong:
        raise WorkloadError(f"pktgen: {name} {value!r}: {wrong}")
    return Asked(command, value)


def _number(command: Command, value: str) -> str | None:
    """What is wrong with a number: the kernel stops at the first other character, and reads none as 0."""
    if not (value.isascii() and value.isdigit()):
        return "give digits alone: the kernel stops reading at the first other character, so that 300M is 300"
    if len(value) > command.digits:
        return f"the kernel reads {command.digits} digits and leaves the rest out"
    if not command.low <= int(value) <= command.high:
        return f"give {command.low} to {command.high}"
    return None


def _hex(command: Command, value: str) -> str | None:
    """What is wrong with a byte: the kernel wants two hexadecimal digits without 0x."""
    if re.fullmatch(rf"[0-9a-fA-F]{{{command.digits}}}", value):
        return None
    return f"give {command.digits} hexadecimal digits without 0x, as in 0a"


def _ip(_: Command, value: str) -> str | None:
    return _address(value, ipaddress.IPv4Address, "an IPv4 address; of IPv6 dst6 and src6")


def _ip6(_: Command, value: str) -> str | None:
    return _address(value, ipaddress.IPv6Address, "an IPv6 address")


def _address(value: str, kind: Callable[[str], object], wanted: str) -> str | None:
    try:
        kind(value)
    except ValueError:
        return f"give {wanted}"
    return None


def _mac(_: Command, value: str) -> str | None:
    return None if MAC.fullmatch(value.lower()) else "give six bytes, as in 02:00:00:00:00:01"


def _mode(_: Command, value: str) -> str | None:
    return None if value in XMIT_MODES else f"give one of {', '.join(XMIT_MODES)}"


def _flag(_: Command, value: str) -> str | None:
    name = value.removeprefix("!")
    if value == "IPV6":
        return "this flag can only be cleared; dst6 or src6 sets it"
    return None if name in FLAGS else f"no flag is called that{_near(name, dict.fromkeys(FLAGS, ''))}"


def _imix(_: Command, value: str) -> str | None:
    """What is wrong with ``60,7 590,4 1514,1``: sizes and weights."""
    pairs = [pair.split(",") for pair in value.split(" ")]
    if len(pairs) > MOST_IMIX_SIZES:
        return f"pktgen has room for {MOST_IMIX_SIZES} sizes, not for {len(pairs)}"
    for pair in pairs:
        if len(pair) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 10 for word in pair):
            return "give size,weight pairs with one blank between, as in 60,7 590,4 1514,1"
        if int(pair[1]) < 1:
            return "a weight is 1 or more"
    return None


def _labels(_: Command, value: str) -> str | None:
    labels = value.split(",")
    if not all(LABEL.fullmatch(label.lower()) for label in labels):
        return "give labels of up to 8 hexadecimal digits with commas between, as in 0001000a,0002000a"
    return None if len(labels) <= MOST_LABELS else f"a stack has {MOST_LABELS} labels at the most"


def _nothing(_: Command, value: str) -> str | None:
    return "it takes no value" if value else None


CHECKS: Final[Mapping[str, Callable[[Command, str], str | None]]] = {
    "hex": _hex,
    "ip": _ip,
    "ip6": _ip6,
    "mac": _mac,
    "mode": _mode,
    "flag": _flag,
    "imix": _imix,
    "labels": _labels,
    "nothing": _nothing,
}


def _near(name: str, known: Mapping[str, object]) -> str:
    """What may have been meant."""
    meant = next((right for wrong, right in MISTAKEN.items() if wrong == name), None)
    if meant is not None:
        return f"; the kernel knows {meant}"
    near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    return f"; near it: {', '.join(near)}" if near else f"; there are: {', '.join(known)}"
