"""The twin of `af_xdp`: an AF_XDP socket by its raw options, every frame copied, every position read anew."""

from __future__ import annotations

import ctypes
import errno as errno_names
import mmap
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import msgspec

from labkit.engines.base import EngineConfig
from labkit.engines.reference_calls import Call, LengthLimit
from labkit.engines.xsk_geometry import MEMORY_BYTES, XskGeometry, xsk_geometry
from labkit.records import Frames
from labkit.units import ETHERNET_HEADER_BYTES, VLAN_TAG_BYTES

# linux/socket.h, linux/if_xdp.h: not in Python's socket module
AF_XDP, SOL_XDP = 44, 283
XDP_MMAP_OFFSETS, XDP_TX_RING, XDP_UMEM_REG, XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING = 1, 3, 4, 5, 6
XDP_MAX_TX_SKB_BUDGET: Final = 9
TX_RING_AT, COMPLETION_RING_AT = 0x80000000, 0x180000000
XDP_USE_NEED_WAKEUP: Final = 1 << 3
OFFSETS: Final = struct.Struct("=16Q")
"""struct xdp_mmap_offsets: producer, consumer, desc, flags of the rings rx, tx, fill and completion."""
DESCRIPTOR: Final = struct.Struct("=QII")
ADDRESS_BYTES: Final = 8
POSITION: Final = struct.Struct("=I")
POSITIONS: Final = 1 << 32

OPEN_WITHIN_S, OPEN_STEP_S = 0.5, 0.002
FINISH_LOOKS, FINISH_STEP_S = 100, 0.001
ROOM_LOOKS, ROOM_STEP_S = 4, 0.001


class _Xsk:
    """One socket: what the kernel was shown, what it took, what came back."""

    def __init__(self, geometry: XskGeometry, memory: mmap.mmap, limit: LengthLimit) -> None:
        self._geometry, self._memory, self._limit = geometry, memory, limit
        self._shown = self._taken = 0
        self._dropped = False

    def attach(self, sock: socket.socket, tx: mmap.mmap, back: mmap.mmap, offsets: tuple[int, ...]) -> None:
        """Take the mapped rings of `sock`."""
        self._sock, self._tx, self._back = sock, tx, back
        self._tx_producer, self._tx_consumer, self._tx_at, _ = offsets[4:8]
        self._back_producer, self._back_consumer = offsets[12:14]

    def call(self, frames: list[bytes]) -> int:
        """Show what is not shown yet and wake the kernel until it takes no more."""
        if self._dropped:
            self._dropped = False
            raise OSError(errno_names.EBUSY, os.strerror(errno_names.EBUSY))
        if self._shown == self._taken:
            self._check(frames[0])
        self._show(frames[(self._shown - self._taken) % POSITIONS :])
        if self._shown == self._taken:
            raise BlockingIOError(errno_names.EAGAIN, "the ring is full")
        before = self._taken
        while True:
            refusal = self._kick()
            moved = self._look()
            if refusal is None or refusal.errno != errno_names.EAGAIN or not moved:
                break
        taken = (self._taken - before) % POSITIONS
        if refusal is not None and refusal.errno == errno_names.EBUSY:
            self._dropped, taken = taken > 1, taken - 1
        if taken == 0:
            raise refusal or OSError(errno_names.ENXIO, os.strerror(errno_names.ENXIO))
        return taken

    def finish(self) -> None:
        """Wait until everything taken has come back."""
        for _ in range(FINISH_LOOKS):
            if self._reclaim() == self._taken:
                return
            time.sleep(FINISH_STEP_S)

    def _check(self, frame: bytes) -> None:
        """Refuse what packet sockets refuse: the kernel looks at neither here."""
        if len(frame) < ETHERNET_HEADER_BYTES:
            raise OSError(errno_names.EINVAL, os.strerror(errno_names.EINVAL))
        self._limit.check(len(frame), VLAN_TAG_BYTES if frame[12:14] == b"\x81\x00" else 0)

    def _show(self, frames: list[bytes]) -> None:
        slot_bytes, slots = self._geometry.slot_bytes, self._geometry.slots
        for frame in frames:
            try:
                self._check(frame)
            except OSError:
                break
            if not self._has_room():
                break
            address = self._shown % slots * slot_bytes
            self._memory[address : address + len(frame)] = frame
            place = self._shown % self._geometry.ring_frames
            at = self._tx_at + place * DESCRIPTOR.size
            self._tx[at : at + DESCRIPTOR.size] = DESCRIPTOR.pack(address, len(frame), 0)
            self._shown = (self._shown + 1) % POSITIONS
        self._tx[self._tx_producer : self._tx_producer + 4] = POSITION.pack(self._shown)

    def _has_room(self) -> bool:
        room = min(self._geometry.ring_frames, self._geometry.slots)
        for _ in range(ROOM_LOOKS):
            if (self._shown - self._reclaim()) % POSITIONS < room:
                return True
            if self._shown != self._taken:
                return False  # the kernel first has to take what it was shown
            time.sleep(ROOM_STEP_S)
        return False

    def _kick(self) -> OSError | None:
        try:
            self._sock.send(b"", socket.MSG_DONTWAIT)
        except OSError as error:
            return error
        return None

    def _look(self) -> bool:
        before = self._taken
        self._taken = int(POSITION.unpack_from(self._tx, self._tx_consumer)[0])
        return self._taken != before

    def _reclaim(self) -> int:
        now = int(POSITION.unpack_from(self._back, self._back_producer)[0])
        self._back[self._back_consumer : self._back_consumer + 4] = POSITION.pack(now)
        return now


