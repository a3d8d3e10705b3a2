"""Named groups of settings per driver, applied and put back as a whole. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import Scalar

OVERLOAD_SOURCE: Final = (
    "J. D. Brouer, 'Basic tuning for network overload testing' (netoptimizer, April 2014) and the set-up "
    "section of his net-next measurements of August 2014: interrupt affinity set, irqbalance stopped, "
    "ethtool -C rx-usecs 30"
)


class SettingsProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that belong together.

    Attributes
    ----------
    name, driver : str
        What was asked for.
    settings : mapping
        In the order in which they are to be applied: adaptive modes go off before fixed values.
    source : str
        Who recommends them.
    note : str
        What this driver makes of them; empty when nothing is special.
    """

    name: str
    driver: str
    settings: Mapping[str, Scalar]
    source: str
    note: str


_PAUSE_OFF: Final[dict[str, Scalar]] = {"pause_rx": False, "pause_tx": False}
_FIXED: Final[dict[str, Scalar]] = {"rx_usecs": 30, **_PAUSE_OFF}
_ADAPTIVE_OFF: Final[dict[str, Scalar]] = {"adaptive_rx": False, **_FIXED}

_OVERLOAD: Final[dict[str, tuple[dict[str, Scalar], str]]] = {
    "ixgbe": (_FIXED, "in hardware 30 is 15 steps of 2.048 us; RX and TX share the interrupt"),
    "igb": (_FIXED, ""),
    "igc": (_FIXED, ""),
    "e1000e": (_FIXED, ""),
    "i40e": (_ADAPTIVE_OFF, "refuses fixed values while adaptive_rx is on"),
    "ice": (_ADAPTIVE_OFF, "refuses fixed values while adaptive_rx is on"),
    "mlx5_core": (_ADAPTIVE_OFF, ""),
    "gfar-enet": (
        {"rx_usecs": 30, "rx_frames": 16, **_PAUSE_OFF},
        "coalesces only when rx_usecs and rx_frames are both above 0; every change restarts the interface",
    ),
    "virtio_net": (
        {},
        "no pause frames; rx_usecs is left out: it needs a hypervisor that offers notification coalescing",
    ),
}
"""Limits and quirks: the drivers' source as of Linux 6.12."""

_NO_HARDWARE: Final = frozenset({"veth", "tun", "dummy", "ifb", "bridge", "bonding"})


def settings_profile(name: str, driver: str, *, interrupts: int, cpus: Sequence[int]) -> SettingsProfile:
    """Profile `name` for `driver`; a driver that is not listed gets the plain values.

    Parameters
    ----------
    name, driver : str
        ``overload``, and the driver's name as ethtool tells it.
    interrupts : int
        How many interrupts of queues the device has: the n-th goes to the n-th of `cpus`, round again.
    cpus : sequence of int
        CPUs that take interrupts.

    Raises
    ------
    WorkloadError
        There is no such profile, or no CPU for the interrupts.
    CapabilityMissingError
        The driver has no interrupts, so nothing in the profile applies.
    """
    if name != "overload":
        raise WorkloadError(f"settings profile {name!r} is not known; the one there is: overload")
    if driver in _NO_HARDWARE:
        raise CapabilityMissingError(
            f"{driver}: has no interrupts and no pause frames, so profile 'overload' has nothing to set; "
            "take a network card"
        )
    plain = (_FIXED, "not a driver that labkit knows; read back what it made of the values")
    fixed, note = _OVERLOAD.get(driver, plain)
    settings = {**fixed, **_affinity(interrupts, cpus)}
    return SettingsProfile(name=name, driver=driver, settings=settings, source=OVERLOAD_SOURCE, note=note)


def _affinity(interrupts: int, cpus: Sequence[int]) -> dict[str, Scalar]:
    """One CPU an interrupt, as `irq_affinity` reads back: apart by ``;``, or one where all are equal."""
    if interrupts == 0:
        return {}
    if not cpus:
        raise WorkloadError("profile 'overload': name at least one CPU for the interrupts")
    each = [str(cpus[index % len(cpus)]) for index in range(interrupts)]
    return {"irq_affinity": each[0] if len(set(each)) == 1 else ";".join(each)}
