"""What ethtool has by ioctl alone: what a driver says of itself, and the way to a device by its name."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

# <linux/sockios.h>, <linux/if.h>, <linux/ethtool.h>
SIOCGIFNAME: Final = 0x8910
SIOCETHTOOL: Final = 0x8946
IFNAMSIZ: Final = 16
ETHTOOL_GDRVINFO: Final = 3
DRIVER_INFO: Final = struct.Struct("=I32s32s32s32s32s12s5I")
"""``struct ethtool_drvinfo``: command, driver, version, firmware, bus, expansion ROM, and counts."""

Exchange: TypeAlias = Callable[[int, str, bytes], bytes]
"""Hands a struct about an interface to the kernel over a socket; returns it as the kernel left it."""


class DriverInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver says of itself (`ethtool -i`); what it leaves empty is None."""

    driver: str
    version: str | None
    firmware: str | None
    bus: str | None


def exchange(descriptor: int, interface: str, data: bytes) -> bytes:
    """Struct of an ethtool command as the kernel left it; an OSError is its refusal."""
    name = interface.encode()
    if len(name) >= IFNAMSIZ:  # the kernel would cut the name, and might find another interface
        raise OSError(errno.ENODEV, "no such device")
    answer = ctypes.create_string_buffer(data, len(data))
    fcntl.ioctl(descriptor, SIOCETHTOOL, struct.pack("@16sP16x", name, ctypes.addressof(answer)))
    return answer.raw


def interface_name(descriptor: int, ifindex: int) -> str:
    """Name of an interface in the namespace of a socket; an OSError where there is none."""
    answer = fcntl.ioctl(descriptor, SIOCGIFNAME, struct.pack("@16si20x", b"", ifindex))
    return answer[:IFNAMSIZ].partition(b"\0")[0].decode()


def driver_info_request() -> bytes:
    """Struct that asks a driver what it is."""
    return struct.pack("=I", ETHTOOL_GDRVINFO).ljust(DRIVER_INFO.size, b"\0")


def driver_info_of(answer: bytes) -> DriverInfo:
    """Read a ``struct ethtool_drvinfo``."""
    texts = [text.partition(b"\0")[0].decode(errors="replace") for text in DRIVER_INFO.unpack(answer)[1:5]]
    version, firmware, bus = (None if text in {"", "N/A"} else text for text in texts[1:])
    return DriverInfo(driver=texts[0], version=version, firmware=firmware, bus=bus)
