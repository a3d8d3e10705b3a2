"""One CPU and its queue pair, as the slow twin of the native event loop has it. Times in picoseconds."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from labkit import _native
from labkit.simnic.reference_parts import Arrivals, Dql, Frame, Moderator, Wire

ACK_BYTES: Final = 66
FULL = _native.SimWhenFull


class Lane:
    """A lane: `step` does the next thing that its CPU does."""

    def __init__(self, config: _native.SimConfig, wire: Wire, number: int) -> None:
        self.config, self.wire, self.number = config, wire, number
        self.now = 0
        self.counts: Counter[str] = Counter()
        self.ring: deque[Frame] = deque()
        self.posted = 0
        self.tx, self.rx = Moderator(config.tx_moderation), Moderator(config.rx_moderation)
        if config.shared_vector and not self.rx.holds_off:
            self.rx = self.tx
        self.arrivals = Arrivals(config, config.seed + number)
        self.dql = Dql(config)
        self.posting = self.queued = 0
        self.polling: str | None = None
        self.work = {"tx": 0, "rx": 0}
        self.ring_stopped = self.ended = self.carrier_lost = False
        self.due = self.call_left = self.in_window = self.unacknowledged = self.interrupts = 0
        self.doorbell_at: int | None = None
        self.waiting = self.uncleaned = 0
        self.trace: list[tuple[int, int, int, bool, int, int]] = []
        self.latency_ns: list[int] = []
        self.begin()

    def begin(self) -> None:
        """From here on is what counts."""
        self.started = self.now
        self.at_start = self.counts.copy()
        self.waiting_at_start, self.uncleaned_at_start = self.waiting, self.uncleaned
        self.most_in_flight = 0

    def step(self, end: int) -> None:
        """The next thing that this CPU does."""
        interrupt = self._next_interrupt()
        if self.posting:
            self._doorbell()
        elif self.polling:
            self._poll(self.polling)
        elif interrupt is not None and self.now >= interrupt[0]:
            self._interrupt(*interrupt)
        else:
            self._send(end, None if interrupt is None else interrupt[0])

    def _next_interrupt(self) -> tuple[int, str] | None:
        tx = self.tx.fires(frame.done for frame in self.ring)
        rx = self.rx.fires(self.arrivals.events())
        found = [(at, name) for at, name in ((tx, "tx"), (rx, "rx")) if at is not None]
        return min(found, key=lambda one: one[0]) if found else None

    def _interrupt(self, at: int, direction: str) -> None:
        moderator = self.tx if direction == "tx" else self.rx
        self.interrupts += 1
        if self.config.drop_interrupt_every and self.interrupts % self.config.drop_interrupt_every == 0:
            moderator.lost(at, self.config.wire)
            return
        moderator.fired(at)
        self.counts[f"{direction}_interrupts"] += 1
        self.most_in_flight = max(self.most_in_flight, len(self.ring))
        self._look(cleaned=False)
        self.now += self.config.interrupt
        for frame in self.ring:
            frame.written_back |= frame.done <= at
        self.polling = direction
        self.work = {"tx": 0, "rx": 0}

    def _poll(self, direction: str) -> None:
        self.counts["polls"] += 1
        both = self.config.shared_vector
        tx = self._clean() if both or direction == "tx" else 0
        rx = self._receive() if both or direction == "rx" else 0
        self.work["tx"] += tx
        self.work["rx"] += rx
        if tx == self.config.clean_limit or rx == self.config.rx_budget:
            self.now += self.config.repoll
            self.counts["repolls"] += 1
            return
        self.polling = None
        rx_bytes = ACK_BYTES if self.config.window else self.config.frame_bytes
        moderator = self.tx if direction == "tx" else self.rx
        moderator.dynamic.polled(
            {
                "tx": (self.work["tx"], self.work["tx"] * self.config.frame_bytes),
                "rx": (self.work["rx"], self.work["rx"] * rx_bytes),
            }
        )
        self._look(cleaned=True)

    def _clean(self) -> int:
        cleaned, began = 0, self.now
        while cleaned < self.config.clean_limit and self._oldest_is_written_back(began):
            self.now += self.config.clean
            if self.work["tx"] + cleaned >= self.config.cached:
                self.now += self.config.cache_miss
                self.counts["cache_misses"] += 1
            self.uncleaned += self.now - self.ring.popleft().done
            cleaned += 1
        self.counts["cleaned"] += cleaned
        if cleaned:
            if self.config.bql:
                self.dql.complete(cleaned * self.config.frame_bytes, self.now)
            unused = self.config.tx_ring - 1 - len(self.ring)
            if self.ring_stopped and unused >= self.config.wake_descriptors:
                self.ring_stopped = False
                self.counts["restarts"] += 1
        return cleaned

    def _oldest_is_written_back(self, at: int) -> bool:
        """The card writes a batch of descriptors back when its last one is done."""
        if not self.ring:
            return False
        size = self.config.write_back
        batch = [frame for frame in self.ring if frame.number // size == self.ring[0].number // size]
        if batch[-1].number % size == size - 1 and batch[-1].done <= at:
            for frame in batch:
                frame.written_back = True
        return self.ring[0].written_back

    def _receive(self) -> int:
        received = 0
        missed = self.arrivals.missed
        while received < self.config.rx_budget:
            arrived = self.arrivals.take(self.now)
            if arrived is None:
                break
            self.now += self.config.receive
            self.latency_ns.append((self.now - arrived) // 1000)
            received += 1
            if self.config.window:
                self.in_window = max(0, self.in_window - self.config.ack_every)
        self.counts["received"] += received
        self.counts["acks"] += received if self.config.window else 0
        self.counts["missed"] += self.arrivals.missed - missed
        return received

    def _send(self, end: int, interrupt_at: int | None) -> None:
        config = self.config
        if config.count and self.counts["sent"] >= config.count:
            self.ended = True
        elif self.now >= config.carrier_lost_at:
            self.ended = self.carrier_lost = True
        elif self.queued and not self._closed():
            self.queued -= 1
            self.now += config.burst_ps + config.doorbell
            self.counts["bursts"] += 1
            self.posting = 1
        elif (shut := self._shut()) is not None:
            reason, until = shut
            self._wait(reason, end, interrupt_at, until)
        elif not self._closed():
            self._burst()
        elif config.when_full == FULL.SPIN:
            self._wait("ring_wait_ps", end, interrupt_at, None)
        else:
            self._stuck_frame()

    def _closed(self) -> bool:
        heeds = self.config.bql and self.config.bql_stops
        return self.ring_stopped or (heeds and self.dql.stops())

    def _shut(self) -> tuple[str, int | None] | None:
        """Why the sender itself does not go on now, and until when; None when it does."""
        config = self.config
        if not config.sends:
            return "idle_ps", None
        below_wire = len(self.ring) + self.queued
        if config.window and self.in_window >= config.window:
            return "window_wait_ps", None
        if config.window and config.small_queue and below_wire >= config.small_queue:
            return "window_wait_ps", None
        if config.when_full == FULL.QUEUE and self.queued >= config.queue_limit:
            return "ring_wait_ps", None
        if config.gap and self.due > self.now:
            return "pacing_wait_ps", self.due
        return None

    def _wait(self, reason: str, *times: int | None) -> None:
        until = min(at for at in (*times, self.config.carrier_lost_at) if at is not None)
        self.counts[reason] += until - self.now
        self.now = until

    def _burst(self) -> None:
        """Frames under one doorbell: as many as nothing says no to."""
        config = self.config
        self._begin_frames()
        frames = 1
        while frames < config.burst and not config.gap and not self._no_room_after(frames):
            frames += 1
        self.call_left -= frames
        self._work(frames * config.packet + config.burst_ps + config.doorbell)
        self.counts["sent"] += frames
        self.counts["bursts"] += 1
        self.due += frames * config.gap
        self.in_window += frames if config.window else 0
        self.posting = 0 if config.injects else frames

    def _work(self, takes: int) -> None:
        """The sender's own time; interrupts cut into that of a TCP segment."""
        while takes:
            found = self._next_interrupt() if self.config.window else None
            if found is None or found[0] >= self.now + takes:
                self.now += takes
                return
            before = max(0, found[0] - self.now)
            self.now += before
            takes -= before
            self._interrupt(*found)
            while self.polling:
                self._poll(self.polling)

    def _no_room_after(self, frames: int) -> bool:
        """Whether no other frame may follow `frames` under the same doorbell."""
        config = self.config
        in_flight = len(self.ring) + frames
        return (
            config.tx_ring - 1 - in_flight < config.stop_descriptors
            or (config.bql and config.bql_stops and self.dql.stops(frames * config.frame_bytes))
            or (config.count > 0 and self.counts["sent"] + frames >= config.count)
            or (config.call_ps > 0 and self.call_left == frames)
            or (config.window > 0 and self.in_window + frames >= config.window)
            or (config.window > 0 and 0 < config.small_queue <= in_flight)
        )

    def _begin_frames(self) -> None:
        """What is paid before any frame: the call, the write that still stalls, the line of all lanes."""
        config, wire = self.config, self.wire
        if config.call_ps and self.call_left <= 0:
            self.now += config.call_ps
            self.counts["calls"] += 1
            self.call_left = config.batch
        if config.locked_stall and self.doorbell_at is not None:
            stalled = max(0, self.doorbell_at + config.locked_stall - self.now)
            self.counts["stall_ps"] += stalled
            self.now += stalled
        if config.shared_line and wire.line_owner != self.number:
            moved = max(self.now, wire.line_free_at) + config.shared_line
            self.counts["shared_line_ps"] += moved - self.now
            self.now = wire.line_free_at = moved
            wire.line_owner = self.number

    def _stuck_frame(self) -> None:
        config = self.config
        self._begin_frames()
        self._work(config.packet)
        self.due += config.gap
        self.call_left -= 1
        if config.when_full == FULL.REFUSE:
            self.counts["refused"] += 1
            return
        self.counts["sent"] += 1
        self.queued += 1
        self.in_window += 1 if config.window else 0

    def _doorbell(self) -> None:
        """The card learns of `posting` frames."""
        config = self.config
        self.wire.free_at = max(self.wire.free_at, self.now + config.fetch)
        for _ in range(self.posting):
            self.wire.free_at += config.wire
            self.ring.append(Frame(self.posted, self.wire.free_at))
            self.posted += 1
            self.waiting += self.wire.free_at - self.now
            if config.bql:
                self.dql.queue(config.frame_bytes)
            if config.window:
                self._acknowledge(self.wire.free_at)
        self.posting = 0
        self.doorbell_at = self.now
        unused = config.tx_ring - 1 - len(self.ring)
        if unused < config.stop_descriptors:
            self.ring_stopped = True
            self._look(cleaned=False)

    def _acknowledge(self, done: int) -> None:
        self.unacknowledged += 1
        if self.unacknowledged == self.config.ack_every:
            self.unacknowledged = 0
            self.arrivals.expect_late(done + self.config.ack_delay, self.config.ack_jitter)

    def _look(self, *, cleaned: bool) -> None:
        if self.number == 0 and len(self.trace) < self.config.trace:
            waiting = sum(frame.done > self.now for frame in self.ring)
            limits = self.dql.limit, self.dql.inflight()
            self.trace.append((self.now, waiting, len(self.ring) - waiting, cleaned, *limits))
