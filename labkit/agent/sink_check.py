"""What a receiving sink can tell of a run's frames, and what it cannot and why."""

from __future__ import annotations

from typing import Final

import msgspec

from labkit import _native
from labkit.agent.protocol import Run
from labkit.engines.pacing import Pacer

UNALTERED: Final = frozenset({"send", "sendmmsg", "tx_ring", "af_xdp"})
"""Engines that send the table's frames in order and byte by byte."""
NUMBERING: Final = UNALTERED | {"gso", "xdp_live"}
"""Engines that can number frames as they send them."""
OTHER_FRAMES: Final = frozenset({"iperf3"})
"""Engines whose frames are none of the table."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What frames are held against, and what cannot be told of them and why."""

    addresses: bool
    content: bool
    numbered: bool
    burst_frames: int | None
    latency_note: str | None


def check_of(request: Run, table: _native.FrameTable) -> Check:
    """What can be told of the frames that `request` sends, `table` after `table`."""
    engine, config, alone = request.engine, request.config, request.workers == 1
    stamped = config.stamp and engine in NUMBERING
    # the table's own numbers serve as long as it is not sent twice
    once = not config.stamp and config.count is not None and config.count <= len(table)
    numbered = alone and (stamped or (once and engine in UNALTERED and _native.numbers_itself(table)))
    note = None
    if config.rate_pps is None:
        note = "an unpaced sender has no due times, and at saturation delay is that of the queues it fills"
    elif not alone:
        note = "several senders have no due times in common"
    elif not numbered:
        note = "frames carry no running number; let the engine stamp them (stamp=True)"
    burst_frames = None
    if note is None and config.rate_pps is not None:
        burst_frames = Pacer(config.rate_pps, 0, config.batch, even=engine != "gso").burst
    return Check(
        addresses=engine not in OTHER_FRAMES,
        content=engine in UNALTERED and (numbered or not config.stamp),
        numbered=numbered,
        burst_frames=burst_frames,
        latency_note=note,
    )
