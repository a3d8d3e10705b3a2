"""The notebook's side of an agent: typed requests, live samples, and a clear word when it dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import labkit.errors
from labkit.agent.protocol import (
    PROTOCOL_VERSION,
    Answer,
    Applied,
    Apply,
    Channel,
    Closed,
    Done,
    Failed,
    Hello,
    Live,
    Load,
    Look,
    Measured,
    Message,
    Open,
    Opened,
    Restore,
    Run,
    Stop,
    Welcome,
)
from labkit.errors import AgentLostError, LabError, RigBusyError
from labkit.records import Frames, Sample, Scalar

ANSWER_WITHIN_S = 10.0
"""Longest silence of a healthy agent; during a run it comes on top of the run's own length."""
STOP_WITHIN_S = 2.0

M = TypeVar("M", bound=Message)


class Process(Protocol):
    """What the client needs of the agent's process; `launch.AgentProcess`, or a stand-in."""

    @property
    def read_fd(self) -> int:
        """Where answers arrive."""
        ...

    @property
    def write_fd(self) -> int:
        """Where requests go."""
        ...

    def last_words(self) -> str:
        """The end of its standard error."""
        ...

    def how_it_ended(self) -> str:
        """One phrase: signal or exit status."""
        ...

    def end(self) -> None:
        """End it, harmless twice."""
        ...


class AgentClient:
    """Requests to one agent; one at a time, `stop` from any thread.

    Raises
    ------
    AgentLostError
        From every method: the agent ended or fell silent; carries the samples received so far.
    RigBusyError
        From every method but `stop` and `close`: another thread is in the middle of a request.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._channel = Channel(process.read_fd, process.write_fd, Answer)
        self._busy = threading.Lock()
        self._sending = threading.Lock()
        self._samples: list[Sample] = []
        self._lost = False
        self._closed = False
        self._loaded: Frames | None = None
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def open(self, settings: dict[str, Scalar], *, force_user_namespace: bool, peer_carrier: bool) -> Opened:
        """Make the veth rig with `settings` as its ground state."""
        request = Open(
            force_user_namespace=force_user_namespace, settings=settings, peer_carrier=peer_carrier
        )
        return self._ask(request, Opened)

    def look(self, sink: str) -> Opened:
        """State of the links that `sink` uses, read now."""
        return self._ask(Look(sink=sink), Opened)

    def apply(self, settings: dict[str, Scalar]) -> dict[str, Scalar]:
        """Turn settings; everything in force as read back. The agent keeps the originals until `restore`."""
        return self._ask(Apply(settings=settings), Applied).accepted

    def restore(self) -> None:
        """Put back what the newest `apply` changed."""
        self._ask(Restore(), Done)

    def load(self, frames: Frames) -> None:
        """Hand over the frames of the runs to come; the same table again costs nothing."""
        if frames is not self._loaded:
            self._ask(Load(block=frames.block, offsets=frames.offsets, lengths=frames.lengths), Done)
            self._loaded = frames

    def run(
        self, request: Run, *, longest_s: float, on_sample: Callable[[Sample], None] | None = None
    ) -> tuple[Measured, tuple[Sample, ...]]:
        """Send the loaded frames once; the raw measurement and its live samples.

        Ctrl-C stops the engine, waits for its end, and goes on as KeyboardInterrupt.
        """
        with self._turn():
            self._samples = []
            self._send(request)
            deadline = time.monotonic() + longest_s + ANSWER_WITHIN_S
            try:
                return self._finish(deadline, on_sample), tuple(self._samples)
            except KeyboardInterrupt:
                self.stop()
                self._finish(time.monotonic() + STOP_WITHIN_S, None)
                raise

    def stop(self) -> None:
        """End the run in progress; harmless when there is none."""
        if not (self._closed or self._lost):
            self._send(Stop())

    def close(self) -> None:
        """End the agent and with it all that it owns; harmless twice."""
        if not self._closed:
            self._closed = True
            self._process.end()

    def _greet(self) -> None:
        spoken = self._ask(Hello(version=PROTOCOL_VERSION), Welcome).version
        if spoken != PROTOCOL_VERSION:
            raise LabError(f"agent speaks protocol {spoken}, not {PROTOCOL_VERSION}: run `make setup`")

    def _finish(self, deadline: float, on_sample: Callable[[Sample], None] | None) -> Measured:
        while True:
            answer = self._receive(deadline)
            if isinstance(answer, Live):
                self._samples.append(answer.sample)
                if on_sample is not None:
                    on_sample(answer.sample)
            else:
                return _expected(answer, Measured)

    def _ask(self, request: Message, kind: type[M]) -> M:
        with self._turn():
            self._samples = []
            self._send(request)
            return _expected(self._receive(time.monotonic() + ANSWER_WITHIN_S), kind)

    def _send(self, message: Message) -> None:
        try:
            with self._sending:
                self._channel.send(message)
        except Closed as gone:
            raise self._gone() from gone

    def _receive(self, deadline: float) -> Message:
        try:
            answer = self._channel.receive(max(0.0, deadline - time.monotonic()))
        except Closed as gone:
            raise self._gone() from gone
        if answer is None:
            self._lost = True
            self.close()
            raise AgentLostError(
                f"agent did not answer within {ANSWER_WITHIN_S:.0f} s and was ended; open the rig again",
                samples=self._samples,
                stderr_tail=self._process.last_words(),
            )
        return answer

    def _gone(self) -> AgentLostError:
        self._lost = True
        return AgentLostError(
            f"agent ended while it was needed ({self._process.how_it_ended()}); its namespaces are gone with "
            f"it: open the rig again. {len(self._samples)} samples of the run were received",
            samples=self._samples,
            stderr_tail=self._process.last_words(),
        )

    def _turn(self) -> _Turn:
        if self._closed:
            raise LabError("this rig is closed; open it again with labkit.rig(...)")
        if self._lost:
            raise self._gone()
        return _Turn(self._busy)


class _Turn:
    """Holds the agent for one request; a second thread is told that it is busy."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RigBusyError("the rig is busy with another run; stop it, or wait for its end")

    def __exit__(self, *exc: object) -> None:
        self._lock.release()


def _expected(answer: Message, kind: type[M]) -> M:
    if isinstance(answer, Failed):
        raise _error(answer)
    if not isinstance(answer, kind):
        raise LabError(
            f"agent answered {type(answer).__name__} where {kind.__name__} was due; run `make setup`"
        )
    return answer


def _error(failed: Failed) -> LabError:
    """The error of that name with the kernel's words; an unknown name is a plain LabError."""
    kind = getattr(labkit.errors, failed.kind, LabError)
    if not (isinstance(kind, type) and issubclass(kind, LabError)) or kind is AgentLostError:
        kind = LabError
    return kind(failed.message, errno=failed.errno, kernel_text=failed.kernel_text)
