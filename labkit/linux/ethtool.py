"""Rings, coalescing, channels, pause and features of a device over ethtool's generic netlink.

A client of its own, on pyroute2's message classes: pyroute2's reads coalescing, channels and features by
ioctl, where the kernel says no word about a refusal. This one keeps those words and the attribute they are
about, sends exactly what was asked, and waits a bounded time.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, NETLINK_EXT_ACK, SOL_NETLINK, ctrlmsg

from labkit.errors import CapabilityMissingError, LabError
from labkit.linux import ethtool_messages as messages
from labkit.linux.ethtool_messages import CHANNELS, COALESCE, PAUSE, RINGS, Group
from labkit.linux.netlink_refusals import Refusal, attribute_at, error_of, refusal_of
from labkit.records import Scalar

# <linux/netlink.h>, <linux/ethtool.h>, <linux/sockios.h>
NETLINK_GENERIC = 16
NLMSG_ERROR = 2
NLM_F_REQUEST = 1
NLM_F_ACK = 4
SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 3
IFNAMSIZ = 16
DRIVER_INFO = struct.Struct("=I32s32s32s32s32s12s5I")
"""``struct ethtool_drvinfo``: command, driver, version, firmware, bus, expansion ROM, and counts."""
HEADER = struct.Struct("=IHHII")
ANSWER_BYTES = 65536
ANSWER_TIMEOUT_S = 2.0


class NetlinkSocket(Protocol):
    """What is needed of a netlink socket."""

    def send(self, data: bytes, /) -> int: ...  # noqa: D102
    def recv(self, size: int, /) -> bytes: ...  # noqa: D102
    def fileno(self) -> int: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class DriverInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver says of itself (`ethtool -i`); what it leaves empty is None."""

    driver: str
    version: str | None
    firmware: str | None
    bus: str | None


