"""What machine this is, and how its CPUs spend their time."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from labkit.units import NS_PER_S


def machine_facts(*, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> dict[str, str | int | None]:
    """Facts that make two measurements comparable or not; what cannot be read is None."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(proc),
        "cpus_online": os.cpu_count(),
        "hypervisor": _first_word(proc / "cpuinfo", "flags", "hypervisor"),
        "governor": _text(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clocksource": _text(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
        "boot_id": _text(proc / "sys/kernel/random/boot_id"),
        "python": platform.python_version(),
    }


def kernel_at_least(release: object, version: tuple[int, int]) -> bool | None:
    """Whether kernel `release` (``6.18.44-generic``) is `version` or later; None where it tells no number."""
    found = re.match(r"(\d+)\.(\d+)", str(release))
    return None if found is None else (int(found[1]), int(found[2])) >= version


def steal_ns(cpu: int, proc: Path = Path("/proc")) -> int | None:
    """Time that the hypervisor took from `cpu` since boot, in kernel ticks' steps; None when unknown."""
    for line in (_text(proc / "stat") or "").splitlines():
        name, *ticks = line.split()
        if name == f"cpu{cpu}" and len(ticks) > STEAL_COLUMN:
            return int(ticks[STEAL_COLUMN]) * NS_PER_S // os.sysconf("SC_CLK_TCK")
    return None


def cpu_busy_ns(cpu: int, proc: Path = Path("/proc")) -> int | None:
    """Time that `cpu` was not idle since boot, in kernel ticks' steps; None when unknown.

    user, nice, system, irq and softirq of /proc/stat (proc(5)); neither idle, nor waiting for a disk, nor
    taken by the hypervisor.
    """
    for line in (_text(proc / "stat") or "").splitlines():
        name, *ticks = line.split()
        if name == f"cpu{cpu}" and len(ticks) > max(BUSY_COLUMNS):
            return sum(int(ticks[column]) for column in BUSY_COLUMNS) * NS_PER_S // os.sysconf("SC_CLK_TCK")
    return None


def runqueue_wait_ns(proc: Path = Path("/proc")) -> int | None:
    """Time that the calling thread was ready to run but waited for its CPU; None without schedstat.

    Field 2 of /proc/thread-self/schedstat (Documentation/scheduler/sched-stats.rst). Unlike CPU time it does
    not depend on whether the kernel books softirqs on the thread (CONFIG_IRQ_TIME_ACCOUNTING).
    """
    fields = (_text(proc / "thread-self/schedstat") or "").split()
    return int(fields[1]) if len(fields) > 1 else None


@contextlib.contextmanager
def kept_off(cpus: Collection[int]) -> Iterator[None]:
    """Keep the calling thread off `cpus` within the block, where another CPU is allowed."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, allowed.difference(cpus) or allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def interrupts_text(proc: Path = Path("/proc")) -> str | None:
    """What the kernel tells of its interrupts; None when it cannot be read."""
    return _text(proc / "interrupts")


def softnet_dropped(proc: Path = Path("/proc")) -> int | None:
    """Frames dropped at full per-CPU backlogs, all CPUs together; None when unknown."""
    return _softnet(proc, 1)


def softnet_processed(proc: Path = Path("/proc")) -> int | None:
    """Frames that the receive path took in, all CPUs and devices together; None when unknown."""
    return _softnet(proc, 0)


def _softnet(proc: Path, column: int) -> int | None:
    text = _text(proc / "net/softnet_stat")
    return None if text is None else sum(int(line.split()[column], 16) for line in text.splitlines())


STEAL_COLUMN = 7
BUSY_COLUMNS = (0, 1, 2, 5, 6)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _cpu_model(proc: Path) -> str | None:
    for line in (_text(proc / "cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "CPU part"}:
            return value.strip()
    return None


def _first_word(path: Path, key: str, word: str) -> str | None:
    for line in (_text(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return word if word in value.split() else None
    return None
