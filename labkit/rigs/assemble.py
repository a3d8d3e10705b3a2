"""From an agent's raw measurement to a trial: counts by place, whether they agree, marks, limiter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from labkit.agent.protocol import Measured
from labkit.counters.deltas import counter_delta, counter_deltas
from labkit.counters.reconcile import Counts, difference_reason, reconciled
from labkit.engines.base import EngineReport
from labkit.factors import PEER_NAMES, Scalar
from labkit.records import SCHEMA_VERSION, Mark, Privilege, Sample, Trial
from labkit.rigs.peer_counter import PeerRule
from labkit.units import NS_PER_S, ns_per_packet, ns_to_seconds, rate_pps, seconds_to_ns

BUSY_RATIO = 1.02
"""Wall time over CPU time above which a sender that should be busy was not alone on its CPU."""
WAITED_SHARE = 0.01
"""Share of the run spent ready but waiting for the CPU that confirms it, where the kernel tells."""
STOLEN_SHARE = 0.02
ONE_TICK_NS = 10_000_000
"""Steal is read in ticks of 1/100 s, so one may belong to the time before."""
RATE_TOLERANCE = 0.01
SAMPLE_EVERY_NS = NS_PER_S // 8
FROZEN_NS = 5 * SAMPLE_EVERY_NS
"""Time without a sample above which the agent as a whole stood still (SIGSTOP, a frozen group or machine)."""
LATE_SHARE = 0.01
"""Share of the frames that may leave a queue after the engine's end: they count, but not their time."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was asked for, as far as the trial repeats it, and what the driver's counters tell."""

    rig: str
    engine: str
    sink: str
    frame_bytes: int
    batch: int | None
    duration_s: float
    rate_pps: float | None
    qdisc_bypass: bool
    settings_asked: dict[str, Scalar]
    settings_accepted: dict[str, Scalar]
    settings_effective: dict[str, Scalar]
    privilege: Privilege
    environment: dict[str, Any]
    push_back: int | None = None
    device_resets: Sequence[str] = ()


def trial_of(asked: Asked, measured: Measured, rule: PeerRule, samples: tuple[Sample, ...]) -> Trial:
    """One run as a trial; see `labkit.records.Trial` for what each field means."""
    report = measured.report
    counts = _counts(measured, rule)
    pps = None if counts.device_sent is None else rate_pps(counts.device_sent, report.elapsed_ns)
    marks = _marks(asked, measured, counts, samples)
    return Trial(
        rig=asked.rig,
        engine=asked.engine,
        sink=asked.sink,
        frame_bytes=asked.frame_bytes,
        batch=asked.batch,
        duration_s=asked.duration_s,
        rate_pps=asked.rate_pps,
        elapsed_ns=report.elapsed_ns,
        cpu_ns=report.cpu_ns,
        pps=pps,
        ns_per_packet=None if pps is None else ns_per_packet(pps),
        engine_sent=counts.engine_sent,
        engine_refused=None if asked.engine in PEER_NAMES else report.refused,
        refused_by_errno=dict(report.refused_by_errno),
        partial_returns=None if asked.engine in PEER_NAMES else report.partial_returns,
        segments_sent=None if report.super_packets is None else report.sent,
        qdisc_dropped=counts.qdisc_dropped,
        device_sent=counts.device_sent,
        device_dropped=counts.device_dropped,
        peer_received=counts.peer_received,
        peer_dropped=counts.peer_dropped,
        reconciled=reconciled(counts),
        difference_reason=difference_reason(
            counts,
            refused_by_errno=report.refused_by_errno,
            fatal_errno=report.fatal_errno,
            carrier=measured.carrier,
            peer_note=rule.note,
        ),
        limiter=_limiter(asked, counts, marks, carrier=measured.carrier),
        marks=list(marks),
        settings_asked=asked.settings_asked,
        settings_accepted=asked.settings_accepted,
        settings_effective=asked.settings_effective,
        environment=asked.environment | _circumstances(asked, measured, counts, rule),
        privilege=asked.privilege,
        schema_version=SCHEMA_VERSION,
        samples=samples,
    )


def _counts(measured: Measured, rule: PeerRule) -> Counts:
    before, after, report = measured.before, measured.after, measured.report
    device = counter_deltas(before.device, after.device)
    queue_dropped = counter_delta(before.peer_queue_dropped, after.peer_queue_dropped).value
    softnet = counter_delta(before.softnet_dropped, after.softnet_dropped).value
    device_sent = device.get(measured.device_counter)
    return Counts(
        engine_sent=_handed_over(report, device_sent),
        engine_refused=report.refused,
        partial_returns=report.partial_returns,
        qdisc_dropped=counter_delta(before.qdisc_dropped, after.qdisc_dropped).value,
        qdisc_queued=after.qdisc_queued,
        device_sent=device_sent,
        device_dropped=device.get("tx_dropped"),
        peer_received=_peer_received(measured, rule, queue_dropped, softnet),
        peer_dropped=queue_dropped if rule.counters else None,
    )


def _handed_over(report: EngineReport, device_sent: int | None) -> int | None:
    """Frames, or super-packets where the device took these whole and counts them as one packet each.

    veth and ifb do with tx_udp_segmentation on; without it the kernel cuts them up before the device, and
    NICs that cut them up themselves count what they send (ixgbe, mlx5: gso_segs).
    """
    whole = report.super_packets
    if whole is None or device_sent is None or report.sent is None:
        return report.sent
    return whole if abs(device_sent - whole) < abs(device_sent - report.sent) else report.sent


def _peer_received(
    measured: Measured, rule: PeerRule, queue_dropped: int | None, softnet_dropped: int | None
) -> int | None:
    if not rule.counters:
        return None
    peer = counter_deltas(measured.before.peer, measured.after.peer)
    total = 0
    for name in rule.counters:
        counted = peer.get(name)
        if counted is None:
            return None
        total += counted
    if "rx_dropped" in rule.counters:
        # rx_dropped holds full queues' drops too; those never reached the peer's stack
        total -= (queue_dropped or 0) + (softnet_dropped or 0)
    return total


def _marks(asked: Asked, measured: Measured, counts: Counts, samples: tuple[Sample, ...]) -> list[Mark]:
    late = _late(measured) > LATE_SHARE * (counts.device_sent or 0)
    found: dict[Mark, bool] = {
        "cpu-shared": _cpu_shared(asked, measured),
        "kernel-log": bool(measured.kernel_warnings),
        "rate-missed": _rate_missed(asked, measured, counts),
        "device-reset": bool(asked.device_resets),
        "frozen": _frozen(samples, measured.report.elapsed_ns),
        "no-carrier": not measured.carrier,
        "nothing-sent": counts.device_sent == 0,
        "unsettled": not measured.settled or late,
    }
    return [mark for mark, true in found.items() if true]


def _cpu_shared(asked: Asked, measured: Measured) -> bool:
    report = measured.report
    wall_ns = report.elapsed_ns
    queue_may_hold = asked.settings_accepted.get("qdisc", "noqueue") != "noqueue"
    if not wall_ns:
        return False
    if (measured.steal_ns or 0) > STOLEN_SHARE * wall_ns + ONE_TICK_NS:
        return True
    # a sender that was stopped as a whole, or frozen with its group, waits for no CPU; it ends too late
    if wall_ns > BUSY_RATIO * seconds_to_ns(asked.duration_s) + ONE_TICK_NS:
        return True
    busy_ns = report.cpu_ns // max(1, len(measured.workers))
    if asked.rate_pps is not None or wall_ns <= BUSY_RATIO * busy_ns:
        return False
    # CPU time alone misleads where the kernel books softirqs elsewhere (CONFIG_IRQ_TIME_ACCOUNTING), and
    # where a full queue puts the sender to sleep; the wait for a CPU is neither
    waited = measured.runqueue_wait_ns
    return not queue_may_hold if waited is None else bool(waited > WAITED_SHARE * wall_ns)


def _rate_missed(asked: Asked, measured: Measured, counts: Counts) -> bool:
    if asked.rate_pps is None:
        return False
    due = asked.rate_pps * ns_to_seconds(measured.report.elapsed_ns)
    sent = counts.device_sent or 0
    if measured.report.sent is not None and counts.engine_sent != measured.report.sent:
        sent = measured.report.sent  # the device counts super-packets, the rate is of frames
    # frames are whole: one more or less is no miss, but a run shorter than two slots shows no rate
    return abs(sent - due) > max(min(1.5, due / 2), RATE_TOLERANCE * due)


def _frozen(samples: tuple[Sample, ...], elapsed_ns: int) -> bool:
    """Whether samples were due and none came for long; a run without any was too short to tell."""
    times = [0, *(sample.at_ns for sample in samples), elapsed_ns]
    return bool(samples) and any(after - before > FROZEN_NS for before, after in pairwise(times))


def _late(measured: Measured) -> int:
    """Frames that the device counted after the engine had ended."""
    return counter_deltas(measured.at_end, measured.after.device).get(measured.device_counter) or 0


def _limiter(asked: Asked, counts: Counts, marks: list[Mark], *, carrier: bool) -> str | None:
    """What limited the run, where one counter proves it; else None."""
    if not carrier:
        return "carrier"
    if counts.qdisc_dropped:
        return "qdisc"
    if counts.device_dropped:
        return "device"
    if asked.push_back:
        return "TX ring"
    if asked.rate_pps is not None and "rate-missed" not in marks:
        return "pacing"
    return None


def _path(*, asked_bypass: bool, granted: bool) -> str:
    if granted:
        return "qdisc bypass"
    return "qdisc path (this kernel refused the bypass)" if asked_bypass else "qdisc path"


def _super_packets(asked: Asked, report: EngineReport, counts: Counts) -> dict[str, Any]:
    """Of gso: how many there were, what the device's packets are, and that frames leave in bursts."""
    if report.super_packets is None:
        return {}
    return {
        "super_packets": report.super_packets,
        "device_packets_are": "frames" if counts.engine_sent == report.sent else "super-packets",
        "burst_frames": asked.batch,
    }


