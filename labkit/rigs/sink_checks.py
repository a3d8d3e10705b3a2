"""What a workload may ask of a receiving sink: which factors each has, and within which limits. Pure."""

from __future__ import annotations

import mmap
from typing import Final

from labkit.agent.sink_records import SinkConfig
from labkit.errors import CapabilityMissingError, WorkloadError, listed
from labkit.factors import RECEIVING_SINKS, SINK_FACTORS
from labkit.records import Frames, RigInfo, Workload

FACTORS_OF_SINK: Final = {
    "rx_ring": SINK_FACTORS,
    "socket": ("sink_cpu", "sink_sockets"),
    "xdp_drop": (),
}
WHY_NOT: Final = {
    "socket": "it is read as frames come",
    "xdp_drop": "its program runs where the device receives",
}
BESIDE_A_FRAME: Final = 256
"""Bytes of a block that hold headers instead of a frame, generously (packet_mmap.rst, tpacket3_hdr)."""


def check_sink_factors(info: RigInfo, workload: Workload) -> None:
    """Raise unless the workload's sink has the factors that the workload names.

    Raises
    ------
    CapabilityMissingError
        This sink never has that factor.
    WorkloadError
        A value out of range.
    """
    given = [name for name in SINK_FACTORS if getattr(workload, name) is not None]
    if given and workload.sink not in RECEIVING_SINKS:
        raise CapabilityMissingError(
            f"rig '{info.name}': sink '{workload.sink or info.sinks[0]}' only counts and has no {given[0]}; "
            f"take one of sinks {listed(_sinks_having(given[0]))}, where the rig has it"
        )
    for name in given:
        sink = workload.sink or ""
        if name not in FACTORS_OF_SINK[sink]:
            instead = " or ".join(f"'{other}'" for other in _sinks_having(name))
            raise CapabilityMissingError(
                f"rig '{info.name}': sink '{sink}' has no {name}: {WHY_NOT[sink]}; take sink {instead}"
            )
    sink_config(workload).check("sink_")


def sink_config(workload: Workload) -> SinkConfig:
    """What the workload asks of a receiving sink."""
    return SinkConfig(
        cpu=workload.sink_cpu,
        sockets=workload.sink_sockets,
        block_bytes=workload.sink_block_bytes,
        retire_ms=workload.sink_retire_ms,
    )


def check_block(workload: Workload, frames: Frames) -> None:
    """Raise `WorkloadError` unless the longest frame fits in a block of the ring."""
    pages = -(-(frames.longest_bytes + BESIDE_A_FRAME) // mmap.PAGESIZE)
    block_bytes, needed = workload.sink_block_bytes, pages * mmap.PAGESIZE
    if block_bytes is not None and block_bytes < needed:
        raise WorkloadError(
            f"sink_block_bytes {block_bytes}: the longest frame of {frames.longest_bytes} bytes needs a "
            f"block of {needed}"
        )


def _sinks_having(name: str) -> list[str]:
    """Sinks that have factor `name`."""
    return [sink for sink in RECEIVING_SINKS if name in FACTORS_OF_SINK[sink]]
