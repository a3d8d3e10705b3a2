"""Engine `sendmmsg`: a batch of frames a system call."""

from __future__ import annotations

from labkit import _native
from labkit.engines.base import MAX_BATCH
from labkit.engines.native import NativeEngine


class Sendmmsg(NativeEngine):
    """Many frames a sendmmsg(); the kernel still hands them to the device one by one."""

    name = "sendmmsg"
    default_batch = 64
    max_batch = MAX_BATCH
    loop = staticmethod(_native.sendmmsg)
