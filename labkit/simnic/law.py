"""The closed law: packets per second of pktgen on one CPU, from TX ring size and interrupt interval.

Between two interrupts (one period) nobody cleans the ring. So a period sends the least of what the CPU
manages beside its interrupt, what the ring holds, and what the wire carries. Checked against 36 published
points (``data/published/ixgbe_ring_coalesce.csv``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from labkit.errors import SettingRefusedError
from labkit.simnic.profile import Profile
from labkit.units import NS_PER_S, line_rate_pps

Term = Literal["TX ring", "line rate", "CPU"]
Floats = npt.NDArray[np.float64]

FIXED_POINT_ROUNDS: Final = 60
DAMPING: Final = 0.5
"""Rounds and weight of the fixed point: half of 2⁻⁶⁰ is below a double's resolution."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the law says about one setting.

    Attributes
    ----------
    pps : float
        Packets per second: the smallest of the three limits.
    limited_by : str
        Which limit that is.
    ring_pps, wire_pps, cpu_pps : float
        The three limits in packets per second; the ring's needs no fitted number.
    packets_per_period : float
        Packets between two interrupts.
    ring_occupancy : float
        Share of the ring's descriptors in use when the interrupt comes, 0 to 1.
    interrupts_per_s : float
        Interrupts of the NIC alone; published counts hold others as well (``background_irqs_per_s``).
    """

    pps: float
    limited_by: Term
    ring_pps: float
    wire_pps: float
    cpu_pps: float
    packets_per_period: float
    ring_occupancy: float
    interrupts_per_s: float


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Three limits in packets per second, one value a setting."""

    ring_pps: Floats
    wire_pps: Floats
    cpu_pps: Floats

    @property
    def pps(self) -> Floats:
        """The smallest of the three."""
        smallest: Floats = np.minimum(np.minimum(self.ring_pps, self.wire_pps), self.cpu_pps)
        return smallest


def outcome(profile: Profile, *, tx_ring: int, rx_usecs: int, frame_bytes: int = 60) -> Outcome:
    """Speed of pktgen at one setting, in packets per second, and what limits it.

    Parameters
    ----------
    profile : Profile
        The machine.
    tx_ring : int
        Descriptors asked for; the driver's rounding applies.
    rx_usecs : int
        Interrupt interval in microseconds, or one of the driver's codes.
    frame_bytes : int
        Frame length without FCS.

    Raises
    ------
    SettingRefusedError
        `rx_usecs` above the driver's maximum, or 0, which the law does not cover.
    """
    ring = profile.driver.tx_ring.accepted(tx_ring, "tx_ring")
    period_ns = interrupt_period_ns(profile, rx_usecs)
    found = limits(profile, tx_rings=[ring], periods_ns=[period_ns], frame_bytes=frame_bytes)
    by_term: dict[Term, float] = {
        "TX ring": float(found.ring_pps[0]),
        "line rate": float(found.wire_pps[0]),
        "CPU": float(found.cpu_pps[0]),
    }
    limited_by = min(by_term, key=lambda term: by_term[term])
    pps = by_term[limited_by]
    packets = pps * period_ns / NS_PER_S
    return Outcome(
        pps=pps,
        limited_by=limited_by,
        ring_pps=by_term["TX ring"],
        wire_pps=by_term["line rate"],
        cpu_pps=by_term["CPU"],
        packets_per_period=packets,
        ring_occupancy=packets / ring,
        interrupts_per_s=NS_PER_S / period_ns,
    )


def interrupt_period_ns(profile: Profile, rx_usecs: int) -> int:
    """Time between two interrupts in nanoseconds under a flood of packets.

    Raises
    ------
    SettingRefusedError
        Above the driver's maximum, or throttling off.
    """
    throttle = profile.driver.rx_usecs
    period_ns = throttle.period_ns(throttle.accepted(rx_usecs, "rx_usecs"))
    if not period_ns:
        raise SettingRefusedError(
            f"sim:{profile.name}: rx_usecs {rx_usecs} turns interrupt throttling off, which the closed law "
            f"does not cover; ask for 1 (dynamic mode) or 2 to {throttle.maximum}"
        )
    return period_ns


def limits(
    profile: Profile, *, tx_rings: Sequence[int], periods_ns: Sequence[float], frame_bytes: int = 60
) -> Limits:
    """The law for many settings at once.

    Parameters
    ----------
    profile : Profile
        The machine; it must know ``packet_ns``.
    tx_rings : sequence of int, shape (n,)
        Descriptors, as accepted.
    periods_ns : sequence of float, shape (n,)
        Time between two interrupts.
    frame_bytes : int
        Frame length without FCS.
    """
    rings, periods = np.asarray(tx_rings, dtype=float), np.asarray(periods_ns, dtype=float)
    wire_pps = line_rate_pps(frame_bytes, profile.value("link_bits_per_s"))
    return Limits(
        ring_pps=(rings - profile.driver.stop_descriptors) / periods * NS_PER_S,
        wire_pps=np.full_like(periods, wire_pps),
        cpu_pps=_cpu_packets(profile, periods) / periods * NS_PER_S,
    )


def _cpu_packets(profile: Profile, periods_ns: Floats) -> Floats:
    """Packets that the CPU sends and cleans in one period beside the interrupt itself.

    Of the descriptors cleaned at once those beyond the cache's cost more, and every full clean limit costs
    one more poll. Both depend on the number sought, so it is the fixed point of its own equation.
    """
    packet_ns, miss_ns = profile.value("packet_ns"), profile.value("cache_miss_ns")
    cached, repoll_ns = profile.value("cached_descriptors"), profile.value("repoll_ns")
    budget_ns = periods_ns - profile.value("interrupt_ns")
    packets: Floats = periods_ns / packet_ns
    for _ in range(FIXED_POINT_ROUNDS):
        missing_share = np.maximum(0.0, 1 - cached / packets)
        repolls = packets // profile.driver.clean_limit
        found = (budget_ns - repoll_ns * repolls) / (packet_ns + miss_ns * missing_share)
        packets = packets + DAMPING * (found - packets)
    return packets