def _workers(measured: Measured) -> dict[str, Any]:
    """What each CPU did, where there were several: packets a second of its own time, CPU time a packet."""
    if len(measured.workers) < 2:
        return {}
    return {
        "workers": [
            {
                "cpu": worker.cpu,
                "sent": worker.report.sent,
                "pps": _pps(worker.report),
                "cpu_ns_per_packet": worker.report.cpu_ns / worker.report.sent
                if worker.report.sent
                else None,
            }
            for worker in measured.workers
        ]
    }


def _pps(report: EngineReport) -> float | None:
    return None if report.sent is None else rate_pps(report.sent, report.elapsed_ns)


def _circumstances(asked: Asked, measured: Measured, counts: Counts, rule: PeerRule) -> dict[str, Any]:
    """What else travels with a trial: where counts come from, and what disturbed it."""
    report = measured.report
    return {
        "cpu": measured.cpu,
        **_workers(measured),
        "device_counter": f"{measured.device} {measured.device_counter}",
        "peer_counter": " + ".join(f"{measured.peer_device} {name}" for name in rule.counters) or None,
        **_super_packets(asked, report, counts),
        "path": _path(asked_bypass=asked.qdisc_bypass, granted=report.qdisc_bypass),
        "ended_by": report.ended_by,
        "fatal_errno": report.fatal_errno,
        "counters_settled": measured.settled,
        "cpus_kept_awake": measured.cpus_kept_awake,
        "runqueue_wait_ns": measured.runqueue_wait_ns,
        "steal_ns": measured.steal_ns,
        "involuntary_switches": report.involuntary_switches,
        "kernel_warnings": measured.kernel_warnings,
    }
