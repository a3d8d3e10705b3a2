"""The closed law: packets per second of pktgen on one CPU, from TX ring size and interrupt interval.

Between two interrupts (one period) nobody cleans the ring. So a period sends the least of what the CPU
manages beside its interrupt, what the ring holds, and what the wire carries. Checked against 36 published
points (``data/published/ixgbe_ring_coalesce.csv``).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from labkit.errors import SettingRefusedError
from labkit.simnic.profile import Profile
from labkit.units import NS_PER_S, line_rate_pps

Term = Literal["TX ring", "line rate", "CPU"]

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
        Interrupts of the NIC alone; the published counts hold about 1 560 others a second.
    """

    pps: float
    limited_by: Term
    ring_pps: float
    wire_pps: float
    cpu_pps: float
    packets_per_period: float
    ring_occupancy: float
    interrupts_per_s: float


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
    limits: dict[Term, float] = {
        "TX ring": (ring - profile.driver.stop_descriptors) / period_ns * NS_PER_S,
        "line rate": line_rate_pps(frame_bytes, profile.constants.link_bits_per_s.value),
        "CPU": cpu_packets_per_period(profile, period_ns) / period_ns * NS_PER_S,
    }
    limited_by = min(limits, key=lambda term: limits[term])
    pps = limits[limited_by]
    packets = pps * period_ns / NS_PER_S
    return Outcome(
        pps=pps,
        limited_by=limited_by,
        ring_pps=limits["TX ring"],
        wire_pps=limits["line rate"],
        cpu_pps=limits["CPU"],
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
    if period_ns is None:
        raise SettingRefusedError(
            f"sim:{profile.name}: rx_usecs {rx_usecs} turns interrupt throttling off, which the closed law "
            f"does not cover; ask for 1 (dynamic mode) or 2 to {throttle.maximum}"
        )
    return period_ns


def cpu_packets_per_period(profile: Profile, period_ns: int) -> float:
    """Packets that the CPU sends and cleans in one period beside the interrupt itself.

    Of the descriptors cleaned at once those beyond the cache's cost more, and every full clean limit costs
    one more poll. Both depend on the number sought, so it is the fixed point of its own equation.
    """
    cost = profile.constants
    budget_ns = period_ns - cost.interrupt_ns.value
    packets = period_ns / cost.packet_ns.value
    for _ in range(FIXED_POINT_ROUNDS):
        missing_share = max(0.0, 1 - cost.cached_descriptors.value / packets)
        packet_ns = cost.packet_ns.value + cost.cache_miss_ns.value * missing_share
        repolls = packets // profile.driver.clean_limit
        found = (budget_ns - cost.repoll_ns.value * repolls) / packet_ns
        packets += DAMPING * (found - packets)
    return packets
