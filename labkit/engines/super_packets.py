"""UDP frames as super-packets: what they can be, and the words for what they cannot. Pure."""

from __future__ import annotations

from typing import Final

from labkit.engines.base import EngineConfig, check
from labkit.errors import WorkloadError
from labkit.records import Frames

MAX_SEGMENTS: Final = 128
"""Most segments of a super-packet that any kernel takes: 128 on 6.18, 64 on older ones; EINVAL beyond."""


def check_gso(frames: Frames, config: EngineConfig) -> None:
    """Raise `WorkloadError` for what super-packets cannot do, beyond `check`."""
    check("gso", MAX_SEGMENTS, frames, config)
    if config.qdisc_bypass:
        raise WorkloadError(
            "gso: qdisc_bypass drops segmented lists (packet_direct_xmit); leave it out, or take 'sendmmsg'"
        )


def usual_segments(default: int, frames: Frames) -> int:
    """Segments that the 65535 bytes of an IP packet hold in any case, at most `default`."""
    return max(1, min(default, 65_000 // max(1, frames.longest_bytes)))


def no_super_packet(batch: int) -> str:
    """What to say where the kernel refuses a super-packet of `batch` segments."""
    cure = "it may take 64: ask for batch 64" if batch > MAX_SEGMENTS // 2 else "they came with Linux 6.2"
    return f"this kernel refuses super-packets of {batch} UDP segments; {cure}, or take engine 'sendmmsg'"
