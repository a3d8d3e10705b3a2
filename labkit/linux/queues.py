"""Files below /sys and /proc that hold one value a device, a queue or an interrupt, and CPU masks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError

SYS, PROC = Path("/sys"), Path("/proc")
ENOTSUPP = 524
"""The kernel's own "not supported" (include/linux/errno.h), which some drivers let out."""
NOT_THERE = frozenset({errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, ENOTSUPP})
NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
WORD_BITS = 32
APART = ";"
"""Between the values of several queues in one text."""
MOST_CPUS = 8192
"""NR_CPUS of the largest kernels (arch/x86/Kconfig, MAXSMP)."""


def read_word(path: Path) -> str | None:
    """First line of a file; None where the file, or what it speaks of, is not there."""
    try:
        text = path.read_text()
    except OSError as refused:
        if refused.errno in NOT_THERE:
            return None
        raise LabError(f"{path} cannot be read", errno=refused.errno) from refused
    return text.partition("\n")[0].strip()


def write_word(path: Path, word: str, what: str = "") -> None:
    """Hand `word` to the kernel in one write; no file is made, and errors call it `what`.

    Nothing is cut off: the kernel does not care, and an ordinary file that stands in for one never is empty.

    Raises
    ------
    SettingRefusedError
        The kernel refuses the value.
    CapabilityMissingError
        There is no such file, the kernel does not support it here, or it is not ours to write.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{word}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as refused:
        number, what = refused.errno, what or str(path)
        if number in NOT_THERE:
            raise CapabilityMissingError(f"{what}: not to be had here", errno=number) from refused
        if number in NOT_OURS:
            raise CapabilityMissingError(
                f"{what}: may not be written; run as root, and where /sys and /proc are not read-only",
                errno=number,
            ) from refused
        raise SettingRefusedError(f"{what}: {word!r} refused by the kernel", errno=number) from refused


def device_file(name: str, file: str, sys: Path = SYS) -> Path:
    """Where the device's own `file` is, if it has one."""
    return sys / "class/net" / name / file


def queue_files(name: str, direction: str, file: str, sys: Path = SYS) -> list[Path]:
    """`file` of each ``rx`` or ``tx`` queue that has it, in the order of the queues."""
    try:
        folders = list((sys / "class/net" / name / "queues").glob(f"{direction}-*"))
    except FileNotFoundError:  # the device got another name between two steps of the search
        return []
    ordered = sorted(folders, key=lambda folder: int(folder.name.rpartition("-")[2]))
    return [folder / file for folder in ordered if (folder / file).exists()]


def tx_queues(name: str, sys: Path = SYS) -> int | None:
    """Queues that the device sends by; None where nothing tells."""
    return len(queue_files(name, "tx", "tx_timeout", sys)) or None


def device_interrupts(name: str, sys: Path = SYS) -> list[int]:
    """Numbers of the device's message-signalled interrupts; empty where it has none."""
    folder = sys / "class/net" / name / "device/msi_irqs"
    return sorted(int(entry.name) for entry in folder.glob("[0-9]*"))


def affinity_file(interrupt: int, proc: Path = PROC) -> Path:
    """Where the CPUs of an interrupt are read and written as a list."""
    return proc / "irq" / str(interrupt) / "smp_affinity_list"


def sysctl_file(name: str, proc: Path = PROC) -> list[Path]:
    """File of a sysctl with dots as a list of one; empty where it is absent."""
    path = proc / "sys" / name.replace(".", "/")
    return [path] if path.exists() else []


def cpus_of_mask(mask: str) -> str:
    """CPU list of a mask in the kernel's commas and hexadecimals: ``0-3,8`` of ``10f``; none is empty."""
    bits = int(mask.replace(",", "") or "0", 16)
    cpus = [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]
    starts = [cpu for cpu in cpus if cpu - 1 not in cpus]
    ends = [cpu for cpu in cpus if cpu + 1 not in cpus]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def mask_of_cpus(cpus: str) -> str:
    """Mask of a CPU list, in words of 32 bits as the kernel wants it (lib/bitmap-str.c).

    Raises
    ------
    SettingRefusedError
        It is no list of CPUs.
    """
    bits = 0
    for part in filter(None, (part.strip() for part in cpus.split(","))):
        first, dash, last = part.partition("-")
        last = last if dash else first
        good = first.isdecimal() and last.isdecimal()
        if not good or not int(first) <= int(last) < MOST_CPUS:
            raise SettingRefusedError(f"{cpus!r} is no list of CPUs; give one as in 0-3,8")
        for cpu in range(int(first), int(last) + 1):
            bits |= 1 << cpu
    digits = f"{bits:x}"
    step = WORD_BITS // 4
    digits = digits.zfill(-(-len(digits) // step) * step)
    return ",".join(digits[place : place + step] for place in range(0, len(digits), step))
