"""Why the kernel said no: errno, its own words and the attribute they are about, as labkit's errors."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError

# <linux/netlink.h>
NLM_F_CAPPED: Final = 0x100
NLM_F_ACK_TLVS: Final = 0x200
NLMSGERR_ATTR_MSG: Final = 1
NLMSGERR_ATTR_OFFS: Final = 2
HEADER_BYTES: Final = 16
GENERIC_HEADER_BYTES: Final = 4
TYPE_MASK: Final = 0x3FFF

ENOTSUPP: Final = 524
"""The kernel's own "not supported", which some drivers let out; libc has no word for it."""
FIELD_MISSING: Final = ("unsupported parameter", "Unknown attribute type")
"""EINVAL with these words is no bad value: the driver lacks the field, or this kernel does not know it."""


class Refusal(NamedTuple):
    """The kernel's answer to a request.

    Attributes
    ----------
    errno : int
        0 is a yes.
    text : str or None
        The kernel's own words, where it said any.
    offset : int or None
        Place of the attribute that they are about, in bytes from the request's start.
    """

    errno: int
    text: str | None = None
    offset: int | None = None


def refusal_of(answer: bytes) -> Refusal:
    """Read a message of type ``NLMSG_ERROR``.

    Its body is the errno, the request's header (and, unless capped, all of the request), then the extended
    answer's attributes. pyroute2 reads the words too, but its exception leaves the offset behind.
    """
    length, _, flags = struct.unpack_from("=IHH", answer)
    number, request_bytes = struct.unpack_from("=iI", answer, HEADER_BYTES)
    text = offset = None
    if flags & NLM_F_ACK_TLVS:
        copied = HEADER_BYTES if flags & NLM_F_CAPPED else request_bytes
        for kind, body in attributes(answer[:length], HEADER_BYTES + 4 + _aligned(copied)).values():
            if kind == NLMSGERR_ATTR_MSG:
                text = body.rstrip(b"\0").decode(errors="replace")
            elif kind == NLMSGERR_ATTR_OFFS and len(body) == 4:
                (offset,) = struct.unpack("=I", body)
    return Refusal(-number, text, offset)


def attributes(message: bytes, position: int) -> dict[int, tuple[int, bytes]]:
    """Type and content of each attribute from `position` on, by its place; a torn one ends the list."""
    found = {}
    while position + 4 <= len(message):
        size, kind = struct.unpack_from("=HH", message, position)
        if size < 4 or position + size > len(message):
            break
        found[position] = (kind & TYPE_MASK, message[position + 4 : position + size])
        position += _aligned(size)
    return found


def attribute_at(request: bytes, offset: int, names: Sequence[str]) -> str | None:
    """Name of the attribute of a generic netlink `request` that `offset` lies in; `names` are by number."""
    for position, (kind, body) in attributes(request, HEADER_BYTES + GENERIC_HEADER_BYTES).items():
        if position <= offset < position + 4 + len(body) and kind < len(names):
            return names[kind]
    return None


def error_of(what: str, refused: Refusal, *, about: str | None = None, writing: bool) -> LabError:
    """Error to raise for a refusal.

    Parameters
    ----------
    what : str
        Device and what was asked of it.
    refused : Refusal
        The kernel's answer.
    about : str or None
        Name of the attribute that the kernel's words are about.
    writing : bool
        A value was to be changed; else it was to be read.
    """
    number, text = refused.errno, refused.text or ""
    told = f"{text} ({about})" if text and about else text or None
    if number == errno.ENODEV:
        return LabError(f"{what}: no such device here; `ip link` lists them", errno=number, kernel_text=told)
    if number in {errno.EPERM, errno.EACCES}:
        return CapabilityMissingError(
            f"{what}: this needs CAP_NET_ADMIN; work as root or in a namespace of your own",
            errno=number,
            kernel_text=told,
        )
    absent = number == errno.EINVAL and any(words in text for words in FIELD_MISSING)
    if absent or number in {errno.EOPNOTSUPP, ENOTSUPP}:
        return CapabilityMissingError(
            f"{what}: not supported by this device; leave it out, or use rig 'sim:ixgbe'",
            errno=number,
            kernel_text=told,
        )
    if writing:
        return SettingRefusedError(
            f"{what}: refused by the kernel; the device is as it was, ask for another value",
            errno=number,
            kernel_text=told,
        )
    return LabError(f"{what}: cannot be read; try again", errno=number, kernel_text=told)


def _aligned(size: int) -> int:
    return (size + 3) & ~3
