"""What arrived and what was dropped at the receiving end, by who is to be believed there. Pure."""

from __future__ import annotations

from labkit.agent.protocol import Measured
from labkit.counters.deltas import counter_deltas
from labkit.rigs.peer_counter import PeerRule


def peer_received(
    measured: Measured, rule: PeerRule, queue_dropped: int | None, softnet_dropped: int | None
) -> int | None:
    """Frames that arrived, by a sink's own count or the rule's counters; None where neither tells."""
    if measured.arrived is not None:
        return measured.arrived.received
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


def peer_dropped(measured: Measured, rule: PeerRule, queue_dropped: int | None) -> int | None:
    """Frames that reached the peer and found no room: in its queues, and in the sink that receives."""
    if measured.arrived is None:
        return queue_dropped if rule.counters else None
    kernel_dropped = measured.arrived.kernel_dropped
    return None if kernel_dropped is None or queue_dropped is None else kernel_dropped + queue_dropped


def peer_counter(sink: str, measured: Measured, rule: PeerRule) -> str | None:
    """Who says what arrived."""
    if measured.arrived is not None:
        return f"{measured.peer_device} {sink}"
    return " + ".join(f"{measured.peer_device} {name}" for name in rule.counters) or None