@contextmanager
def xsk_call(beside: socket.socket, frames: Frames, config: EngineConfig) -> Iterator[Call]:
    """An AF_XDP socket for `frames`; `beside`, a packet socket, knows the MTU."""
    asked = xsk_geometry(frames, config)
    # a slot for each place of the ring: no frame stays
    slots = min(asked.ring_frames, MEMORY_BYTES // asked.slot_bytes)
    memory_bytes = max(mmap.PAGESIZE, slots * asked.slot_bytes)
    geometry = msgspec.structs.replace(asked, slots=slots, memory_bytes=memory_bytes)
    with ExitStack() as stack:
        memory = stack.enter_context(mmap.mmap(-1, memory_bytes, mmap.MAP_PRIVATE))
        xsk = _Xsk(geometry, memory, LengthLimit(beside, config.ifindex))
        _open(stack, xsk, geometry, memory, config)
        yield xsk.call
        xsk.finish()


def _open(
    stack: ExitStack, xsk: _Xsk, geometry: XskGeometry, memory: mmap.mmap, config: EngineConfig
) -> None:
    """Open for as long as `stack` lives, once a socket that was closed has given queue and memory back."""
    give_up_s = time.monotonic() + OPEN_WITHIN_S
    while True:
        try:
            stack.enter_context(_opened(xsk, geometry, memory, config))
        except OSError as error:
            if error.errno not in {errno_names.EBUSY, errno_names.ENOBUFS} or time.monotonic() >= give_up_s:
                raise
        else:
            return
        time.sleep(OPEN_STEP_S)


@contextmanager
def _opened(xsk: _Xsk, geometry: XskGeometry, memory: mmap.mmap, config: EngineConfig) -> Iterator[None]:
    with socket.socket(AF_XDP, socket.SOCK_RAW) as sock, ExitStack() as stack:
        _set_up(sock, geometry, memory)
        offsets = OFFSETS.unpack(sock.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, OFFSETS.size))
        ring = geometry.ring_frames
        tx_bytes, back_bytes = offsets[6] + ring * DESCRIPTOR.size, offsets[14] + ring * ADDRESS_BYTES
        tx = stack.enter_context(mmap.mmap(sock.fileno(), tx_bytes, offset=TX_RING_AT))
        back = stack.enter_context(mmap.mmap(sock.fileno(), back_bytes, offset=COMPLETION_RING_AT))
        _bind(sock, config)
        xsk.attach(sock, tx, back, offsets)
        yield


def _set_up(sock: socket.socket, geometry: XskGeometry, memory: mmap.mmap) -> None:
    start = ctypes.c_char.from_buffer(memory)
    umem = struct.pack(
        "=QQIIIxxxx", ctypes.addressof(start), geometry.memory_bytes, geometry.chunk_bytes, 0, 0
    )
    del start  # a view of it would keep the memory mapped
    sock.setsockopt(SOL_XDP, XDP_UMEM_REG, umem)
    sock.setsockopt(SOL_XDP, XDP_UMEM_FILL_RING, 1)
    sock.setsockopt(SOL_XDP, XDP_UMEM_COMPLETION_RING, geometry.ring_frames)
    sock.setsockopt(SOL_XDP, XDP_TX_RING, geometry.ring_frames)
    # refused before 6.17 and for a ring of less than 32: a call then takes 32 frames
    with suppress(OSError):
        sock.setsockopt(SOL_XDP, XDP_MAX_TX_SKB_BUDGET, geometry.ring_frames)


def _bind(sock: socket.socket, config: EngineConfig) -> None:
    address = struct.pack("=HHIII", AF_XDP, XDP_USE_NEED_WAKEUP, config.ifindex, config.queue, 0)
    if ctypes.CDLL(None, use_errno=True).bind(sock.fileno(), address, len(address)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
