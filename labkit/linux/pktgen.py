"""The kernel's packet generator by its files under /proc/net/pktgen: one write a command, its answer read.

What a command answers is compared with what was asked, for many refusals return success, and values out of
range are changed without a word (net/core/pktgen.c, pktgen_if_write).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
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
from labkit.linux.pktgen_answers import compared, why_invalid, why_unsupported
from labkit.linux.pktgen_commands import Asked
from labkit.linux.pktgen_text import DeviceText, ThreadText, parse_device, parse_thread

ROOT: Final = Path("/proc/thread-self/net/pktgen")
"""What people call /proc/net/pktgen is the folder of the process's first thread, in whatever network
namespace that is just then: the agent's looks at its far end's."""
CONTROL: Final = "pgctrl"
THREAD: Final = "kpktgend_"
LOCK: Final = "\0labkit-pktgen"
"""An abstract socket's name: each network namespace has its own, as it has its own pktgen (unix(7)), and it
goes with its owner."""
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
        """Keep other laboratories away within the block, by a name that one of a namespace may have.

        A lock on a file of /proc/net would not do: each process sees it as a file of its own.

        Raises
        ------
        CapabilityMissingError
            No module, or not root.
        RigBusyError
            Another laboratory sends.
        """
        try:
            os.close(os.open(self._root / CONTROL, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError as missing:
            raise CapabilityMissingError(
                f"pktgen: there is no /proc/net/pktgen: `sudo modprobe pktgen`, or {HERE_INSTEAD}",
                errno=missing.errno,
            ) from missing
        except PermissionError as refused:
            raise _not_root(refused) from refused
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(LOCK)
            except OSError as held:
                raise RigBusyError(
                    "pktgen: another laboratory sends with it in this network namespace; wait for its end",
                    errno=held.errno,
                ) from held
            yield


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
        return compared(device, asked, now, before)

    def _refused(self, device: str, asked: Asked, refused: OSError, before: str) -> LabError:
        what, number = f"pktgen: {device}: '{asked.line}'", refused.errno
        if number in UNSUPPORTED:
            return CapabilityMissingError(f"{what}: {why_unsupported(asked)}", errno=number)
        if number == errno.E2BIG:
            return WorkloadError(f"{what}: the kernel has no room for so many", errno=number)
        now = self.device(device).result
        # an answer that stands there still is that to an earlier command
        said = None if now == before else now
        if said and said.startswith("No such parameter"):
            return CapabilityMissingError(
                f"{what}: this kernel's pktgen does not know it", errno=number, kernel_text=said
            )
        hint = why_invalid(asked)
        return SettingRefusedError(f"{what} was refused{hint}", errno=number, kernel_text=said)

    def _write(self, name: str, line: str) -> int:
        try:
            return self._files.write(name, f"{line}\n".encode())
        except PermissionError as refused:
            raise _not_root(refused) from refused


def _not_root(refused: OSError) -> CapabilityMissingError:
    return CapabilityMissingError(
        "pktgen: its files are for root in the machine's first user namespace (CAP_NET_ADMIN) alone; "
        f"{HERE_INSTEAD}",
        errno=refused.errno,
    )
