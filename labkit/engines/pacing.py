"""When the next batch may leave: the token bucket of the Python twins, as `native/pacing.h` has it."""

from __future__ import annotations

import time
from typing import Final

from labkit._native import StopFlag
from labkit.units import NS_PER_S

BURST_NS: Final = 1_000_000
DEPTH_NS: Final = 10_000_000
LOOK_NS: Final = 5_000_000
NEVER_NS: Final = 10**18


class Pacer:
    """Frame k is due k / `rate_pps` seconds after `start_ns`; infinitely many are due without a rate."""

    def __init__(self, rate_pps: float | None, start_ns: int, batch: int) -> None:
        self._start_ns = start_ns
        self._frame_ns = min(NS_PER_S / rate_pps, NEVER_NS) if rate_pps is not None else 0.0
        self._depth_ns = max(DEPTH_NS, self._frame_ns)
        self._due_after_ns = 0.0
        # as the native clamp does: a rate beyond all numbers has frames of no length
        millisecond = BURST_NS / self._frame_ns if self._frame_ns else float(batch)
        self.burst = batch if rate_pps is None else int(min(max(millisecond, 1), batch))

    @property
    def due_ns(self) -> int:
        """When the next frame is due, CLOCK_MONOTONIC."""
        return self._start_ns + int(self._due_after_ns)

    def took(self, frames: int, now_ns: int) -> None:
        """Note `frames` as attempted; a late sender catches up with the bucket's depth at most."""
        due = self._due_after_ns + frames * self._frame_ns
        self._due_after_ns = max(due, now_ns - self._start_ns - self._depth_ns)


def wait_until(target_ns: int, stop: StopFlag) -> None:
    """Sleep until `target_ns` or the stop flag, at which it looks every 5 ms."""
    while not stop.is_set() and (rest_ns := target_ns - time.monotonic_ns()) > 0:
        time.sleep(min(rest_ns, LOOK_NS) / NS_PER_S)
