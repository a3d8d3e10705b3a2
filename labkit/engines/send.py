"""Engine `send`: one send() a frame."""

from __future__ import annotations

from labkit import _native
from labkit.engines.native import NativeEngine


class Send(NativeEngine):
    """The plainest way out: what a system call a frame costs."""

    name = "send"
    default_batch = 1
    max_batch = 1
    loop = staticmethod(_native.send)
