"""Parts of the slow twin: wire, byte queue limits, moderation, and what arrives. Times in picoseconds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from labkit import _native

STEP_PS: Final = 2_048_000
"""82599: what one step of the EITR register counts at 10 Gbit/s."""


class Wire:
    """What all lanes share: the wire, and one cache line."""

    free_at = 0
    line_free_at = 0
    line_owner = 0


class Frame:
    """A descriptor in a TX ring."""

    def __init__(self, number: int, done: int) -> None:
        self.number = number
        self.done = done
        self.written_back = False


class Dql:
    """Byte queue limits by the rules of lib/dynamic_queue_limits.c; all amounts in bytes."""

    def __init__(self, config: _native.SimConfig) -> None:
        self._least, self._most, self._hold = config.bql_min, config.bql_max, config.bql_hold
        self.limit = 0
        self._queued = self._completed = 0
        self._newest_object = 0
        # as they were at the completion before
        self._queued_then = self._over_then = self._newest_object_then = 0
        self._slacks: list[int] = []
        self._slack_since = 0
        self._admitted_until = 0

    def queue(self, size: int) -> None:
        """A frame of `size` bytes was handed to the card."""
        self._queued += size
        self._newest_object = size

    def inflight(self) -> int:
        """Bytes that the card has and that nobody has cleaned yet."""
        return self._queued - self._completed

    def stops(self, more: int = 0) -> bool:
        """Whether the stack must not queue another frame, `more` bytes queued beside the known ones."""
        return self._queued + more > self._admitted_until

    def complete(self, size: int, now: int) -> None:
        """`size` bytes were cleaned at once: find the new limit."""
        done = self._completed + size
        over = max(0, self._queued - self._completed - self.limit)
        all_of_then_done = done >= self._queued_then
        limit = self.limit
        ran_dry = over > 0 and done == self._queued
        may_have_run_dry = self._over_then > 0 and all_of_then_done
        if ran_dry or may_have_run_dry:
            limit += max(0, done - self._queued_then) + self._over_then
            self._slacks, self._slack_since = [], now
        elif done < self._queued and self._queued_then > self._completed and not all_of_then_done:
            unneeded = max(0, limit + self._over_then - 2 * size)
            last_object = max(0, self._newest_object_then - self._over_then) if self._over_then else 0
            self._slacks.append(max(unneeded, last_object))
            if now > self._slack_since + self._hold:
                limit = max(0, limit - min(self._slacks))
                self._slacks, self._slack_since = [], now
        limit = min(max(limit, self._least), self._most)
        self._over_then = over if limit == self.limit else 0
        self.limit = limit
        self._completed = done
        self._admitted_until = done + limit
        self._queued_then = self._queued
        self._newest_object_then = self._newest_object


class DynamicItr:
    """ixgbe's dynamic mode of 2014: ixgbe_update_itr for each direction, then ixgbe_set_itr."""

    TARGETS: Final = {"lowest": 40, "low": 200, "bulk": 500}

    def __init__(self) -> None:
        self.itr = 200
        self._classes = {"tx": "lowest", "rx": "lowest"}

    def period(self) -> int:
        """Interval that the card makes of the value."""
        return self.itr // 8 * STEP_PS

    def polled(self, work: dict[str, tuple[int, int]]) -> None:
        """A poll is over that worked off (packets, bytes) in each direction."""
        for direction, (packets, size) in work.items():
            if packets:
                speed = size // (self.itr // 4)
                self._classes[direction] = self._next_class(self._classes[direction], speed)
        slowest = max(self._classes.values(), key=list(self.TARGETS).index)
        target = self.TARGETS[slowest]
        if target != self.itr:
            self.itr = 10 * target * self.itr // (9 * target + self.itr)

    @staticmethod
    def _next_class(current: str, bytes_per_us: int) -> str:
        if current == "lowest":
            return "low" if bytes_per_us > 10 else "lowest"
        if current == "bulk":
            return "bulk" if bytes_per_us > 20 else "low"
        return "bulk" if bytes_per_us > 20 else "low" if bytes_per_us > 10 else "lowest"


