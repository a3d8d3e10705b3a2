"""Whether byte queue limits were at work in a run: a directory alone is no proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from labkit.agent.queue_limits import ByteLimits
from labkit.factors import Scalar
from labkit.records import Sample
from labkit.simnic.config import keeps_limits
from labkit.simnic.profile import Profile
from labkit.simnic.run import Simulated
from labkit.simnic.sender import Sender

State: TypeAlias = Literal["at work", "directory without driver support", "none"]
AT_WORK: Final = "at work"
UNREPORTED: Final = "directory without driver support"
NONE: Final = "none"


def bql_told(ends: Sequence[ByteLimits], samples: Sequence[Sample], sent: int | None) -> dict[str, Any]:
    """What a run's readings tell of byte queue limits, as its trial keeps it.

    Parameters
    ----------
    ends : sequence of ByteLimits
        Readings before and after the run; none where nobody could look.
    samples : sequence of Sample
        Readings meanwhile.
    sent : int or None
        Packets that left the device.

    Returns
    -------
    dict
        ``state`` (None: not known), ``limit_bytes`` (first, last, min, max), ``inflight_bytes`` (max),
        ``limit_min``, ``limit_max``; what nobody read is None.
    """
    first, last = ends[:1], ends[-1:]
    during = [(each.bql_limit_bytes, each.bql_inflight_bytes) for each in samples]
    readings = [*map(_moment, first), *during, *map(_moment, last)]
    limits = [limit for limit, _ in readings if limit is not None]
    inflight = [held for _, held in readings if held is not None]
    bounds = last[0] if last else ByteLimits()
    return {
        "state": _state(ends, limits, inflight, sent, bounds.limit_max_bytes),
        "limit_bytes": (
            {"first": limits[0], "last": limits[-1], "min": min(limits), "max": max(limits)}
            if limits
            else None
        ),
        "inflight_bytes": {"max": max(inflight)} if inflight else None,
        "limit_min": bounds.limit_min_bytes,
        "limit_max": bounds.limit_max_bytes,
    }


def simulated_limits(
    answer: Simulated, sender: Sender, profile: Profile, settings: Mapping[str, Scalar]
) -> list[ByteLimits]:
    """What an agent would have read before and after a simulated run, whose queue is a new one each time."""
    if not keeps_limits(profile, sender):
        return [ByteLimits(), ByteLimits()]
    least, most = (int(settings[f"bql_limit_{bound}"] or 0) for bound in ("min", "max"))
    return [
        ByteLimits(limit_bytes=limit, inflight_bytes=0, limit_min_bytes=least, limit_max_bytes=most)
        for limit in (0, answer.bql_limit_bytes or 0)
    ]


def _moment(reading: ByteLimits) -> tuple[int | None, int | None]:
    return reading.limit_bytes, reading.inflight_bytes


def _state(
    ends: Sequence[ByteLimits],
    limits: Sequence[int],
    inflight: Sequence[int],
    sent: int | None,
    limit_max: int | None,
) -> State | None:
    """What the readings prove.

    The first packet that a driver reports as completed raises the limit from 0 (dql_completed): one that
    stays there while packets leave belongs to a driver that never calls netdev_tx_completed_queue, unless
    limit_max is 0 and holds it there.
    """
    if not ends:
        return None
    if not limits:
        return NONE
    if any(limits) or any(inflight):
        return AT_WORK
    return UNREPORTED if sent and limit_max != 0 else None
