"""Who could take no more: what the queue and the sender saw of a full device below them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from labkit.agent.protocol import Measured
from labkit.counters.deltas import counter_delta, counter_deltas
from labkit.counters.reconcile import Counts

FULL: Final = ("ENOBUFS", "EAGAIN")
"""How the kernel tells a sender that the device below is full (net/core/dev.c, net/xdp/xsk.c)."""
FIFOS: Final = ("pfifo", "bfifo")
"""Queues that hold nothing back themselves: one runs over only when the device below takes no more."""


def seen_above(measured: Measured) -> dict[str, int | None]:
    """``qdisc_requeues`` and ``refused_when_full`` of one run; None is not counted on this way.

    Behind a queue a full device costs no frame: the queue takes the frame back and tries again, and counts
    that. With the bypass there is no queue: the kernel frees the frame, tells the sender, and counts nothing
    (net/core/dev.c, __dev_direct_xmit); what it drops for another reason it adds to tx_dropped.
    """
    requeued = counter_delta(measured.before.qdisc_requeued, measured.after.qdisc_requeued).value
    return {"qdisc_requeues": requeued, "refused_when_full": _refused_when_full(measured)}


def pushed_back(observed: Mapping[str, Any]) -> int | None:
    """How often the device was full, by whoever counted it: the driver, else the queue and the sender."""
    if observed.get("push_back") is not None:
        return int(observed["push_back"])
    known = [observed[name] for name in ("qdisc_requeues", "refused_when_full") if observed[name] is not None]
    return sum(known) if known else None


def limiter_of(
    counts: Counts, *, carrier: bool, push_back: int | None, full: str, qdisc: object, paced: bool
) -> str | None:
    """What limited the run, where one counter proves it; else None.

    Parameters
    ----------
    counts : Counts
        The counts of one run.
    carrier : bool
        Whether the link had carrier for the whole run.
    push_back : int or None
        How often the device was full.
    full : str
        What is full then.
    qdisc : object
        Kind of the queueing discipline.
    paced : bool
        Whether the run kept a rate that was asked for.
    """
    found = (
        ("carrier", not carrier),
        (full, bool(push_back) and qdisc in FIFOS),
        ("qdisc", bool(counts.qdisc_dropped)),
        ("device", bool(counts.device_dropped)),
        (full, bool(push_back)),
        ("pacing", paced),
    )
    return next((limiter for limiter, true in found if true), None)


def _refused_when_full(measured: Measured) -> int | None:
    """Refusals behind the bypass that no drop below accounts for."""
    report = measured.report
    dropped = counter_deltas(measured.before.device, measured.after.device).get("tx_dropped")
    if not report.qdisc_bypass or dropped is None:
        return None
    refused = sum(report.refused_by_errno.get(name, 0) for name in FULL)
    return max(0, refused - dropped) if measured.carrier else None
