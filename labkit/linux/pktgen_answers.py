"""pktgen's answers beside what was asked: taken, taken as another value, or refused without an errno.

Source: pktgen_if_write of net/core/pktgen.c (Linux 6.1 and 6.12).
"""

from __future__ import annotations

import ipaddress

from labkit.errors import CapabilityMissingError, SettingRefusedError
from labkit.linux.pktgen_commands import NO_VLAN, SHOWN_WITH_FLOWS, Asked
from labkit.linux.pktgen_text import DeviceText


def compared(device: str, asked: Asked, now: DeviceText, before: str) -> str | None:
    """What stands there instead of what was asked, None where that stands there; raises for a refusal.

    `before` is the answer that stood there before: the kernel leaves it where it has none.
    """
    answer, what = now.result, f"pktgen: {device}: '{asked.line}'"
    if asked.command.kind == "imix":
        told = now.params.get("imix_weights", "")
        return None if told.split() == asked.value.split() else told
    if asked.command.name in ("vlan_id", "svlan_id"):
        return _tag(what, asked, now.params.get(asked.command.name))
    between = " " if asked.command.kind == "mac" else "="
    head, _, value = answer.removeprefix("OK: ").partition(between)
    if not answer.startswith("OK: ") or head not in (asked.command.answer, asked.command.name):
        _check_known(what, answer)
        raise SettingRefusedError(
            f"{what} was not taken, though the kernel reported no error",
            kernel_text=None if answer == before else answer.partition("\n")[0],
        )
    if asked.command.kind == "flag":
        _check_flag(what, asked.value, now)
        return None
    return None if _same(asked, value) else value


def _tag(what: str, asked: Asked, shown: str | None) -> str | None:
    """As its file shows the tag, for of one that is taken away, or not put on, nothing is answered."""
    if int(asked.value) >= NO_VLAN:
        if shown is not None:
            raise SettingRefusedError(f"{what}: the tag is still there")
        return None
    if shown is None:
        needs = "; it needs a vlan_id before it" if asked.command.name == "svlan_id" else ""
        raise SettingRefusedError(f"{what} was not taken, though the kernel reported no error{needs}")
    return None if shown == str(int(asked.value)) else shown


def _check_known(what: str, answer: str) -> None:
    """A flag or mode that this kernel lacks: its answer is no error, but lists those that it has."""
    first, *more = answer.splitlines()
    if first.endswith("unknown"):
        has = " ".join(more).partition(": ")[2] or " ".join(more)
        raise CapabilityMissingError(
            f"{what}: this kernel's pktgen does not know it; it has {has.rstrip(', ')}", kernel_text=first
        )


def _same(asked: Asked, value: str) -> bool:
    kind = asked.command.kind
    if kind == "nothing":
        return True
    if kind == "number":
        return value.isdigit() and int(value) == int(asked.value)
    if kind == "hex":
        return int(value, 16) == int(asked.value, 16)
    if kind == "ip6":
        return ipaddress.IPv6Address(value) == ipaddress.IPv6Address(asked.value)
    if kind == "labels":
        return [int(each, 16) for each in value.split(",")] == [
            int(each, 16) for each in asked.value.split(",")
        ]
    return value.lower() == asked.value.lower()


def _check_flag(what: str, value: str, now: DeviceText) -> None:
    name, wanted = value.removeprefix("!"), not value.startswith("!")
    if name not in SHOWN_WITH_FLOWS and (name in now.flags) != wanted:
        raise SettingRefusedError(f"{what} changed nothing", kernel_text=f"Flags: {' '.join(now.flags)}")


def why_unsupported(asked: Asked) -> str:
    """Why a device does not do what it was asked, and what to do."""
    name = asked.command.name
    if name == "xmit_mode":
        return "clone_skb is set, and the receive path frees each buffer; leave clone_skb out"
    instead = "give clone_skb 0" if name == "clone_skb" else "give batch 1"
    return (
        f"this device, or this xmit_mode, does not let one buffer be sent twice; {instead}, or take another "
        "device or mode"
    )


def why_invalid(asked: Asked) -> str:
    """What a value contradicts, as far as it is known."""
    name = asked.command.name
    if name in {"imix_weights", "clone_skb"}:
        return ": clone_skb above 0 goes neither with imix_weights nor without flag SHARED; give clone_skb 0"
    if name == "burst" or asked.value == "!SHARED":
        return ": buffers that are not shared are sent once; give clone_skb 0 and batch 1"
    return ""
