"""Another program as a child of the agent: started, watched by a counter, ended with all that it forked."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import msgspec

from labkit._native import StopFlag
from labkit.engines.base import EndedBy, EngineConfig
from labkit.engines.peer_child import ENOUGH, FOLDER
from labkit.engines.stream_records import StreamReport
from labkit.errors import LabError
from labkit.linux.processes import Times, members_of_group, times_of
from labkit.units import NS_PER_S

START_WITHIN_NS: Final = 7 * NS_PER_S
"""Longest start-up: scapy's takes a second, and a busy machine makes that several."""
LOOK_S: Final = 0.001
"""Between two looks at the counter while a program starts or ends."""
WAIT_S: Final = 0.005
"""Between two looks while it sends: a stop is seen within that."""
KILL_AFTER_S: Final = 2.0
"""When the keeper itself did not end."""
PROGRAMS: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for, whatever the agent's own PATH."""
WORDS: Final = 400
"""Characters of a program's last words that an error repeats."""


class Course(msgspec.Struct, frozen=True):
    """How a child's run went.

    Attributes
    ----------
    start_ns, end_ns : int
        Looks at the device's counter just before the first and just after the last frame, CLOCK_MONOTONIC:
        a program's own start and end take longer than a short run.
    times : Times
        CPU time, wait and switches of the program between the two.
    stream : StreamReport or None
        Of a TCP stream what the device counted of it.
    """

    start_ns: int
    end_ns: int
    times: Times
    ended_by: EndedBy
    stream: StreamReport | None = None


class Child:
    """A program under `labkit.engines.peer_child`; a context manager that leaves no process behind.

    Parameters
    ----------
    name : str
        What errors call it.
    command : sequence of str
        Program and arguments.
    cpus : collection of int
        Where it may run.
    folder : Path
        Its home, where its last words are kept.
    """

    def __init__(self, name: str, command: Sequence[str], cpus: Collection[int], folder: Path) -> None:
        self._name = name
        self._words = folder / f"{name}.words"
        keeper = [sys.executable, "-I", "-m", "labkit.engines.peer_child", ",".join(map(str, sorted(cpus)))]
        with self._words.open("wb") as words:
            self._keeper = subprocess.Popen(
                [*keeper, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=words,
                env={"PATH": PROGRAMS, "HOME": str(folder), FOLDER: str(folder), "LC_ALL": "C"},
                # trafgen makes a scratch file where it stands (.tmp_mmap.XXXXXX), and "/" is root's alone
                cwd=folder,
                start_new_session=True,
            )
        self._pidfd = os.pidfd_open(self._keeper.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and all that it forked, also where its keeper was killed."""
        self.ask_to_end()
        if not self.ended_within(KILL_AFTER_S) or self.members():
            with contextlib.suppress(ProcessLookupError):  # they were just ending
                os.killpg(self._keeper.pid, signal.SIGKILL)
        self._keeper.wait()
        os.close(self._pidfd)

    def ended_within(self, seconds: float) -> bool:
        """Whether it has ended, waiting at most so long."""
        return bool(select.select([self._pidfd], [], [], seconds)[0])

    def ask_to_end(self) -> None:
        """Say that it is not wanted any more; harmless twice."""
        if self._keeper.stdin is not None and not self._keeper.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it was killed
                os.write(self._keeper.stdin.fileno(), ENOUGH)
            self._keeper.stdin.close()

    def members(self) -> list[int]:
        """Processes of its group, the keeper excluded."""
        return [pid for pid in members_of_group(self._keeper.pid) if pid != self._keeper.pid]

    def check_end(self, *, wanted: bool) -> None:
        """Raise `LabError` with its last words unless it ended well, where that was `wanted` at all."""
        code = self._keeper.wait(KILL_AFTER_S)
        if not wanted or code:
            raise self.failure(f"ended by itself (exit {code})")

    def failure(self, what: str) -> LabError:
        """`what` it did, and its last words."""
        words = " ".join(self._words.read_text(errors="replace").split())[-WORDS:]
        return LabError(f"{self._name} {what}; its last words: {words or 'none'}")


def follow(
    child: Child,
    counted: Callable[[], int],
    config: EngineConfig,
    stop: StopFlag,
    *,
    first_frames: int = 0,
    begun: Callable[[], None] = lambda: None,
) -> Course:
    """Let `child` send for the asked duration from its first frame on, then end it.

    Parameters
    ----------
    counted : callable
        The device's count so far.
    first_frames : int
        Frames that belong to its start.
    begun : callable
        Called once it has begun to send.

    Raises
    ------
    LabError
        It ended early, or never began; with its last words.
    """
    before = counted()
    start_ns = _begin(child, lambda: counted() - before > first_frames, config, stop)
    if start_ns is None:
        now_ns = time.monotonic_ns()
        return Course(start_ns=now_ns, end_ns=now_ns, times=Times(0, 0, 0), ended_by="stop")
    begun()
    first = times_of(child.members())
    last = dict(first)
    ended_by: EndedBy = "duration"
    while not child.ended_within(WAIT_S):
        last |= times_of(first)
        if stop.is_set():
            ended_by = "stop"
            break
        if config.duration_ns is not None and time.monotonic_ns() - start_ns >= config.duration_ns:
            break
    else:
        child.check_end(wanted=config.count is not None)
        ended_by = "count"
    end_ns = _end(child, counted)
    return Course(start_ns=start_ns, end_ns=end_ns, times=_between(first, last), ended_by=ended_by)


def _between(first: Mapping[int, Times], last: Mapping[int, Times]) -> Times:
    """What all processes together took from `first` to `last`; one that ended counts up to its last look."""
    return Times(
        *(
            sum(getattr(last[pid], name) - getattr(times, name) for pid, times in first.items())
            for name in Times.__struct_fields__
        )
    )


def _begin(child: Child, begun: Callable[[], bool], config: EngineConfig, stop: StopFlag) -> int | None:
    """When the last look saw no frame; None where the run was stopped before one left."""
    asked_ns = quiet_ns = time.monotonic_ns()
    while True:
        look_ns = time.monotonic_ns()
        if begun():
            return quiet_ns
        quiet_ns = look_ns
        if stop.is_set():
            return None
        if child.ended_within(LOOK_S) and not begun():
            child.check_end(wanted=config.count is not None)
            return quiet_ns
        if look_ns - asked_ns > START_WITHIN_NS:
            raise child.failure(f"sent no frame within {START_WITHIN_NS // NS_PER_S} s; is the link up?")


def _end(child: Child, counted: Callable[[], int]) -> int:
    """End it; when the first look saw its last frame."""
    child.ask_to_end()
    count, end_ns = counted(), time.monotonic_ns()
    deadline_ns = end_ns + int(KILL_AFTER_S * NS_PER_S)
    over = False
    while not over:
        over = child.ended_within(LOOK_S) or time.monotonic_ns() > deadline_ns
        look, now_ns = counted(), time.monotonic_ns()
        if look != count:
            count, end_ns = look, now_ns
    return end_ns
