"""What an agent read of a run: counters at one instant, and what each sender did."""

from __future__ import annotations

import msgspec

from labkit.engines.base import EngineReport


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Raw counters at one instant; what is not counted here is None or absent.

    Attributes
    ----------
    peer_napi_packets : int or None
        Frames that a veth peer's NAPI took in; the others went past it.
    qdisc_requeued : int or None
        How often the qdisc took packets back because the device was full.
    port_interrupts : dict of str to int or None
        Those of the card at which frames arrive, where the agent owns it.
    interrupts : dict of str to int or None
        Those of the device's queues, as ``/proc/interrupts`` calls them.
    """

    device: dict[str, int]
    peer: dict[str, int]
    peer_queue_dropped: int | None
    qdisc_dropped: int | None
    qdisc_queued: int | None
    softnet_dropped: int | None
    peer_napi_packets: int | None = None
    qdisc_requeued: int | None = None
    statistics: list[tuple[str, int]] = []
    interrupts: dict[str, int] | None = None
    port_interrupts: dict[str, int] | None = None


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One of a run's senders: its CPU, and what it did."""

    cpu: int
    report: EngineReport
