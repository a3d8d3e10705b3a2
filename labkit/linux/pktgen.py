"""The kernel's packet generator by its files under /proc/net/pktgen: one write a command, its answer read.

What a command answers is compared with what was asked, for many refusals return success, and values out of
range are changed without a word (net/core/pktgen.c, pktgen_if_write).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from labkit.errors import (
    CapabilityMissingError,
    LabError,
    RigBusyError,
    SettingRefusedError,
    WorkloadError,
)
from labkit.linux.pktgen_commands import NO_VLAN, SHOWN_WITH_FLOWS, Asked
from labkit.linux.pktgen_text import DeviceText, ThreadText, parse_device, parse_thread

ROOT: Final = Path("/proc/net/pktgen")
CONTROL: Final = "pgctrl"
THREAD: Final = "kpktgend_"
UNSUPPORTED: Final = (524, errno.EOPNOTSUPP)
"""ENOTSUPP, the kernel's own errno that libc does not know, and what later kernels say instead."""
HERE_INSTEAD: Final = "take rig 'vm:e1000e', which brings a kernel with it, or 'sim:ixgbe'"
NOT_ADDED: Final = {
    errno.EBUSY: "this name is on one of the threads already; remove it there (rem_device_all)",
    errno.ENODEV: "there is no such interface in this network namespace",
    errno.ENETDOWN: "the interface is down; `ip link set {interface} up` first",
    errno.EINVAL: "pktgen takes Ethernet devices and the loopback alone",
    errno.ENOMEM: "the kernel has no memory left for it",
}


class Files(Protocol):
    """pktgen's folder; a test's kernel stands in for it."""

    def names(self) -> list[str]:
        """Files that are there."""
        ...

    def read(self, name: str) -> str:
        """All of one file."""
        ...

    def write(self, name: str, text: bytes) -> int:
        """One write(); how many bytes the kernel took."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Keep other laboratories away within the block."""
        ...


