"""What a `vm:` rig needs of this machine, what of it is not there, and the one command that installs it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError, LabError, WorkloadError, listed

SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Searched behind PATH: an ordinary user's has no sbin."""
QEMU, BUSYBOX, ZSTD = "qemu-system-x86_64", "busybox", "zstd"
PACKAGES: Final = {QEMU: "qemu-system-x86", BUSYBOX: "busybox-static", ZSTD: "zstd"}
"""Debian's package of each program. Kernels of Debian 13 and later are packed with zstd, 12's are not."""
ALWAYS: Final = (QEMU, BUSYBOX)
NICS: Final = {
    "e1000e": "e1000e",
    "igb": "igb",
    "virtio_net": "virtio-net-pci",
    "vmxnet3": "vmxnet3",
}
"""QEMU's device for each driver."""
PROCESSOR: Final = "x86_64"
PT_INTERP: Final = 3
ASKED_WITHIN_S: Final = 20


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What a `vm:` rig lacks here.

    Attributes
    ----------
    programs : tuple of str
        Programs that are not there, or not as needed; empty when nothing is missing.
    packages : tuple of str
        Debian's packages that have them.
    command : str or None
        What installs all of it; None when nothing is missing.
    """

    programs: tuple[str, ...]
    packages: tuple[str, ...]
    command: str | None

    def error(self, rig: str = "vm") -> CapabilityMissingError:
        """What to raise, with the command."""
        return CapabilityMissingError(
            f"{rig}: needs {listed(self.programs)}, not on this machine; install with: {self.command}"
        )


def check_processor(machine: str | None = None) -> None:
    """Raise `CapabilityMissingError` unless the guest's processor runs this machine's programs."""
    here = os.uname().machine if machine is None else machine
    if here != PROCESSOR:
        raise CapabilityMissingError(
            f"vm: the guest runs this machine's own Python on an emulated {PROCESSOR}, and this is {here}; "
            "take rig 'veth'"
        )


def search_path(env: Mapping[str, str] = os.environ) -> str:
    """PATH, and behind it the folders that a system has programs in."""
    return ":".join(filter(None, (env.get("PATH"), SEARCHED)))


def missing(*more: str, search: str | None = None, uid: int | None = None) -> Missing:
    """What of the programs that every `vm:` rig needs, and of `more`, is absent from `search`.

    zstd comes with the command whenever there is one, for the kernel that is fetched next may need it.
    """
    searched = search_path() if search is None else search
    absent = tuple(name for name in (*ALWAYS, *more) if _found(name, searched) is None)
    extra = (ZSTD,) if absent and ZSTD not in absent and _found(ZSTD, searched) is None else ()
    packages = tuple(PACKAGES[name] for name in (*absent, *extra))
    sudo = "" if (os.geteuid() if uid is None else uid) == 0 else "sudo "
    command = f"{sudo}apt-get install -y --no-install-recommends {' '.join(packages)}" if packages else None
    return Missing(programs=tuple(map(_described, absent)), packages=packages, command=command)


def program(name: str, search: str | None = None) -> str:
    """Path of a program of `PACKAGES`.

    Raises
    ------
    CapabilityMissingError
        It is not there; the message has the command that installs it.
    """
    searched = search_path() if search is None else search
    if found := _found(name, searched):
        return found
    lacking = missing(*(() if name in ALWAYS else (name,)), search=searched)
    raise lacking.error()


def nic_device(driver: str, qemu: str) -> str:
    """QEMU's name of the device that kernel driver `driver` drives.

    Raises
    ------
    WorkloadError
        Nobody emulates a NIC for it.
    CapabilityMissingError
        This QEMU does not; the message names one that it has.
    """
    if driver not in NICS:
        raise WorkloadError(f"vm:{driver}: QEMU has no NIC for this driver; there are {listed(list(NICS))}")
    there = _devices(qemu)
    device = NICS[driver]
    if device in there:
        return device
    others = [f"vm:{name}" for name, known in NICS.items() if known in there]
    newer = " (QEMU 8 and later have one)" if driver == "igb" else ""
    raise CapabilityMissingError(f"vm:{driver}: {qemu} has no {device}{newer}; it has {listed(others)}")


def _devices(qemu: str) -> set[str]:
    try:
        done = subprocess.run(
            [qemu, "-device", "help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASKED_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as refused:
        raise LabError(f"{qemu}: does not tell its devices: {refused}") from refused
    if done.returncode:
        raise LabError(f"{qemu}: does not tell its devices: {done.stderr.strip() or done.returncode}")
    return set(re.findall(r'^name "([^"]+)"', done.stdout, flags=re.MULTILINE))


def _found(name: str, search: str) -> str | None:
    for folder in search.split(":"):
        path = shutil.which(name, path=folder) if folder else None
        if path is not None and (name != BUSYBOX or _is_static(Path(path))):
            return path
    return None


def _is_static(path: Path) -> bool:
    """Whether the kernel runs it alone: no program header asks for an interpreter (elf(5), 64 bit)."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        if not head.startswith(b"\x7fELF\x02"):
            return False
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        kinds = [struct.unpack_from("<I", head, offset + size * index)[0] for index in range(count)]
    except (OSError, struct.error):
        return False
    return PT_INTERP not in kinds


def _described(name: str) -> str:
    return "busybox (a static one)" if name == BUSYBOX else name
