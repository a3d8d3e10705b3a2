"""The event loop's answer: one sender on one machine under its settings, packet by packet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from labkit import _native
from labkit.errors import WorkloadError
from labkit.simnic.config import PS_PER_NS, config_of, keeps_limits
from labkit.simnic.profile import Profile
from labkit.simnic.run import Moment, Run, Share, Simulated, Zones
from labkit.simnic.sender import Sender, Term, terms
from labkit.units import NS_PER_S

WAITS: Final = {
    "ring_wait_ps": "waiting for the ring",
    "pacing_wait_ps": "waiting for its time",
    "window_wait_ps": "waiting for the peer",
    "idle_ps": "idle",
    "shared_line_ps": "shared cache line",
    "stall_ps": "locked operations behind the doorbell",
}
"""What a CPU does that neither sends nor cleans."""
RECEIVED: Final = "received frames"
"""Part of a receiver's budget that each frame costs."""


def simulate(
    profile: Profile, settings: Mapping[str, Any], sender: Sender, run: Run | None = None
) -> Simulated:
    """Run the event loop.

    Parameters
    ----------
    profile : Profile
        The machine.
    settings : mapping of str to value
        What its driver accepted: ``tx_ring rx_ring rx_usecs rx_frames tx_usecs tx_frames bql_limit_min
        bql_limit_max txqueuelen``; one that is missing is the profile's default.
    sender : Sender
        What is sent, and how.
    run : Run or None
        How long, and what is looked at.

    Raises
    ------
    WorkloadError
        A time or length that the loop has no room for, such as a frame of more than 2 ms on the wire.
    """
    asked = Run() if run is None else run
    try:
        report = _native.simulate(config_of(profile, settings, sender, asked))
    except ValueError as odd:
        raise WorkloadError(f"sim:{profile.name}: {odd}; mend what was asked, or its profile") from odd
    return _simulated(profile, settings, sender, report)


def _simulated(
    profile: Profile, settings: Mapping[str, Any], sender: Sender, report: _native.SimReport
) -> Simulated:
    lanes = report.lanes
    counts = tuple(lane.counts for lane in lanes)
    elapsed_ns = max(count["elapsed_ps"] for count in counts) / PS_PER_NS
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    frames = total["received"] if sender.engine == "receive" else total["sent"]
    return Simulated(
        elapsed_ns=elapsed_ns,
        sent=total["sent"],
        refused=total["refused"],
        received=total["received"],
        missed=total["missed"],
        pps=frames * NS_PER_S / elapsed_ns if elapsed_ns else None,
        per_cpu=counts,
        tx_interrupts=tuple(count["tx_interrupts"] for count in counts),
        rx_interrupts=tuple(count["rx_interrupts"] for count in counts),
        budget=_budget(profile, sender, total, frames),
        zones=_zones(settings.get("tx_ring", profile.driver.defaults["tx_ring"]), lanes),
        bql_limit_bytes=lanes[0].bql_limit if keeps_limits(profile, sender) else None,
        itr=lanes[0].itr or None,
        latency=tuple(
            (_native.histogram_floor(bucket), frames)
            for bucket, frames in enumerate(report.latency)
            if frames
        ),
        samples=tuple(_moment(sample, limited=keeps_limits(profile, sender)) for sample in report.samples),
        carrier_lost=report.carrier_lost,
    )


def _moment(sample: _native.SimSample, *, limited: bool) -> Moment:
    return Moment(
        at_ns=sample.at // PS_PER_NS,
        sent=sample.sent,
        received=sample.received,
        bql_limit_bytes=sample.bql_limit if limited else None,
        bql_inflight_bytes=sample.bql_inflight if limited else None,
    )


def _budget(profile: Profile, sender: Sender, total: Mapping[str, int], frames: int) -> tuple[Share, ...]:
    """Where the time went, by packet; its parts add up to all CPUs' time."""
    if not frames:
        return ()
    times = {"frame": total["sent"] + total["refused"], "burst": total["bursts"], "call": total["calls"]}
    origins = profile.constants.origins()
    parts = [_share(term, times[term.per], frames) for term in terms(profile, sender)]
    for name, constant, count in (
        ("cleaning", "clean_ns", total["cleaned"]),
        ("cache misses", "cache_miss_ns", total["cache_misses"]),
        ("interrupts", "interrupt_ns", total["tx_interrupts"] + total["rx_interrupts"]),
        ("polls again", "repoll_ns", total["repolls"]),
        *_receiving(sender, total["received"]),
    ):
        if count:
            ns = profile.value(constant) * count / frames
            parts.append(Share(name=name, ns_per_packet=ns, source=origins[constant]))
    for counter, name in WAITS.items():
        if total[counter]:
            ns = total[counter] / PS_PER_NS / frames
            parts.append(Share(name=name, ns_per_packet=ns, source="what the others leave over"))
    return tuple(parts)


def _share(term: Term, times: int, frames: int) -> Share:
    return Share(name=term.name, ns_per_packet=term.ns * times / frames, source=term.source)


def _receiving(sender: Sender, received: int) -> tuple[tuple[str, str, int], ...]:
    if sender.engine == "tcp":
        return (("acknowledgements", "ack_ns", received),)
    return ((RECEIVED, "receive_ns", received),) if sender.engine == "receive" else ()


def _zones(ring: int, lanes: Sequence[_native.SimLane]) -> Zones:
    elapsed = sum(lane.counts["elapsed_ps"] for lane in lanes) or 1
    waiting = sum(lane.waiting_ps for lane in lanes) / elapsed
    uncleaned = sum(lane.uncleaned_ps for lane in lanes) / elapsed
    return Zones(waiting=waiting, uncleaned=uncleaned, free=ring - waiting - uncleaned)
