"""What lets a process sample CPUs and see the kernel's symbols, and what to turn where something does not."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError

PARANOID, POINTERS = "kernel/perf_event_paranoid", "kernel/kptr_restrict"
EVERY_UID: Final = 2**32 - 1
"""How many user ids the initial user namespace maps (user_namespaces(7))."""
FIRST_SYMBOLS: Final = 1000
"""So many are looked at for one whose address is told."""
WITHOUT: Final = "or run labkit as root, outside of a container"


class PerfLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What /proc says; what it does not say is None.

    Attributes
    ----------
    paranoid : int or None
        kernel.perf_event_paranoid: above 0 only CAP_PERFMON samples CPUs (Documentation/admin-guide/sysctl).
    pointers : int or None
        kernel.kptr_restrict: above 0 only CAP_SYSLOG sees addresses, above 1 nobody does.
    user_namespace : bool
        Whether this is another user namespace than the initial one: there neither capability counts.
    symbols : bool
        Whether it sees where the kernel's functions are.
    """

    paranoid: int | None
    pointers: int | None
    user_namespace: bool
    symbols: bool


def perf_limits(proc: Path = Path("/proc")) -> PerfLimits:
    """What holds for this process."""
    return PerfLimits(
        paranoid=_number(proc / "sys" / PARANOID),
        pointers=_number(proc / "sys" / POINTERS),
        user_namespace=_in_user_namespace(proc),
        symbols=_sees_symbols(proc),
    )


def no_perf() -> CapabilityMissingError:
    """What to say where perf is not installed."""
    return CapabilityMissingError(
        "profile: there is no perf here; install it with `sudo apt-get install linux-perf` (Debian's package)"
    )


def no_symbols(limits: PerfLimits) -> CapabilityMissingError:
    """What to say where samples would be numbers without names."""
    needs = f"kernel.kptr_restrict = 0 (it is {_told(limits.pointers)})"
    if limits.pointers == 0:  # then only kallsyms_for_perf() of kernel/ksyms_common.c is in the way
        needs = f"kernel.perf_event_paranoid <= 1 (it is {_told(limits.paranoid)})"
    hidden = "to nobody" if (limits.pointers or 0) > 1 else f"to nobody here{_where(limits)}"
    return CapabilityMissingError(
        f"profile: the kernel shows the addresses of its functions {hidden}; "
        f"that takes {needs}: `sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=0`, {WITHOUT}"
    )


def no_sampling(limits: PerfLimits, words: str) -> CapabilityMissingError:
    """What to say where the kernel refuses to sample a CPU; `words` are perf's own."""
    if limits.paranoid is not None and limits.paranoid <= 0:
        return CapabilityMissingError(
            f"profile: perf samples no CPU here though kernel.perf_event_paranoid is {limits.paranoid}; "
            f"a container's seccomp filter or a kernel without perf events refuses it: run labkit as root, "
            f"outside of a container",
            kernel_text=words or None,
        )
    return CapabilityMissingError(
        f"profile: the kernel lets nobody sample a CPU here{_where(limits)}; that takes "
        f"kernel.perf_event_paranoid <= 0 (it is {_told(limits.paranoid)}): "
        f"`sudo sysctl kernel.perf_event_paranoid=0 kernel.kptr_restrict=0`, {WITHOUT}",
        kernel_text=words or None,
    )


def _where(limits: PerfLimits) -> str:
    if limits.user_namespace:
        return " (a user namespace: root in it is nobody outside, and CAP_PERFMON counts outside)"
    return " without CAP_PERFMON and CAP_SYSLOG"


def _told(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _sees_symbols(proc: Path) -> bool:
    """Whether an address is told: up to kernel 6.14 those of CPUs' own variables come first, from 0 on."""
    with contextlib.suppress(OSError), (proc / "kallsyms").open() as kallsyms:
        return any(int(line.split()[0], 16) for line in itertools.islice(kallsyms, FIRST_SYMBOLS))
    return False


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _in_user_namespace(proc: Path) -> bool:
    with contextlib.suppress(OSError):
        lines = (proc / "self/uid_map").read_text().splitlines()
        return [line.split() for line in lines] != [["0", "0", str(EVERY_UID)]]
    return False
