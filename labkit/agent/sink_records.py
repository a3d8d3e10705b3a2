"""What a receiving sink is asked, and what it saw; both travel within the agent's messages."""

from __future__ import annotations

import mmap
from typing import Final

import msgspec

from labkit.errors import WorkloadError

LIMITS: Final = {
    "cpu": (0, 2**31 - 1),
    "sockets": (1, 64),
    "block_bytes": (mmap.PAGESIZE, 8 << 20),
    "retire_ms": (1, 1000),
}
"""What `SinkConfig` may ask. Of retire times: a run waits at its end until the last block is handed over."""
BLOCK_BYTES: Final = 256 << 10
"""What None means."""


class SinkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiving sink is asked; None is its usual.

    Attributes
    ----------
    cpu : int or None
        CPU that reads; None is another one than the senders', where there is one.
    sockets : int or None
        Sockets, each with a thread, that share what arrives: frames of a flow go to the same one.
    block_bytes : int or None
        rx_ring: bytes of a block of each socket's ring.
    retire_ms : int or None
        rx_ring: time after which a block that is not full is handed over.
    """

    cpu: int | None = None
    sockets: int | None = None
    block_bytes: int | None = None
    retire_ms: int | None = None

    def check(self, prefix: str = "") -> None:
        """Raise `WorkloadError` for what makes no sense; a field is called by `prefix` and its name."""
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise WorkloadError(f"{prefix}{name} {value} is outside {low}..{high}")
        if self.block_bytes is not None and self.block_bytes % mmap.PAGESIZE:
            raise WorkloadError(
                f"{prefix}block_bytes {self.block_bytes}: blocks are whole pages of {mmap.PAGESIZE} bytes"
            )


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiving sink saw of one run; None is what it could not tell.

    Attributes
    ----------
    received : int
        Frames of ours, corrupted ones included: their MAC addresses and type are those of a frame sent.
    foreign : int or None
        Frames of others, and what the receiving end itself sent.
    corrupted : int or None
        Of the received: other bytes than those sent, no magic of pktgen's, or a wrong UDP checksum.
    distinct : int or None
        Running numbers that came at least once, uncorrupted; what was sent less these is lost.
    duplicates : int or None
        Frames with a number that had come before.
    reordered : int or None
        Other frames with a number below the one expected next, the largest so far plus one (RFC 4737, 3.3);
        with several sockets, below the one that this socket expected.
    beyond_window : int or None
        Of the reordered: so late that nobody remembers whether they came before.
    kernel_dropped : int or None
        Frames that reached the sink and found no room (tp_drops of PACKET_STATISTICS).
    latency_ns : list of (int, int)
        Smallest nanosecond of each bucket, and frames in it: from when a frame, or the batch that it left
        with, was due until the sink saw it.
    latency_note : str or None
        Why there is no latency.
    by_socket : list of int
        `received` of each socket.
    cpus : list of int or None
        CPU that each socket's thread was pinned to.
    drained : bool
        Whether all that the kernel had kept was read in the end.
    """

    received: int
    foreign: int | None
    corrupted: int | None
    distinct: int | None
    duplicates: int | None
    reordered: int | None
    beyond_window: int | None
    kernel_dropped: int | None
    latency_ns: list[tuple[int, int]]
    latency_most_ns: int | None
    latency_note: str | None
    by_socket: list[int]
    cpus: list[int | None]
    cpu_ns: int | None
    drained: bool
