"""How the twins hand frames to the kernel: what a call is, send() and sendmmsg()."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeAlias

from labkit.engines.base import EngineConfig
from labkit.records import Frames
from labkit.units import ETHERNET_HEADER_BYTES

Call: TypeAlias = Callable[[list[bytes]], int]
"""Hands frames to the kernel; returns how many it took, or raises OSError when it refused the first."""

Caller: TypeAlias = Callable[[socket.socket, Frames, EngineConfig], AbstractContextManager[Call]]
"""Prepares a bound socket for one run."""

# linux/if_packet.h, linux/sockios.h: not in Python's socket module
SOL_PACKET: Final = 263
SIOCGIFMTU: Final = 0x8921
IFREQ: Final = struct.Struct("16si20x")


class LengthLimit:
    """What an engine must refuse itself because the kernel does not look, or says it at a price."""

    def __init__(self, sock: socket.socket, ifindex: int) -> None:
        self._sock, self._ifindex = sock, ifindex
        self._longest = self._read()

    def check(self, frame_bytes: int, more: int) -> None:
        """Raise EMSGSIZE for a frame that is over the MTU's and `more`; a raised MTU is noticed."""
        if not self.takes(frame_bytes, more):
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))

    def takes(self, frame_bytes: int, more: int) -> bool:
        """Whether to hand it over; what a device does that is gone, the call says."""
        if self._longest is None or frame_bytes > self._longest + more:
            self._longest = self._read()
        return self._longest is None or frame_bytes <= self._longest + more

    def _read(self) -> int | None:
        try:
            name = socket.if_indextoname(self._ifindex).encode()
            answer = fcntl.ioctl(self._sock, SIOCGIFMTU, IFREQ.pack(name, 0))
        except OSError:
            return None
        return int(IFREQ.unpack(answer)[1]) + ETHERNET_HEADER_BYTES


@contextmanager
def send_call(sock: socket.socket, _frames: Frames, _config: EngineConfig) -> Iterator[Call]:
    """One send() of the first frame."""

    def call(frames: list[bytes]) -> int:
        sock.send(frames[0])
        return 1

    yield call


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("bytes", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr (man 2 sendmsg)."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint),
        ("iov", ctypes.POINTER(_Iovec)),
        ("iov_len", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr (man 2 sendmmsg)."""

    _fields_ = (("header", _Header), ("sent_bytes", ctypes.c_uint))


@contextmanager
def sendmmsg_call(sock: socket.socket, _frames: Frames, _config: EngineConfig) -> Iterator[Call]:
    """One sendmmsg() of all."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(frames: list[bytes]) -> int:
        vectors = [_Iovec(frame, len(frame)) for frame in frames]
        messages = (_Message * len(frames))(
            *(_Message(_Header(iov=ctypes.pointer(vector), iov_len=1)) for vector in vectors)
        )
        taken: int = libc.sendmmsg(sock.fileno(), messages, len(frames), 0)
        if taken < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return taken

    yield call
