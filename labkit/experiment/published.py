"""The published ring and coalescing tables beside the lab's own figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.results.published import RingCoalesceRow, ring_coalesce_table
from labkit.rigs.choose import simulated_rig
from labkit.units import percent_error

RIG_OF_KERNEL: Final = {"v1-followup": "sim:ixgbe", "baseline": "sim:ixgbe@baseline"}
"""Simulated machine of each kernel named in the published table."""

FRAME_BYTES: Final = 60
"""pktgen's frame in all of them, without FCS."""


class PublishedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure beside the lab's.

    Attributes
    ----------
    table : str
        Which of the published tables.
    rig : str
        Simulated machine that answered.
    setting : dict
        ``tx_ring`` in descriptors and ``rx_usecs``.
    published, lab : float
        Packets per second.
    error : float
        Difference of the lab's figure from the published one, in percent.
    limited_by : str
        The term of the law that limits this point.
    fitted : bool
        Whether fitted constants decide this point; a point that the TX ring limits needs none.
    """

    table: str
    rig: str
    setting: dict[str, int]
    published: float
    lab: float
    error: float
    limited_by: str
    fitted: bool

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def compare_published(folder: Path | None = None) -> list[PublishedPoint]:
    """The 36 published points of pktgen on ixgbe, each beside the simulated NIC's answer.

    Parameters
    ----------
    folder : Path or None
        Folder of the published tables; None is the checkout's.
    """
    return [_compared(row) for row in ring_coalesce_table(folder)]


def _compared(row: RingCoalesceRow) -> PublishedPoint:
    setting = {"tx_ring": row.ring, "rx_usecs": row.rx_usecs}
    with simulated_rig(RIG_OF_KERNEL[row.kernel]) as rig, rig.applied(setting):
        lab = rig.outcome(FRAME_BYTES)
    return PublishedPoint(
        table=row.table,
        rig=rig.info.name,
        setting=setting,
        published=row.pps,
        lab=lab.pps,
        error=percent_error(lab.pps, row.pps),
        limited_by=lab.limited_by,
        fitted=lab.limited_by == "CPU",
    )
