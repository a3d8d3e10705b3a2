"""The loop that every twin runs: a call after the other, in time, counted."""

from __future__ import annotations

import errno as errno_names
import time
from collections import Counter

from labkit._native import Progress, StopFlag
from labkit.engines.base import FATAL_ERRNOS, MAX_BATCH, EndedBy, EngineConfig
from labkit.engines.pacing import Gaps, Pacer, wait_until
from labkit.engines.reference_calls import Call
from labkit.engines.reference_stamp import Stamps
from labkit.errors import errno_name
from labkit.records import Frames


class Loop:
    """One run: where it is in the table and what happened so far."""

    def __init__(self, frames: Frames, config: EngineConfig, call: Call, *, whole: bool) -> None:
        self._frames = [frames.frame(index) for index in range(len(frames))]
        self._config = config
        self._call = call
        self._whole = whole
        self.taking_calls = 0
        self.sent = self.refused = self.partial_returns = self.calls = 0
        self.by_errno: Counter[str] = Counter()
        self.fatal_errno: str | None = None
        self._gaps = Gaps() if config.rate_pps is not None else None
        self._stamps = Stamps(frames) if config.stamp else None
        self._most_together = self._turn = 0
        self.start_ns = self.end_ns = time.monotonic_ns()
        self._start_date_ns = time.time_ns()
        self._pacer = Pacer(config.rate_pps, self.start_ns, config.batch, even=not whole)

    @property
    def gaps(self) -> list[tuple[int, int]] | None:
        """Times between the starts of successive calls of a paced run, by bucket."""
        return None if self._gaps is None else self._gaps.filled()

    @property
    def burst_frames(self) -> int | None:
        """Most frames of a paced run that left together."""
        return None if self._gaps is None else self._most_together

    def run(self, stop: StopFlag, progress: Progress) -> EndedBy:
        """Call until count, duration, stop or a fatal error."""
        pacer = self._pacer
        if self._config.rate_pps is not None:
            progress.pace(self.start_ns, pacer.frame_ns)
        duration_ns = self._config.duration_ns
        deadline_ns = None if duration_ns is None else self.start_ns + duration_ns
        ended = self._until_ended(deadline_ns, stop, progress)
        if self._config.rate_pps is not None and ended != "error":
            # the last frame takes its slot like every other: 10 frames at 10 a second last a second
            if ended == "count":
                wait_until(pacer.due_ns if deadline_ns is None else min(pacer.due_ns, deadline_ns), stop)
            self.end_ns = time.monotonic_ns()
        return ended

    def _until_ended(self, deadline_ns: int | None, stop: StopFlag, progress: Progress) -> EndedBy:
        pacer = self._pacer
        while self._left(MAX_BATCH) > 0:
            due_ns = pacer.due_ns
            wait_until(due_ns if deadline_ns is None else min(due_ns, deadline_ns), stop)
            if stop.is_set():
                return "stop"
            now_ns = time.monotonic_ns()
            if deadline_ns is not None and max(due_ns, now_ns) >= deadline_ns:
                return "duration"
            done = self._due_call(now_ns, self._left(pacer.burst_before(deadline_ns)))
            self.end_ns = time.monotonic_ns()
            if self.fatal_errno is not None:
                return "error"
            pacer.took(done, self.end_ns)
            progress.store(self.sent, self.refused)
        return "count"

    def _left(self, most: int) -> int:
        count = self._config.count
        return most if count is None else min(most, count - self.sent - self.refused)

    def _due_call(self, now_ns: int, asked: int) -> int:
        if self._gaps is not None:
            self._gaps.add(now_ns)
        before = self.sent
        done = self._attempt(asked)
        self._most_together = max(self._most_together, self.sent - before)
        self._turn += done > 0
        return done

    def _batch(self, asked: int) -> list[bytes]:
        """The next unsent frames; of super-packets one frame, as often as asked."""
        first, frames = self.sent + self.refused, len(self._frames)
        places = [self._turn % frames] * asked
        if not self._whole:
            places = [index % frames for index in range(first, first + asked)]
        batch = [self._frames[place] for place in places]
        if self._stamps is None:
            return batch
        now_ns, frame_ns = time.time_ns(), self._pacer.frame_ns
        stamped = []
        for attempt, (frame, place) in enumerate(zip(batch, places, strict=True), start=first):
            # paced frames carry the time at which they are due: who receives them sees a late sender
            date_ns = self._start_date_ns + int(attempt * frame_ns) if frame_ns else now_ns
            stamped.append(self._stamps.on(frame, place, attempt, date_ns))
        return stamped

    def _attempt(self, asked: int) -> int:
        """One call from the next unsent frame; returns how many frames are done with, sent or refused."""
        batch = self._batch(asked)
        self.calls += 1
        try:
            taken = self._call(batch)
        except OSError as error:
            if self._whole and error.errno == errno_names.EINVAL:
                raise  # every frame has been looked at: the kernel means the offload itself
            return self._refuse(error.errno or 0, asked if self._whole else 1)
        self.taking_calls += 1
        self.sent += taken
        self.partial_returns += taken < asked
        return taken

    def _refuse(self, number: int, frames: int) -> int:
        if number in {errno_names.EINTR, errno_names.EAGAIN}:
            return 0
        if number in FATAL_ERRNOS:
            self.fatal_errno = errno_name(number)
            return 0
        self.refused += frames
        self.by_errno[errno_name(number)] += frames
        return frames
