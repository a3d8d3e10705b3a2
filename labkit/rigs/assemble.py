"""From an agent's raw measurement to a trial: counts by place, whether they agree, marks, limiter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from labkit.agent.protocol import Measured
from labkit.counters.deltas import counter_delta, counter_deltas
from labkit.counters.reconcile import Counts
from labkit.engines.base import EngineReport
from labkit.factors import PEER_NAMES, Scalar
from labkit.records import SCHEMA_VERSION, Mark, Privilege, Sample, Trial
from labkit.rigs.agreement import agreement, difference, segments
from labkit.rigs.arrived import sink_told
from labkit.rigs.paced import pacing, rate_missed
from labkit.rigs.peer_counter import PeerRule
from labkit.rigs.peer_counts import peer_counter, peer_dropped, peer_received
from labkit.rigs.pktgen_view import ended_early, pktgen_told, sent_bytes
from labkit.rigs.push_back import limiter_of
from labkit.rigs.queue_limits import bql_told
from labkit.rigs.streams import stream_told
from labkit.units import NS_PER_S, ns_per_packet, rate_pps, seconds_to_ns

BUSY_RATIO = 1.02
"""Wall time over CPU time above which a sender that should be busy was not alone on its CPU."""
WAITED_SHARE = 0.01
"""Share of the run spent ready but waiting for the CPU that confirms it, where the kernel tells."""
STOLEN_SHARE = 0.02
ONE_TICK_NS = 10_000_000
"""Steal is read in ticks of 1/100 s, so one may belong to the time before."""
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
    full: str = "TX ring"
    device_resets: Sequence[str] = ()
    emulated: bool = False


def trial_of(asked: Asked, measured: Measured, rule: PeerRule, samples: tuple[Sample, ...]) -> Trial:
    """One run as a trial; see `labkit.records.Trial` for what each field means."""
    report = measured.report
    counts = _counts(asked, measured, rule)
    pps = None if counts.device_sent is None else rate_pps(counts.device_sent, report.elapsed_ns)
    marks = _marks(asked, measured, counts, samples)
    return Trial(
        rig=asked.rig,
        engine=asked.engine,
        sink=asked.sink,
        frame_bytes=sent_bytes(report, asked.frame_bytes),
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
        segments_sent=segments(report),
        qdisc_dropped=counts.qdisc_dropped,
        device_sent=counts.device_sent,
        device_dropped=counts.device_dropped,
        peer_received=counts.peer_received,
        peer_dropped=counts.peer_dropped,
        reconciled=agreement(counts, report),
        difference_reason=difference(counts, measured, rule),
        limiter=limiter_of(
            counts,
            carrier=measured.carrier,
            push_back=asked.push_back,
            full=asked.full,
            qdisc=asked.settings_accepted.get("qdisc"),
            paced=asked.rate_pps is not None and "rate-missed" not in marks,
        ),
        marks=list(marks),
        settings_asked=asked.settings_asked,
        settings_accepted=asked.settings_accepted,
        settings_effective=asked.settings_effective,
        environment={
            **asked.environment,
            **_circumstances(asked, measured, counts, rule),
            "bql": bql_told(measured.byte_limits, samples, counts.device_sent),
        },
        privilege=asked.privilege,
        schema_version=SCHEMA_VERSION,
        samples=samples,
    )


def _counts(asked: Asked, measured: Measured, rule: PeerRule) -> Counts:
    before, after, report = measured.before, measured.after, measured.report
    device = counter_deltas(before.device, after.device)
    queue_dropped = counter_delta(before.peer_queue_dropped, after.peer_queue_dropped).value
    softnet = counter_delta(before.softnet_dropped, after.softnet_dropped).value
    device_sent = device.get(measured.device_counter)
    return Counts(
        engine_sent=_handed_over(
            report,
            device_sent,
            cut_up=asked.settings_accepted.get("tx_udp_segmentation") is False,
        ),
        engine_refused=report.refused,
        partial_returns=report.partial_returns,
        qdisc_dropped=counter_delta(before.qdisc_dropped, after.qdisc_dropped).value,
        qdisc_queued=after.qdisc_queued,
        device_sent=device_sent,
        device_dropped=device.get("tx_dropped"),
        peer_received=peer_received(measured, rule, queue_dropped, softnet),
        peer_dropped=peer_dropped(measured, rule, queue_dropped),
        attempted=report.attempted,
    )


def _handed_over(report: EngineReport, device_sent: int | None, *, cut_up: bool) -> int | None:
    """Frames, or super-packets where the device took these whole and counts them as one packet each.

    veth and ifb do with tx_udp_segmentation on; without it (`cut_up`) the kernel makes frames of them before
    the device. NICs that cut them up themselves count what they send (ixgbe, mlx5: gso_segs), and a queue
    may do so too (net/sched/sch_tbf.c, tbf_segment): then the device counts more than there were.
    """
    whole = report.super_packets
    if whole is None or device_sent is None or report.sent is None:
        return report.sent
    return report.sent if cut_up or device_sent > whole else whole


def _marks(asked: Asked, measured: Measured, counts: Counts, samples: tuple[Sample, ...]) -> list[Mark]:
    late = _late(measured) > LATE_SHARE * (counts.device_sent or 0)
    found: dict[Mark, bool] = {
        "cpu-shared": not asked.emulated and _cpu_shared(asked, measured),
        "kernel-log": bool(measured.kernel_warnings),
        "rate-missed": rate_missed(asked.rate_pps, measured.report, counts),
        "device-reset": bool(asked.device_resets),
        "ended-early": ended_early(measured.report) is not None,
        "frozen": not asked.emulated and _frozen(samples, measured.report.elapsed_ns),
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
    if report.stream is not None:
        return False  # it waits for its reader, and for what is on its way in the end
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


def _frozen(samples: tuple[Sample, ...], elapsed_ns: int) -> bool:
    """Whether samples were due and none came for long; a run without any was too short to tell."""
    times = [0, *(sample.at_ns for sample in samples), elapsed_ns]
    return bool(samples) and any(after - before > FROZEN_NS for before, after in pairwise(times))


def _late(measured: Measured) -> int:
    """Frames that the device counted after the engine had ended."""
    return counter_deltas(measured.at_end, measured.after.device).get(measured.device_counter) or 0


def _path(*, asked_bypass: bool, granted: bool) -> str:
    if granted:
        return "qdisc bypass"
    return "qdisc path (this kernel refused the bypass)" if asked_bypass else "qdisc path"


def _buffers(report: EngineReport) -> dict[str, Any]:
    """Of af_xdp: whether the device read the frames where they lay."""
    if report.zero_copy is None:
        return {}
    return {"buffers": "zero copy" if report.zero_copy else "copied by the kernel"}


def _attempted(report: EngineReport) -> dict[str, Any]:
    """Of an engine that cannot know what was sent: what it handed over."""
    return {} if report.attempted is None else {"handed_over": report.attempted}


def _super_packets(asked: Asked, report: EngineReport, counts: Counts) -> dict[str, Any]:
    """Of gso: how many there were, what the device's packets are, and that frames leave in bursts."""
    if report.super_packets is None:
        return {}
    return {
        "super_packets": report.super_packets,
        "device_packets_are": "frames" if counts.engine_sent == report.sent else "super-packets",
        "burst_frames": report.burst_frames or asked.batch,
    }


def _workers(measured: Measured) -> dict[str, Any]:
    """What each CPU did, where there were several."""
    if len(measured.workers) < 2:
        return {}
    return {"workers": [{"cpu": worker.cpu, **_part(worker.report)} for worker in measured.workers]}


def _part(report: EngineReport) -> dict[str, Any]:
    """Packets a second of a worker's own time, and its CPU time a packet: sent, or else handed over."""
    frames = report.attempted if report.sent is None else report.sent
    return {
        "sent": report.sent,
        **_attempted(report),
        "pps": _pps(report),
        "cpu_ns_per_packet": report.cpu_ns / frames if frames else None,
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
        "peer_counter": peer_counter(asked.sink, measured, rule),
        **sink_told(measured.arrived, report, counts.engine_sent),
        **_super_packets(asked, report, counts),
        **stream_told(report, asked.frame_bytes, counts.device_sent),
        **pacing(asked.rate_pps, report, counts),
        **_buffers(report),
        **pktgen_told(report),
        **_attempted(report),
        **({"emulated": True} if asked.emulated else {}),
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
