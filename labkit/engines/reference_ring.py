"""The twin of `tx_ring`: slots of a TX_RING in TPACKET_V2, filled in order and counted by their states."""

from __future__ import annotations

import errno as errno_names
import mmap
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from labkit.engines.base import EngineConfig
from labkit.engines.reference_calls import SOL_PACKET, Call, LengthLimit
from labkit.engines.ring_geometry import DATA_OFFSET, RingGeometry, ring_geometry
from labkit.records import Frames
from labkit.units import VLAN_TAG_BYTES

# linux/if_packet.h
PACKET_VERSION, PACKET_TX_RING, TPACKET_V2 = 10, 13, 1
AVAILABLE, SEND_REQUEST, SENDING, WRONG_FORMAT = 0, 1, 2, 4
HEAD: Final = struct.Struct("=II")
"""tp_status and tp_len, the first fields of struct tpacket2_hdr."""
STATUS: Final = struct.Struct("=I")
LOOKS, LOOK_S = 4, 0.001


class _Ring:
    """The slots, and which of them the kernel looks at next."""

    def __init__(
        self, sock: socket.socket, memory: mmap.mmap, ring: RingGeometry, limit: LengthLimit
    ) -> None:
        self._sock, self._memory, self._ring, self._limit = sock, memory, ring, limit
        self._head = 0

    def call(self, frames: list[bytes]) -> int:
        """One kick; the frames that the kernel took by the states of their slots."""
        # beyond this the kernel says the same, and writes a line to its log for each frame
        self._limit.check(len(frames[0]), VLAN_TAG_BYTES)
        filled = self._fill(frames)
        if filled == 0:
            raise BlockingIOError(errno_names.EAGAIN, "the ring is full")
        refusal = None
        try:
            self._sock.send(b"", socket.MSG_DONTWAIT)
        except OSError as error:
            refusal = error
        states = [self._status(place) for place in range(filled)]
        taken = next((at for at, state in enumerate(states) if state in {SEND_REQUEST, WRONG_FORMAT}), filled)
        for place in range(taken, filled):
            self._write(place, STATUS.pack(AVAILABLE))
        self._head = (self._head + taken) % self._ring.slots
        if taken == 0:
            raise refusal or BlockingIOError(errno_names.EAGAIN, "nothing taken")
        return taken

    def _fill(self, frames: list[bytes]) -> int:
        for place, frame in enumerate(frames):
            if not self._comes_free(place) or not self._limit.takes(len(frame), VLAN_TAG_BYTES):
                return place
            self._write(place, frame, DATA_OFFSET)
            self._write(place, HEAD.pack(SEND_REQUEST, len(frame)))
        return len(frames)

    def _comes_free(self, place: int) -> bool:
        for _ in range(LOOKS):
            if self._status(place) == AVAILABLE:
                return True
            time.sleep(LOOK_S)
        return False

    def _at(self, place: int) -> int:
        return (self._head + place) % self._ring.slots * self._ring.slot_bytes

    def _status(self, place: int) -> int:
        return int(STATUS.unpack_from(self._memory, self._at(place))[0])

    def _write(self, place: int, data: bytes, offset: int = 0) -> None:
        start = self._at(place) + offset
        self._memory[start : start + len(data)] = data


@contextmanager
def ring_call(sock: socket.socket, frames: Frames, config: EngineConfig) -> Iterator[Call]:
    """A ring for `frames`, mapped for one run."""
    ring = ring_geometry(frames, config)
    request = struct.pack(
        "=4I", ring.block_bytes, ring.ring_bytes // ring.block_bytes, ring.slot_bytes, ring.slots
    )
    sock.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
    sock.setsockopt(SOL_PACKET, PACKET_TX_RING, request)
    with mmap.mmap(sock.fileno(), ring.ring_bytes) as memory:
        yield _Ring(sock, memory, ring, LengthLimit(sock, config.ifindex)).call