def open_socket() -> socket.socket:
    """Open a generic netlink socket of this thread's namespace that gets the kernel's extended answers."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_GENERIC)
    made.settimeout(ANSWER_TIMEOUT_S)
    made.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    return made


class Ethtool:
    """Asks devices of the namespace in which it was made, by interface index.

    What a driver does not report is None. Every request raises `CapabilityMissingError` for what the device,
    kernel or user lacks, `SettingRefusedError` for a value that was refused, and `LabError` for a missing
    device, with the kernel's errno and words.

    Parameters
    ----------
    socket_factory : callable
        Opens the socket; tests hand in one that answers by itself.
    """

    def __init__(self, socket_factory: Callable[[], NetlinkSocket] = open_socket) -> None:
        self._socket = socket_factory()
        self._sequence = 0
        self._feature_names: tuple[str, ...] = ()
        self._family = GENL_ID_CTRL
        try:
            self._family = self._find_family()
        except LabError:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def rings(self, ifindex: int) -> dict[str, Scalar]:
        """Ring sizes in descriptors, and what else belongs to rings."""
        return messages.settings_of(RINGS, self._read(RINGS, ifindex))

    def ring_maxima(self, ifindex: int) -> dict[str, int]:
        """Largest values that the driver tells; a setting without one is absent."""
        return messages.maxima_of(RINGS, self._read(RINGS, ifindex))

    def set_rings(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the rings that are named."""
        self._write(RINGS, ifindex, settings)

    def coalesce(self, ifindex: int) -> dict[str, Scalar]:
        """Interrupt moderation: times in microseconds, counts in frames."""
        return messages.settings_of(COALESCE, self._read(COALESCE, ifindex))

    def set_coalesce(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the moderation values that are named."""
        self._write(COALESCE, ifindex, settings)

    def channels(self, ifindex: int) -> dict[str, Scalar]:
        """Queues in use; `channels` are those for both directions."""
        return messages.settings_of(CHANNELS, self._read(CHANNELS, ifindex))

    def channel_maxima(self, ifindex: int) -> dict[str, int]:
        """Most queues that the device has; a kind of which it has none is absent."""
        return messages.maxima_of(CHANNELS, self._read(CHANNELS, ifindex))

    def set_channels(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the numbers of queues that are named."""
        self._write(CHANNELS, ifindex, settings)

    def pause(self, ifindex: int) -> dict[str, Scalar]:
        """Ethernet flow control."""
        return messages.settings_of(PAUSE, self._read(PAUSE, ifindex))

    def set_pause(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the flow control switches that are named."""
        self._write(PAUSE, ifindex, settings)

    def features(self, ifindex: int) -> dict[str, Scalar]:
        """Offloads that are active; a short word that stands for several is on when one of them is."""
        active = self._feature_sets(ifindex)["active"]
        words = messages.feature_words(self._features())
        return {word: not active.isdisjoint(group) for word, group in words.items()}

    def changeable_features(self, ifindex: int) -> frozenset[str]:
        """Offloads that the driver lets one turn; all others are fixed."""
        turnable = self._turnable(ifindex)
        words = messages.feature_words(self._features())
        return frozenset(word for word, group in words.items() if not turnable.isdisjoint(group))

    def set_features(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Turn the offloads that are named.

        The kernel says yes even where it then leaves a feature off because another one is missing; only
        reading back tells.
        """
        turnable = self._turnable(ifindex) if settings else frozenset()
        bits = [bit for word, value in settings.items() for bit in self._bits(ifindex, word, value, turnable)]
        if bits:
            wanted = ("wanted", {"attrs": [("bits", {"attrs": bits})]})
            message = messages.request(
                messages.Features, messages.FEATURES_SET, ifindex, [wanted], messages.OMIT_REPLY
            )
            self._ask(message, f"interface {ifindex}: {_asked(settings)}", writing=True)

    def driver_info(self, name: str) -> DriverInfo:
        """What the driver of interface `name` says of itself."""
        what, interface = f"{name}: driver information", name.encode()
        if len(interface) >= IFNAMSIZ:  # the kernel would cut the name, and might find another interface
            raise error_of(what, Refusal(errno.ENODEV), writing=False)
        answer = ctypes.create_string_buffer(struct.pack("=I", ETHTOOL_GDRVINFO), DRIVER_INFO.size)
        request = struct.pack("@16sP16x", interface, ctypes.addressof(answer))
        try:
            fcntl.ioctl(self._socket.fileno(), SIOCETHTOOL, request)
        except OSError as refused:
            raise error_of(what, Refusal(refused.errno or errno.EIO), writing=False) from refused
        return driver_info_of(answer.raw)

    def _read(self, group: Group, ifindex: int) -> dict[str, Any]:
        """Every attribute that the kernel gives and our tables know."""
        message = messages.request(group.message, group.read_command, ifindex)
        answer = self._ask(message, f"interface {ifindex}: {group.title}", writing=False)
        return {slot[0]: slot[1] for slot in answer["attrs"] if slot[0] != "UNKNOWN"}

    def _write(self, group: Group, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        attributes = [(name, messages.number_of(group, name, value)) for name, value in settings.items()]
        if attributes:
            message = messages.request(group.message, group.write_command, ifindex, attributes)
            self._ask(message, f"interface {ifindex}: {_asked(settings)}", writing=True)

    def _features(self) -> tuple[str, ...]:
        """The kernel's names of all features, by bit; asked once, for they cannot change while it runs."""
        if not self._feature_names:
            wanted = {"attrs": [("set", {"attrs": [("id", messages.FEATURE_STRINGS)]})]}
            message = messages.request(messages.Strings, messages.STRINGS_GET, None, [("sets", wanted)])
            answer = self._ask(message, "names of features", writing=False)
            strings = answer.get_attr("sets").get_attr("set").get_attr("strings").get_attrs("string")
            self._feature_names = tuple(str(text.get_attr("value") or "") for text in strings)
        return self._feature_names

    def _turnable(self, ifindex: int) -> frozenset[str]:
        sets = self._feature_sets(ifindex)
        return sets["hw"] - sets["nochange"]

    def _bits(
        self, ifindex: int, word: str, value: Scalar, turnable: frozenset[str]
    ) -> list[tuple[str, Any]]:
        """What is sent for one feature word: those features behind it that the driver lets one turn."""
        words = messages.feature_words(self._features())
        if word not in words:
            known = ", ".join(sorted(words))
            raise CapabilityMissingError(f"interface {ifindex}: no feature {word!r} here; there are {known}")
        names = [name for name in words[word] if name in turnable]
        if not names:
            raise CapabilityMissingError(f"interface {ifindex}: {word} is fixed by the driver; leave it out")
        on = [("value", True)] if messages.switch(word, value) else []
        return [("bit", {"attrs": [("name", name), *on]}) for name in names]

    def _feature_sets(self, ifindex: int) -> dict[str, frozenset[str]]:
        flags = messages.COMPACT_BITSETS
        message = messages.request(messages.Features, messages.FEATURES_GET, ifindex, flags=flags)
        answer = self._ask(message, f"interface {ifindex}: features", writing=False)
        return {
            name: messages.names_on(answer.get_attr(name), self._features())
            for name in ("hw", "active", "nochange")
        }

    def _find_family(self) -> int:
        message = ctrlmsg()
        message["cmd"], message["version"] = CTRL_CMD_GETFAMILY, 1
        message["attrs"] = [("CTRL_ATTR_FAMILY_NAME", messages.FAMILY)]
        try:
            return int(self._ask(message, "ethtool", writing=False).get_attr("CTRL_ATTR_FAMILY_ID"))
        except LabError as refused:
            raise CapabilityMissingError(
                "this kernel has no ethtool netlink (CONFIG_ETHTOOL_NETLINK, Linux 5.6); use rig 'sim:ixgbe'",
                errno=refused.errno,
            ) from refused

    def _ask(self, message: Any, what: str, *, writing: bool) -> Any:
        """Answer to one request, or None where the kernel only says yes."""
        self._sequence += 1
        message["header"].update(
            type=self._family, flags=NLM_F_REQUEST | NLM_F_ACK, sequence_number=self._sequence
        )
        message.encode()
        request, answer = bytes(message.data), None
        try:
            self._socket.send(request)
            while True:
                data = self._socket.recv(ANSWER_BYTES)
                _, kind, _, sequence, _ = HEADER.unpack_from(data)
                if sequence != self._sequence:
                    continue
                if kind == NLMSG_ERROR:
                    break
                answer = type(message)(data)
                answer.decode()
        except TimeoutError as late:
            raise LabError(f"{what}: no answer within {ANSWER_TIMEOUT_S} s; try again") from late
        refused = refusal_of(data)
        if refused.errno:
            names = [name for name, _ in message.nla_map]
            about = None if refused.offset is None else attribute_at(request, refused.offset, names)
            raise error_of(what, refused, about=about, writing=writing)
        return answer


def driver_info_of(answer: bytes) -> DriverInfo:
    """Read a ``struct ethtool_drvinfo``."""
    texts = [text.partition(b"\0")[0].decode(errors="replace") for text in DRIVER_INFO.unpack(answer)[1:5]]
    version, firmware, bus = (None if text in {"", "N/A"} else text for text in texts[1:])
    return DriverInfo(driver=texts[0], version=version, firmware=firmware, bus=bus)


def _asked(settings: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
