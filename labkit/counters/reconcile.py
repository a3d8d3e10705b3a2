"""Do independent counts tell the same story, and if not, where do they part? Pure arithmetic."""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """One run's counts by place; None where nothing counts.

    `attempted` is what an engine handed over that cannot know what was taken: its `engine_sent` is None.
    """

    engine_sent: int | None
    engine_refused: int
    partial_returns: int
    qdisc_dropped: int | None
    qdisc_queued: int | None
    device_sent: int | None
    device_dropped: int | None
    peer_received: int | None
    peer_dropped: int | None
    attempted: int | None = None


def reconciled(counts: Counts) -> bool | None:
    """Whether every frame is accounted for; None when a count is missing.

    A refused packet may or may not have been counted below (ENOBUFS with bypass and no carrier also raises
    tx_dropped, a drop behind a partial return hides its errno), so the device's side has a range. Where the
    engine cannot count, device and peer speak alone, held against what it handed over where that is known.
    """
    if (
        counts.qdisc_dropped is None
        or counts.device_sent is None
        or counts.device_dropped is None
        or counts.peer_received is None
        or counts.peer_dropped is None
    ):
        return None
    if counts.qdisc_queued:
        return False  # still on their way, so the counters were read at different moments of their journey
    below = counts.device_sent + counts.qdisc_dropped + counts.device_dropped
    arrived = counts.device_sent == counts.peer_received + counts.peer_dropped
    if counts.engine_sent is None:
        return arrived and counts.attempted in (None, below)
    return (
        counts.engine_sent <= below <= counts.engine_sent + counts.engine_refused + counts.partial_returns
        and counts.device_sent <= counts.engine_sent
        and arrived
    )


def difference_reason(
    counts: Counts,
    *,
    refused_by_errno: dict[str, int],
    fatal_errno: str | None,
    ended_early: str | None = None,
    carrier: bool | None,
    peer_note: str | None,
) -> str | None:
    """Where frames went that the engine sent and the peer did not receive: place, number, cause.

    None only when engine, device and peer counted the same, nothing was refused and nothing ended early.

    Parameters
    ----------
    counts : Counts
        The counts of one run.
    refused_by_errno : dict of str to int
        Refusals by error name.
    fatal_errno : str or None
        Error that ended the engine early.
    ended_early : str or None
        What the engine says of an early end that no error goes with.
    carrier : bool or None
        Whether the link had carrier for the whole run.
    peer_note : str or None
        Why the peer's count is missing, where it is.
    """
    reasons = [] if ended_early is None else [ended_early]
    if fatal_errno is not None:
        reasons.append(f"the engine ended early ({fatal_errno})")
    if counts.engine_refused:
        named = ", ".join(f"{name} {number}" for name, number in sorted(refused_by_errno.items()))
        reasons.append(f"kernel refused {counts.engine_refused} ({named or 'no errno'})")
    reasons += _below_engine(counts, carrier)
    reasons += _at_peer(counts, peer_note)
    return "; ".join(reasons) or None


def _below_engine(counts: Counts, carrier: bool | None) -> list[str]:
    reasons = []
    if counts.qdisc_dropped:
        reasons.append(f"qdisc dropped {counts.qdisc_dropped}")
    if counts.device_dropped:
        cause = "no carrier: the peer was down" if carrier is False else "the receiving side refused them"
        reasons.append(f"device dropped {counts.device_dropped} ({cause})")
    if counts.device_sent is None:
        reasons.append("not verified at the device")
        return reasons
    if counts.qdisc_queued:
        reasons.append(f"{counts.qdisc_queued} still in the queue when counting ended")
    explained = (counts.qdisc_dropped or 0) + (counts.device_dropped or 0) + (counts.qdisc_queued or 0)
    # what was refused may show up as dropped below, so drops explain at most what the engine lacks
    if counts.engine_sent is None:
        return reasons + _below_hand_over(counts, counts.device_sent, carrier)
    missing = counts.engine_sent - counts.device_sent
    if missing > explained:
        lost = missing - explained
        cause = " (no carrier: the peer was down)" if carrier is False else ""
        reasons.append(f"{lost} sent by the engine never counted at the device{cause}")
    elif missing < 0:
        reasons.append(f"device counted {-missing} more than the engine sent")
    return reasons


def _below_hand_over(counts: Counts, device_sent: int, carrier: bool | None) -> list[str]:
    """Of an engine whose calls say nothing about what the device took."""
    if counts.attempted is None:
        return ["the engine cannot count what it sent: device and peer count alone"]
    lost = counts.attempted - device_sent - (counts.device_dropped or 0)
    if lost < 0:
        return [f"device counted {-lost} more than the engine handed over"]
    if lost == 0:
        return []
    if carrier is False:
        cause = "no carrier: the peer was down"
    elif device_sent == 0:
        cause = (
            "a veth sends XDP frames only while its peer has a NAPI: turn on setting gro, or take sink "
            "'xdp_drop'; other drivers may send none at all"
        )
    else:
        cause = "a device without room drops XDP frames, and not every driver counts them"
    return [f"{lost} handed over by the engine never counted at the device ({cause})"]


def _at_peer(counts: Counts, peer_note: str | None) -> list[str]:
    if counts.peer_received is None or counts.device_sent is None:
        return [f"not verified at the peer{f': {peer_note}' if peer_note else ''}"]
    reasons = []
    if counts.peer_dropped:
        reasons.append(f"peer dropped {counts.peer_dropped} in its receive queue")
    lost = counts.device_sent - counts.peer_received - (counts.peer_dropped or 0)
    if lost > 0:
        reasons.append(f"{lost} vanished between device and peer")
    elif lost < 0:
        reasons.append(f"peer counted {-lost} more than the device sent")
    return reasons
