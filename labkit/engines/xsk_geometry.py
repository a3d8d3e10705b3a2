"""Ring and memory of an AF_XDP socket for its frames. Pure: the same for the engine and its twin."""

from __future__ import annotations

import mmap
import resource
from typing import Final

import msgspec

from labkit.engines.base import EngineConfig
from labkit.engines.ring_geometry import power_of_two
from labkit.errors import WorkloadError
from labkit.records import Frames

SMALLEST_SLOT_BYTES: Final = 64
SMALLEST_CHUNK_BYTES: Final = 2048
"""XDP_UMEM_MIN_CHUNK_SIZE (include/net/xdp_sock.h); the largest is a page."""
USUAL_RING_FRAMES: Final = 2048
MOST_RING_FRAMES: Final = 1 << 16
MEMORY_BYTES: Final = 4 << 20
"""Most memory of a socket: two of them keep within the usual RLIMIT_MEMLOCK of 8 MiB."""


class XskGeometry(msgspec.Struct, frozen=True, kw_only=True):
    """What an AF_XDP socket is set up with.

    Attributes
    ----------
    ring_frames : int
        Places of the TX ring and of the completion ring.
    slots : int
        Frames that the memory holds: the whole table, or, where that is too large or frames are stamped, as
        many as may be on their way.
    slot_bytes : int
        Power of two that holds the longest frame.
    chunk_bytes : int
        What the kernel divides the memory into; a descriptor must not cross its end.
    memory_bytes : int
        Whole pages.
    """

    ring_frames: int
    slots: int
    slot_bytes: int
    chunk_bytes: int
    memory_bytes: int


def xsk_geometry(frames: Frames, config: EngineConfig) -> XskGeometry:
    """Ring of 2048 or as `config` asks, memory for all frames, or for what fits ring and 4 MiB.

    Raises
    ------
    WorkloadError
        A frame longer than a page; a ring that is no power of two or holds no batch; a queue below 0.
    """
    if frames.longest_bytes > mmap.PAGESIZE:
        raise WorkloadError(
            f"af_xdp: a frame of {frames.longest_bytes} bytes: one buffer of AF_XDP holds {mmap.PAGESIZE}; "
            "take engine 'sendmmsg'"
        )
    if not 0 <= config.queue < 1 << 16:
        raise WorkloadError(f"af_xdp: queue {config.queue}: TX queues are numbered from 0")
    fewest = power_of_two(config.batch)
    ring = USUAL_RING_FRAMES if config.ring_frames is None else config.ring_frames
    if ring < 1 or ring & (ring - 1) or not fewest <= ring <= MOST_RING_FRAMES:
        raise WorkloadError(
            f"af_xdp: ring_frames {ring}: with batch {config.batch} give a power of two from {fewest} to "
            f"{MOST_RING_FRAMES}"
        )
    slot_bytes = max(SMALLEST_SLOT_BYTES, power_of_two(frames.longest_bytes))
    most = MEMORY_BYTES // slot_bytes
    # a frame that is stamped each time takes a new slot each time: the last one may still be read
    stays = not config.stamp and len(frames) <= most
    slots = len(frames) if stays else min(ring, most)
    pages = -(-slots * slot_bytes // mmap.PAGESIZE)
    return XskGeometry(
        ring_frames=ring,
        slots=slots,
        slot_bytes=slot_bytes,
        chunk_bytes=max(SMALLEST_CHUNK_BYTES, slot_bytes),
        memory_bytes=pages * mmap.PAGESIZE,
    )


def no_locked_memory(geometry: XskGeometry) -> str:
    """What to say where the kernel may not lock the memory of `geometry`."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    allowed = "without a limit" if limit == resource.RLIM_INFINITY else f"up to {limit} bytes"
    return (
        f"the kernel would not lock {geometry.memory_bytes} bytes for AF_XDP, of which this user may lock "
        f"{allowed} in all; end other senders, raise RLIMIT_MEMLOCK (ulimit -l), or take engine 'tx_ring'"
    )
