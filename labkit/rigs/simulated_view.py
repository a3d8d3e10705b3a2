"""What a simulated trial tells beyond its counts: budget, zones, latencies, the law, a stream's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from labkit.factors import Scalar
from labkit.rigs.simulated_counts import busy_ns
from labkit.simnic.law import Outcome, outcome
from labkit.simnic.profile import Profile
from labkit.simnic.run import Share, Simulated, Zones
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S, NS_PER_US

TCP_HEADERS_BYTES: Final = 66
"""Ethernet 14, IP 20, TCP 20 and its timestamps 12."""
KILOBYTE: Final = 1024
"""netperf's: its service demand is microseconds for 1024 bytes."""
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.99": 0.9999, "max": 1.0}


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A TCP stream as ``netperf -cC`` reports its sender's side.

    Attributes
    ----------
    throughput_bits_per_s : float
        Payload.
    cpu_percent : float
        Share of the sending CPUs that is used.
    service_demand_us_per_kb : float or None
        CPU time in microseconds for 1024 bytes; None when nothing was sent.
    """

    throughput_bits_per_s: float
    cpu_percent: float
    service_demand_us_per_kb: float | None


class Reception(msgspec.Struct, frozen=True, kw_only=True):
    """An open stream of frames as the simulated machine received it.

    Attributes
    ----------
    received, missed : int
        Frames that reached the stack, and those that found no descriptor free.
    received_pps : float
        Received frames a second.
    latency_ns : dict of str to int
        From arrival to the stack: percentiles, each the lower edge of a bucket at most 6.25 % wide.
    """

    received: int
    missed: int
    received_pps: float
    latency_ns: dict[str, int]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What the event loop knows of a trial beyond its counts (`labkit.simnic.run.Simulated`).

    Attributes
    ----------
    interrupts_per_s, background_irqs_per_s : float
        The card's own interrupts, and those of others that published counts hold besides.
    law : Outcome or None
        The closed law's answer at full speed; None where it covers nothing.
    tcp : Stream or None
        Figures of engine ``tcp``.
    receive : Reception or None
        Figures of engine ``receive``.
    """

    budget: tuple[Share, ...]
    zones: Zones
    interrupts_per_s: float
    background_irqs_per_s: float
    bql_limit_bytes: int | None
    itr: int | None
    latency: tuple[tuple[int, int], ...]
    per_cpu: tuple[dict[str, int], ...]
    carrier_lost: bool
    law: Outcome | None
    tcp: Stream | None
    receive: Reception | None


def view_of(
    answer: Simulated, sender: Sender, profile: Profile, settings: Mapping[str, Scalar]
) -> dict[str, Any]:
    """`View` of one run, as plain JSON values."""
    raised = sum(answer.tx_interrupts) + sum(answer.rx_interrupts)
    built: dict[str, Any] = msgspec.to_builtins(
        View(
            budget=answer.budget,
            zones=answer.zones,
            interrupts_per_s=_a_second(raised, answer),
            background_irqs_per_s=profile.value("background_irqs_per_s"),
            bql_limit_bytes=answer.bql_limit_bytes,
            itr=answer.itr,
            latency=answer.latency if sender.engine == "receive" else (),
            per_cpu=answer.per_cpu,
            carrier_lost=answer.carrier_lost,
            law=law_of(profile, settings, sender),
            tcp=_stream(answer, sender) if sender.engine == "tcp" else None,
            receive=_reception(answer) if sender.engine == "receive" else None,
        )
    )
    return built


def stream_figures(view: Mapping[str, Any]) -> dict[str, Any]:
    """What stands under ``environment["tcp"]``, as on real rigs; no other end reads a byte."""
    stream = view["tcp"]
    if stream is None:
        return {}
    figures = {
        "throughput_mbit": stream["throughput_bits_per_s"] / 1e6,
        "cpu_local_pct": stream["cpu_percent"],
        "cpu_remote_pct": None,
        "sdem_local_us_per_kb": stream["service_demand_us_per_kb"],
        "sdem_remote_us_per_kb": None,
        "bytes_sent": None,
        "bytes_received": None,
        "retransmits": None,
        "intervals": [],
    }
    return {"tcp": figures}


def law_of(profile: Profile, settings: Mapping[str, Scalar], sender: Sender) -> Outcome | None:
    """What the closed law says at full speed; it covers pktgen on one CPU, a frame a doorbell, moderated."""
    plain = Sender(engine="pktgen", frame_bytes=sender.frame_bytes, clone_skb=sender.clone_skb)
    told = msgspec.structs.replace(sender, gap_ns=0.0, qdisc_bypass=plain.qdisc_bypass)
    usecs = int(settings["rx_usecs"] or 0)
    covered = told == plain and sender.clone_skb > 0 and profile.driver.moderation == "interval"
    if not covered or not profile.driver.rx_usecs.period_ns(usecs):
        return None
    ring = int(settings["tx_ring"] or 0)
    return outcome(profile, tx_ring=ring, rx_usecs=usecs, frame_bytes=sender.frame_bytes)


def percentiles(latency: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Latencies in nanoseconds by `PERCENTILES`; empty when nothing was received."""
    total = sum(frames for _, frames in latency)
    if not total:
        return {}
    found: dict[str, int] = {}
    for name, share in PERCENTILES.items():
        wanted, below = math.ceil(share * total), 0
        for ns, frames in latency:
            below += frames
            if below >= wanted:
                found[name] = ns
                break
    return found


def _stream(answer: Simulated, sender: Sender) -> Stream:
    payload = answer.sent * (sender.frame_bytes - TCP_HEADERS_BYTES)
    busy, whole = busy_ns(answer, sender), answer.elapsed_ns * sender.cpus
    return Stream(
        throughput_bits_per_s=_a_second(8 * payload, answer),
        cpu_percent=100 * busy / whole if whole else 0.0,
        service_demand_us_per_kb=busy / NS_PER_US / (payload / KILOBYTE) if payload else None,
    )


def _reception(answer: Simulated) -> Reception:
    return Reception(
        received=answer.received,
        missed=answer.missed,
        received_pps=_a_second(answer.received, answer),
        latency_ns=percentiles(answer.latency),
    )


def _a_second(count: int, answer: Simulated) -> float:
    return count * NS_PER_S / answer.elapsed_ns if answer.elapsed_ns else 0.0
