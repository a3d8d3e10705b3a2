"""One request and its answer: ethtool's generic netlink, and its ioctl for what netlink does not have."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable
from typing import Any, Protocol

from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, NETLINK_EXT_ACK, SOL_NETLINK, ctrlmsg

from labkit.errors import CapabilityMissingError, LabError
from labkit.linux import ethtool_messages as messages
from labkit.linux.ethtool_ioctl import Exchange
from labkit.linux.netlink_refusals import Refusal, attribute_at, error_of, refusal_of

# <linux/netlink.h>
NETLINK_GENERIC = 16
NLMSG_ERROR = 2
NLM_F_REQUEST = 1
NLM_F_ACK = 4
HEADER = struct.Struct("=IHHII")
ANSWER_BYTES = 65536
ANSWER_TIMEOUT_S = 2.0


class NetlinkSocket(Protocol):
    """What is needed of a netlink socket."""

    def send(self, data: bytes, /) -> int: ...  # noqa: D102
    def recv(self, size: int, /) -> bytes: ...  # noqa: D102
    def fileno(self) -> int: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def open_socket() -> socket.socket:
    """Open a generic netlink socket of this thread's namespace that gets the kernel's extended answers."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_GENERIC)
    made.settimeout(ANSWER_TIMEOUT_S)
    made.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    return made


class EthtoolSocket:
    """Asks the kernel, a bounded time each; a refusal is an error with the kernel's errno and words.

    Parameters
    ----------
    socket_factory : callable
        Opens the socket.
    ioctl : callable
        Hands a struct to the kernel over it.
    interface_name : callable
        Name of an interface index in the socket's namespace.
    """

    def __init__(
        self,
        socket_factory: Callable[[], NetlinkSocket],
        ioctl: Exchange,
        interface_name: Callable[[int, int], str],
    ) -> None:
        self._socket = socket_factory()
        self._ioctl, self._interface_name = ioctl, interface_name
        self._sequence = 0
        self._family = GENL_ID_CTRL
        try:
            self._family = self._find_family()
        except LabError:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def called(self, interface: str | int) -> str:
        """An interface, named or numbered, as people call it."""
        if isinstance(interface, str):
            return interface
        try:
            return self._interface_name(self._socket.fileno(), interface)
        except OSError:  # gone: its number is all that is left
            return f"interface {interface}"

    def ask(self, message: Any, what: str, ifindex: int | None = None, *, writing: bool) -> Any:
        """Answer to one request, about an interface or none, or None where the kernel only says yes."""
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
            raise LabError(
                f"{self._of(ifindex, what)}: no answer within {ANSWER_TIMEOUT_S} s; try again"
            ) from late
        refused = refusal_of(data)
        if refused.errno:
            names = [name for name, _ in message.nla_map]
            about = None if refused.offset is None else attribute_at(request, refused.offset, names)
            raise error_of(self._of(ifindex, what), refused, about=about, writing=writing)
        return answer

    def exchange(self, what: str, interface: str | int, data: bytes, *, writing: bool) -> bytes:
        """Struct about an interface, named or numbered, as the kernel's ioctl left it."""
        descriptor = self._socket.fileno()
        try:
            name = interface if isinstance(interface, str) else self._interface_name(descriptor, interface)
            return self._ioctl(descriptor, name, data)
        except OSError as refused:
            number = refused.errno or errno.EIO
            raise error_of(self._of(interface, what), Refusal(number), writing=writing) from refused

    def _of(self, interface: str | int | None, what: str) -> str:
        return what if interface is None else f"{self.called(interface)}: {what}"

    def _find_family(self) -> int:
        message = ctrlmsg()
        message["cmd"], message["version"] = CTRL_CMD_GETFAMILY, 1
        message["attrs"] = [("CTRL_ATTR_FAMILY_NAME", messages.FAMILY)]
        try:
            return int(self.ask(message, "ethtool", writing=False).get_attr("CTRL_ATTR_FAMILY_ID"))
        except LabError as refused:
            raise CapabilityMissingError(
                "this kernel has no ethtool netlink (CONFIG_ETHTOOL_NETLINK, Linux 5.6); use rig 'sim:ixgbe'",
                errno=refused.errno,
            ) from refused