class Moderator:
    """When the card may interrupt for the events of one vector."""

    def __init__(self, config: _native.SimModerationConfig) -> None:
        self.kind = config.kind
        self._fixed_period = config.period
        self._frames = config.frames
        self.dynamic = DynamicItr()
        self._not_before = 0

    @property
    def holds_off(self) -> bool:
        """Whether it counts from the first event, instead of from the last interrupt."""
        return self.kind == _native.SimModeration.HOLD_OFF

    def fires(self, events: Iterator[int]) -> int | None:
        """Time of the next interrupt when `events` are those to come and those not dealt with, in order."""
        first = next(events, None)
        if first is None:
            return None
        if not self.holds_off:
            return max(first, self._not_before)
        at = first + self._fixed_period
        if self._frames:
            enough = first if self._frames == 1 else next(islice(events, self._frames - 2, None), None)
            at = at if enough is None else min(at, enough)
        return max(at, self._not_before)

    def fired(self, at: int) -> None:
        """The interrupt was raised."""
        if not self.holds_off:
            self._not_before = at + self._period()

    def lost(self, at: int, frame_ps: int) -> None:
        """It was raised and never arrived: tried again a period later, and not at once."""
        self._not_before = at + max(self._period(), frame_ps)

    def _period(self) -> int:
        return self.dynamic.period() if self.kind == _native.SimModeration.DYNAMIC else self._fixed_period


def random_words(seed: int) -> Iterator[int]:
    """64-bit words of the Mersenne twister (MT19937-64), as C++'s std::mt19937_64 makes them."""
    mask = (1 << 64) - 1
    state = [seed & mask]
    for index in range(1, 312):
        previous = state[-1]
        state.append((6364136223846793005 * (previous ^ previous >> 62) + index) & mask)
    while True:
        for index in range(312):
            high = state[index] & ~0x7FFFFFFF & mask
            mixed = high | state[(index + 1) % 312] & 0x7FFFFFFF
            twisted = mixed >> 1 ^ (0xB5026F5AA96619E9 if mixed & 1 else 0)
            state[index] = state[(index + 156) % 312] ^ twisted
        for word in state:
            drawn = word ^ word >> 29 & 0x5555555555555555
            drawn ^= drawn << 17 & 0x71D67FFFEDA60000
            drawn ^= drawn << 37 & 0xFFF7EEE000000000
            yield drawn ^ drawn >> 43


class Arrivals:
    """Frames that come to a lane: those in its receive ring, and those still on their way."""

    def __init__(self, config: _native.SimConfig, seed: int) -> None:
        self._ring_size = config.rx_ring
        self._words = random_words(seed)
        self._stream = self._times(config.arrival_gap, config.poisson) if config.arrival_gap else iter(())
        self._latest = 0
        self._coming: deque[int] = deque()
        self._waiting: deque[int] = deque()
        self.missed = 0

    def _times(self, gap: int, poisson: bool) -> Iterator[int]:
        at = gap
        while True:
            yield at
            at += int(-math.log(self._uniform()) * gap) if poisson else gap

    def _uniform(self) -> float:
        return ((next(self._words) >> 11) + 0.5) / 2**53

    def expect_late(self, at: int, jitter: int) -> None:
        """One more frame arrives at `at` or up to `jitter` later, behind those before it."""
        self._latest = max(self._latest, at + int(self._uniform() * jitter))
        self._coming.append(self._latest)

    def events(self) -> Iterator[int]:
        """Arrivals not taken yet, as many as the ring holds."""
        yield from self._waiting
        for index in range(self._ring_size - len(self._waiting)):
            while len(self._coming) <= index:
                following = next(self._stream, None)
                if following is None:
                    return
                self._coming.append(following)
            yield self._coming[index]

    def take(self, now: int) -> int | None:
        """Arrival of the oldest frame in the ring at `now`, which leaves it; None for an empty ring."""
        self._arrive(now)
        return self._waiting.popleft() if self._waiting else None

    def _arrive(self, now: int) -> None:
        while True:
            if not self._coming:
                following = next(self._stream, None)
                if following is None:
                    return
                self._coming.append(following)
            if self._coming[0] > now:
                return
            if len(self._waiting) < self._ring_size:
                self._waiting.append(self._coming.popleft())
            else:
                self._coming.popleft()
                self.missed += 1
