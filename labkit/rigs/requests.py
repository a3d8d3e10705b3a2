"""What a workload asks of the agent. Pure."""

from __future__ import annotations

from typing import Any, Final

from labkit.agent.protocol import Run
from labkit.engines.base import EngineConfig, PktgenConfig
from labkit.engines.choose import choose
from labkit.records import Frames, Workload
from labkit.rigs.assemble import SAMPLE_EVERY_NS
from labkit.rigs.peer_counter import PeerRule
from labkit.rigs.sink_checks import sink_config

ANY_IFINDEX: Final = 1
"""Stands in a request until the agent, who owns the namespace, puts the sink's own number there."""


def engine_config(workload: Workload, frames: Frames, *, duration_ns: int, count: int | None) -> EngineConfig:
    """What all senders together are asked; a batch that `workload` does not name is the engine's own."""
    usual_batch = choose(workload.engine).usual_batch(frames)
    return EngineConfig(
        ifindex=ANY_IFINDEX,
        batch=usual_batch if workload.batch is None else workload.batch,
        count=count,
        duration_ns=duration_ns,
        rate_pps=workload.rate_pps,
        cpu=workload.cpu,
        qdisc_bypass=workload.qdisc_bypass,
        ring_frames=workload.ring_frames,
        stamp=workload.stamp,
        realtime_priority=workload.realtime_priority,
        pktgen=PktgenConfig(
            clone_skb=workload.clone_skb,
            xmit_mode=workload.xmit_mode,
            delay_ns=workload.delay_ns,
            commands=workload.pktgen,
        ),
        message_bytes=workload.message_bytes,
    )


def run_request(
    workload: Workload,
    config: EngineConfig,
    sink: str,
    rule: PeerRule,
    *,
    profile: bool,
    sample_every_ns: int | None,
) -> Run:
    """One run of `workload` into `sink`, whose arrivals `rule` counts; samples as usual, or as asked."""
    return Run(
        engine=workload.engine,
        sink=sink,
        config=config,
        workers=1 if workload.cpus is None else workload.cpus,
        sample_every_ns=SAMPLE_EVERY_NS if sample_every_ns is None else sample_every_ns,
        peer_counters=list(rule.counters),
        sink_config=sink_config(workload),
        profile=profile,
    )


def asked_of_sender(workload: Workload) -> dict[str, Any]:
    """What the senders were asked beside their traffic, where they were."""
    asked = {"stamp": workload.stamp or None, "realtime_priority": workload.realtime_priority}
    return {name: value for name, value in asked.items() if value is not None}