class ProcFiles:
    """The real folder of this network namespace."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    def names(self) -> list[str]:
        """Files that are there."""
        return sorted(path.name for path in self._root.iterdir())

    def read(self, name: str) -> str:
        """All of one file."""
        return (self._root / name).read_text()

    def write(self, name: str, text: bytes) -> int:
        """One write(); how many bytes the kernel took."""
        descriptor = os.open(self._root / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return os.write(descriptor, text)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other laboratories away within the block, by a lock on pgctrl itself: it dies with its owner.

        Raises
        ------
        CapabilityMissingError
            No module, or not root.
        RigBusyError
            Another laboratory sends.
        """
        try:
            descriptor = os.open(self._root / CONTROL, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as missing:
            raise CapabilityMissingError(
                f"pktgen: there is no {self._root}: `sudo modprobe pktgen`, or {HERE_INSTEAD}",
                errno=missing.errno,
            ) from missing
        except PermissionError as refused:
            raise _not_root(refused) from refused
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            os.close(descriptor)
            raise RigBusyError(
                "pktgen: another laboratory sends with it in this network namespace; wait for its end"
            ) from held
        try:
            yield
        finally:
            os.close(descriptor)


class Pktgen:
    """Commands to pktgen, each answer checked."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def threads(self) -> dict[int, ThreadText]:
        """Threads by their CPU."""
        return {
            int(name.removeprefix(THREAD)): parse_thread(self._files.read(name))
            for name in self._files.names()
            if name.startswith(THREAD)
        }

    def device(self, name: str) -> DeviceText:
        """A device's parameters, counts and last answer.

        Raises
        ------
        LabError
            Its file is gone: its interface was removed, or somebody removed it from its thread.
        """
        try:
            return parse_device(self._files.read(name))
        except OSError as gone:
            raise LabError(
                f"pktgen: {name}: its file is gone; was its interface removed?", errno=gone.errno
            ) from gone

    def has_device(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return name in self._files.names()

    def add(self, name: str, cpu: int) -> None:
        """Put device `name` (``eth0@suffix``) on the thread of `cpu`.

        Raises
        ------
        LabError
            The kernel does not: with its errno, and what to do.
        CapabilityMissingError
            No thread for this CPU, or not root.
        """
        try:
            self._write(f"{THREAD}{cpu}", f"add_device {name}")
        except FileNotFoundError as missing:
            raise CapabilityMissingError(
                f"pktgen: CPU {cpu} has no thread: they are made for the CPUs that were online as the module "
                "was loaded, or as the namespace was made; take another cpu",
                errno=missing.errno,
            ) from missing
        except OSError as refused:
            why = NOT_ADDED.get(refused.errno or 0, "the kernel log may tell why")
            raise LabError(
                f"pktgen: {name} cannot be added: {why.format(interface=name.partition('@')[0])}",
                errno=refused.errno,
                kernel_text=self.threads()[cpu].result,
            ) from refused

    def remove_all(self, cpu: int) -> None:
        """Mark all devices of a thread to be removed; they are gone only some time later."""
        self._write(f"{THREAD}{cpu}", "rem_device_all")

    def control(self, word: str) -> None:
        """Write ``start``, which returns when every device has stopped, or ``stop``."""
        self._write(CONTROL, word)

    def ask(self, device: str, asked: Asked) -> str | None:
        """Give a command to `device`; what the kernel made of it, where that is another value than asked.

        Raises
        ------
        CapabilityMissingError
            This kernel does not know the command, or device or mode have no shared buffers.
        SettingRefusedError, WorkloadError
            The kernel refused the value, by its errno or by its words.
        """
        before = self.device(device).result
        try:
            taken = self._write(device, asked.line)
        except OSError as refused:
            raise self._refused(device, asked, refused, before) from refused
        now = self.device(device)
        if taken < len(asked.line) + 1:
            # kernels up to 6.12 return how much of the value they read, and change nothing
            raise SettingRefusedError(
                f"pktgen: {device}: '{asked.line}' was not taken: the kernel read {taken} bytes of it and "
                "stopped; 0 is no rate"
            )
        return _compared(device, asked, now)

    def _refused(self, device: str, asked: Asked, refused: OSError, before: str) -> LabError:
        what, number = f"pktgen: {device}: '{asked.line}'", refused.errno
        if number in UNSUPPORTED:
            return CapabilityMissingError(f"{what}: {_why_unsupported(asked)}", errno=number)
        if number == errno.E2BIG:
            return WorkloadError(f"{what}: the kernel has no room for so many", errno=number)
        now = self.device(device).result
        # an answer that stands there still is that to an earlier command
        said = None if now == before else now
        if said and said.startswith("No such parameter"):
            return CapabilityMissingError(
                f"{what}: this kernel's pktgen does not know it", errno=number, kernel_text=said
            )
        hint = _why_invalid(asked)
        return SettingRefusedError(f"{what} was refused{hint}", errno=number, kernel_text=said)

    def _write(self, name: str, line: str) -> int:
        try:
            return self._files.write(name, f"{line}\n".encode())
        except PermissionError as refused:
            raise _not_root(refused) from refused


def _compared(device: str, asked: Asked, now: DeviceText) -> str | None:
    """What stands there instead of what was asked, None where that stands there; raises for a refusal."""
    answer, what = now.result, f"pktgen: {device}: '{asked.line}'"
    if asked.command.kind == "imix":
        told = now.params.get("imix_weights", "")
        return None if told.split() == asked.value.split() else told
    if asked.command.name in ("vlan_id", "svlan_id") and int(asked.value) >= NO_VLAN:
        if asked.command.name in now.params:
            raise SettingRefusedError(f"{what}: the tag is still there", kernel_text=answer)
        return None
    between = " " if asked.command.kind == "mac" else "="
    head, _, value = answer.removeprefix("OK: ").partition(between)
    if not answer.startswith("OK: ") or head not in (asked.command.answer, asked.command.name):
        _check_known(what, answer)
        raise SettingRefusedError(
            f"{what} was not taken, though the kernel reported no error", kernel_text=answer.splitlines()[0]
        )
    if asked.command.kind == "flag":
        _check_flag(what, asked.value, now)
        return None
    return None if _same(asked, value) else value


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


def _why_unsupported(asked: Asked) -> str:
    name = asked.command.name
    if name == "xmit_mode":
        return "clone_skb is set, and the receive path frees each buffer; leave clone_skb out"
    instead = "give clone_skb 0" if name == "clone_skb" else "give batch 1"
    return (
        f"this device, or this xmit_mode, does not let one buffer be sent twice; {instead}, or take another "
        "device or mode"
    )


def _why_invalid(asked: Asked) -> str:
    name = asked.command.name
    if name in {"imix_weights", "clone_skb"}:
        return ": clone_skb above 0 goes neither with imix_weights nor without flag SHARED; give clone_skb 0"
    if name == "burst" or asked.value == "!SHARED":
        return ": buffers that are not shared are sent once; give clone_skb 0 and batch 1"
    return ""


def _not_root(refused: OSError) -> CapabilityMissingError:
    return CapabilityMissingError(
        "pktgen: its files are for root in the machine's first user namespace (CAP_NET_ADMIN) alone; "
        f"{HERE_INSTEAD}",
        errno=refused.errno,
    )
