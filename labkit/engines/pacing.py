"""When the next batch may leave, and how even it was: what `native/pacing.h` does, for the Python twins."""

from __future__ import annotations

import ctypes
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from labkit._native import StopFlag
from labkit.units import NS_PER_S

EVEN_PPS: Final = 50_000
"""Below it frames leave one by one where they can, each at its own time; above it a call that waits for every
frame would cost more than the gap that it keeps."""
BURST_NS: Final = 1_000_000
DEPTH_NS: Final = 10_000_000
LOOK_NS: Final = 5_000_000
NEVER_NS: Final = 10**18

BUCKET_BITS: Final = 5
"""Bits of a time that tell its bucket, the first included: 16 buckets an octave, at most 6.25 % wide."""
PR_SET_TIMERSLACK, PR_GET_TIMERSLACK = 29, 30


def is_even(rate_pps: float | None) -> bool:
    """Whether `rate_pps` is so slow that frames leave one by one and timers have to be exact."""
    return rate_pps is not None and rate_pps < EVEN_PPS


class Pacer:
    """Frame k is due k / `rate_pps` seconds after `start_ns`; infinitely many are due without a rate.

    `even`: at a slow rate frames leave one by one, which those of a super-packet cannot.
    """

    def __init__(self, rate_pps: float | None, start_ns: int, batch: int, *, even: bool = True) -> None:
        self._start_ns = start_ns
        self.frame_ns = min(NS_PER_S / rate_pps, NEVER_NS) if rate_pps is not None else 0.0
        self._depth_ns = max(DEPTH_NS, self.frame_ns)
        self._due_after_ns = 0.0
        most = 1 if even and is_even(rate_pps) else batch
        # as the native clamp does: a rate beyond all numbers has frames of no length
        millisecond = BURST_NS / self.frame_ns if self.frame_ns else float(batch)
        self.burst = batch if rate_pps is None else int(min(max(millisecond, 1), most))

    def burst_before(self, deadline_ns: int | None) -> int:
        """Frames that may leave together, without those that are due only at `deadline_ns` or later."""
        if deadline_ns is None or not self.frame_ns:
            return self.burst
        due = math.ceil((deadline_ns - self._start_ns - self._due_after_ns) / self.frame_ns)
        return min(max(1, due), self.burst)

    @property
    def due_ns(self) -> int:
        """When the next frame is due, CLOCK_MONOTONIC."""
        return self._start_ns + int(self._due_after_ns)

    def took(self, frames: int, now_ns: int) -> None:
        """Note `frames` as attempted; a late sender catches up with the bucket's depth at most."""
        due = self._due_after_ns + frames * self.frame_ns
        self._due_after_ns = max(due, now_ns - self._start_ns - self._depth_ns)


def wait_until(target_ns: int, stop: StopFlag) -> None:
    """Sleep until `target_ns` or the stop flag, at which it looks every 5 ms."""
    while not stop.is_set() and (rest_ns := target_ns - time.monotonic_ns()) > 0:
        time.sleep(min(rest_ns, LOOK_NS) / NS_PER_S)


class Gaps:
    """Times between the starts of successive calls, counted in the buckets of `native/histogram.h`."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._counts: Counter[int] = Counter()

    def add(self, now_ns: int) -> None:
        """Note a call that starts at `now_ns`."""
        if self._last_ns is not None:
            self._counts[bucket_floor_ns(now_ns - self._last_ns)] += 1
        self._last_ns = now_ns

    def filled(self) -> list[tuple[int, int]]:
        """Smallest nanoseconds of each bucket that holds something, and how much."""
        return sorted(self._counts.items())


def bucket_floor_ns(ns: int) -> int:
    """Smallest value of the bucket that `ns` falls into."""
    shift = max(0, ns.bit_length() - BUCKET_BITS)
    return ns >> shift << shift


def bucket_end_ns(floor_ns: int) -> int:
    """Smallest value behind the bucket that begins with `floor_ns`."""
    return floor_ns + (1 << max(0, floor_ns.bit_length() - BUCKET_BITS))


def quantile_ns(times: Sequence[tuple[int, int]], share: float) -> float | None:
    """The time that `share` of all `times` are no longer than: the middle of its bucket, at most 3.2 % off.

    The middle is geometric, the same factor away from both ends. None where there is no time.
    """
    wanted, seen = share * sum(count for _, count in times), 0
    for floor_ns, count in sorted(times):
        seen += count
        if seen >= wanted:
            return math.sqrt(floor_ns * (bucket_end_ns(floor_ns) - 1))
    return None


@contextmanager
def exact_timers(*, wanted: bool) -> Iterator[None]:
    """Timers of this thread that fire within a nanosecond instead of 50 us (man 2 PR_SET_TIMERSLACK)."""
    if not wanted:
        yield
        return
    libc = ctypes.CDLL(None)
    before_ns = libc.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)
    libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(before_ns), 0, 0, 0)
