"""Frames of several lengths in an exact order: Internet mixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np

from labkit.errors import WorkloadError
from labkit.traffic.flows import SEQUENCE, Flow, numbered, udp_flow
from labkit.traffic.sizes import sizes_of
from labkit.traffic.table import FrameTable
from labkit.units import ETHERNET_HEADER_BYTES, VLAN_TAG_BYTES

IMIX_PACKET_BYTES = (40, 576, 1500)
"""Lengths of the simple IMIX. They are those of IP packets, 340.3 bytes on average, not of frames: a usage
without a standard (Wikipedia, "Internet Mix"; ostinato.org/blog/imix has the frames with their FCS: 64, 594,
1518). RFC 6985 asks to tell the lengths with each result, as `describe` does."""

IMIX_ORDER = (0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0)
"""7 : 4 : 1, spread out. Any twelve frames in a row hold seven short, four middle and one long one."""


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Flows of several lengths that take turns.

    Frame k is that of ``flows[order[k % len(order)]]`` with the values that frame k of that flow has, which
    begin again behind their last. The table ends where both order and values do.

    Attributes
    ----------
    flows : tuple of Flow
        One a length, with equally many frames.
    order : tuple of int
        Which flow's turn it is.
    title : str
        What people call it.
    """

    flows: tuple[Flow, ...]
    order: tuple[int, ...]
    title: str
    _table: FrameTable = field(init=False, repr=False)
    _sizes: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", _interleaved([flow.table() for flow in self.flows], self.order))
        object.__setattr__(self, "_sizes", sizes_of(self._table))

    @property
    def frame_bytes(self) -> int:
        """Length of the longest frame in bytes, FCS excluded; `describe` has the mean."""
        return self._table.longest_bytes

    def with_frame_bytes(self, frame_bytes: int) -> NoReturn:
        """Refuse: a mix has lengths of its own."""
        raise WorkloadError(f"{self.title}: it has its own lengths, so frame_bytes {frame_bytes} is left out")

    def describe(self) -> dict[str, Any]:
        """Say in plain JSON values what is sent, lengths and their means included."""
        parts = [flow.describe() for flow in self.flows]
        return {
            **parts[0],
            **self._sizes,
            "packet": f"{self.title} of {parts[0]['packet']}",
            "order": list(self.order),
            "parts": parts,
        }

    def table(self) -> FrameTable:
        """Every frame in its order."""
        return self._table


def imix_flow(flows: int = 64, **options: Any) -> Mix:
    """UDP frames of the simple IMIX: IP packets of 40, 576 and 1500 bytes, 7 : 4 : 1 in every twelve frames.

    That is 60 (54, padded), 590 and 1514 bytes of frame, 357.83 on average, and 381.83 on the wire. A VLAN
    tag adds its 4 bytes to each. Where the headers alone are longer than 40 bytes, as on IPv6, the short
    frames are as short as they can be. Some generators take 40, 576 and 1500 for frames; labkit does not.

    Frame k is of flow k modulo `flows`, so that a flow may have one length only (12 flows do).

    Parameters
    ----------
    flows : int
        Distinct flows.
    **options
        Those of `udp_flow`, but not its length.

    Raises
    ------
    WorkloadError
        A value out of range, or a frame length of one's own.
    """
    if "frame_bytes" in options:
        raise WorkloadError("IMIX has its own frame lengths: leave frame_bytes out, or take udp_flow")
    shortest = udp_flow(flows=flows, **options)
    tags = {type(None): 0, tuple: 2}.get(type(options.get("vlan")), 1)
    lengths = [packet + ETHERNET_HEADER_BYTES + tags * VLAN_TAG_BYTES for packet in IMIX_PACKET_BYTES]
    if options.get("pktgen_header") and SEQUENCE not in (options.get("vary") or {}):
        shortest = numbered(shortest, math.lcm(len(shortest.table()), len(IMIX_ORDER)))
    parts = tuple(shortest.with_frame_bytes(max(length, shortest.frame_bytes)) for length in lengths)
    return Mix(parts, IMIX_ORDER, "IMIX 7:4:1")


def _interleaved(tables: Sequence[FrameTable], order: Sequence[int]) -> FrameTable:
    """Frames of the tables in turn; each table has frames of one length."""
    values = len(tables[0])
    rounds = math.lcm(values, len(order)) // len(order)
    lengths = [tables[which].longest_bytes for which in order]
    starts = [0, *accumulate(lengths)]
    rows = np.empty((rounds, starts[-1]), np.uint8)
    for slot, which in enumerate(order):
        frames = np.frombuffer(tables[which].block, np.uint8).reshape(values, lengths[slot])
        rows[:, starts[slot] : starts[slot + 1]] = frames[(np.arange(rounds) * len(order) + slot) % values]
    offsets = np.arange(rounds, dtype=np.uint64)[:, None] * np.uint64(starts[-1])
    offsets = offsets + np.array(starts[:-1], np.uint64)
    return FrameTable(
        rows.tobytes(), offsets.tobytes(), np.tile(np.array(lengths, np.uint32), rounds).tobytes()
    )
