"""The notebook's side of an agent: typed requests, live samples, and a clear word when it dies."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable

import msgspec

from labkit.agent import protocol
from labkit.agent.answers import M, beside_of, expected, longest_of
from labkit.agent.channel import Closed
from labkit.agent.line import Line, Process, end
from labkit.errors import AgentLostError, LabError, RigBusyError
from labkit.factors import Scalar
from labkit.nic.put_back import PutBack
from labkit.records import Frames, Sample


class AgentClient:
    """Requests to one agent; one at a time, `stop` from any thread.

    An interrupt (Ctrl-C) may come at any instruction: answers carry their request's number, so one that
    nobody waited for is passed over, and what an interrupted request left undone goes before the next.

    Attributes
    ----------
    level : int
        How many settings changes should be in force; `restore` undoes those beyond.
    stop_asked : bool
        Whether `stop` was called since the caller took it back, as it does before it prepares a run.

    Raises
    ------
    AgentLostError
        From every method: the agent ended or fell silent; carries the samples received so far.
    RigBusyError
        From every method but `stop` and `close`: another thread is in the middle of a request.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._line = Line(process.read_fd, process.write_fd)
        self._end = weakref.finalize(self, end, self._line, process, os.getpid())
        self._owner_pid = os.getpid()
        self._turns: list[object] = []
        self._number = 0
        self.level = 0
        self.stop_asked = False
        self._level_at_agent = 0
        self._told: list[str] = []
        self._sending = False
        self._samples: list[Sample] = []
        self._lost = False
        self._when_lost = "open the rig again"
        self._loaded: Frames | None = None
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def open(
        self, settings: dict[str, Scalar], *, force_user_namespace: bool, peer_carrier: bool
    ) -> protocol.Opened:
        """Make the veth rig with `settings` as its ground state."""
        request = protocol.Open(
            force_user_namespace=force_user_namespace, settings=settings, peer_carrier=peer_carrier
        )
        self._when_lost = "its namespaces are gone with it: open the rig again"
        return self._ask(request, protocol.Opened)

    def open_device(
        self, name: str, *, port: str | None, i_know: str | None, look_only: bool = False
    ) -> protocol.Opened:
        """Hold interface `name`; what a dead laboratory left on it is put back first, unless `look_only`."""
        ssh_connection = os.environ.get("SSH_CONNECTION")
        request = protocol.OpenDevice(
            name=name, port=port, i_know=i_know, look_only=look_only, ssh_connection=ssh_connection
        )
        self._when_lost = f"`labkit restore`, or opening {name} again, puts back what it left changed"
        return self._ask(request, protocol.Opened)

    def open_guest(self) -> protocol.Opened:
        """Hold the cards of the machine that the agent is alone on."""
        return self._ask(protocol.OpenGuest(), protocol.Opened)

    def restore_all(self) -> list[PutBack]:
        """Put back what dead laboratories left on any device; what became of each setting."""
        return self._ask(protocol.RestoreAll(), protocol.AllRestored).results

    def forget(self, device: str) -> list[PutBack]:
        """Dismiss what is kept of a device that is gone for good; each setting that is forgotten."""
        return self._ask(protocol.Forget(device=device), protocol.AllRestored).results

    def preview(self, settings: dict[str, Scalar]) -> str:
        """What applying `settings` would do; nothing is changed."""
        return "\n".join(self._ask(protocol.Preview(settings=settings), protocol.Told).lines)

    def look(self, sink: str) -> protocol.Opened:
        """State of the links that `sink` uses, read now."""
        return self._ask(protocol.Look(sink=sink), protocol.Opened)

    def apply(self, settings: dict[str, Scalar]) -> dict[str, Scalar]:
        """Turn settings, one level up; everything in force as read back.

        The agent keeps the originals until `restore`.
        """
        accepted = self._ask(protocol.Apply(settings=settings), protocol.Applied).accepted
        self.level += 1
        return accepted

    def restore(self) -> list[str]:
        """Put back what every `apply` beyond `level` changed; a line about each that is not as it was.

        With a lost or closed agent nothing is left to do.
        """
        if not (self._lost or self.closed):
            self._ask(protocol.Restore(level=self.level), protocol.Done)
        told, self._told = self._told, []
        return told

    def give_back(self) -> list[str]:
        """Put back whatever is still changed, to be asked before `close`; lines as those of `restore`.

        A forked process leaves that to its parent, and one whose other thread is in a run to the agent's end.
        """
        if self._level_at_agent == 0 or os.getpid() != self._owner_pid:
            return []
        self.level = 0
        with contextlib.suppress(RigBusyError):
            return self.restore()
        return []

    def load(self, frames: Frames) -> None:
        """Hand over the frames of the runs to come; the same table again costs nothing."""
        if frames is not self._loaded:
            self._loaded = None
            self._ask(
                protocol.Load(block=frames.block, offsets=frames.offsets, lengths=frames.lengths),
                protocol.Done,
            )
            self._loaded = frames

    def run(
        self, request: protocol.Run, *, longest_s: float, on_sample: Callable[[Sample], None] | None = None
    ) -> tuple[protocol.Measured, tuple[Sample, ...]]:
        """Send the loaded frames once; the raw measurement and its live samples.

        Whatever interrupts it (Ctrl-C, an error in `on_sample`) stops the engine and waits for its end.
        """
        measured = self._ask(request, protocol.Measured, longest_s=longest_s, on_sample=on_sample)
        return measured, tuple(self._samples)

    def stop(self) -> None:
        """End the run in progress, or the one that comes before `stop_asked` is taken back."""
        self.stop_asked = True
        if not (self.closed or self._lost):
            self._line.send(protocol.Stop())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._end.alive

    def close(self) -> None:
        """End the agent and with it all that it owns; harmless twice."""
        self._end()

    def _greet(self) -> None:
        spoken = self._ask(protocol.Hello(version=protocol.PROTOCOL_VERSION), protocol.Welcome).version
        if spoken != protocol.PROTOCOL_VERSION:
            raise LabError(
                f"agent speaks protocol {spoken}, not {protocol.PROTOCOL_VERSION}: run `make setup`"
            )

    def _ask(
        self,
        request: protocol.Message,
        kind: type[M],
        *,
        longest_s: float = 0.0,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> M:
        self._check_usable()
        turn = object()
        try:
            self._turns.append(turn)
            if self._turns[0] is not turn:
                raise RigBusyError("the rig is busy with another run; stop it, or wait for its end")
            with self._process.needed():
                self._catch_up(request)
                return self._exchange(request, kind, longest_s, on_sample)
        finally:
            # in line, not in a method: an interrupt comes at calls' ends, and this must not be missed
            if turn in self._turns:
                self._turns.remove(turn)

    def _catch_up(self, request: protocol.Message) -> None:
        """Do what an interrupted request left undone: an engine to stop, settings to put back."""
        if self._sending:
            self._end_run()
        if self._level_at_agent > self.level and not isinstance(request, protocol.Restore):
            self._exchange(protocol.Restore(level=self.level), protocol.Done)

    def _exchange(
        self,
        request: protocol.Message,
        kind: type[M],
        longest_s: float = 0.0,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> M:
        self._samples = []
        self._number = number = self._number + 1
        numbered = msgspec.structs.replace(request, number=number)
        if isinstance(request, protocol.Apply):
            self._level_at_agent = self.level + 1
        if not isinstance(request, protocol.Run):
            self._line.send(numbered)
            answer = self._answer(number, 0.0, None, longest_of(request))
        else:
            try:
                self._sending = True
                self._line.send(numbered)
                if self.stop_asked:  # before this run was there to be stopped
                    self._line.send(protocol.Stop())
                answer = self._answer(number, longest_s, on_sample, beside_of(request))
                self._sending = False
            except BaseException:
                self._end_run()
                raise
        if isinstance(request, protocol.Restore) and isinstance(answer, protocol.Done):
            self._level_at_agent = request.level
            self._told += answer.notes
        return expected(answer, kind)

    def _end_run(self) -> None:
        """Stop the engine and wait until the agent answers again."""
        if not (self._lost or self.closed):
            self._line.send(protocol.Stop())
            self._number = number = self._number + 1
            self._line.send(protocol.Hello(version=protocol.PROTOCOL_VERSION, number=number))
            self._answer(number, 0.0, None)
            self._sending = False

    def _answer(
        self, number: int, longest_s: float, on_sample: Callable[[Sample], None] | None, beside_s: float = 0.0
    ) -> protocol.Message:
        """Answer to request `number`; its live samples are kept, and older answers passed over."""
        deadline = time.monotonic() + self._process.within_s(longest_s) + beside_s
        while True:
            answer = self._receive(deadline)
            if answer.number != number:
                continue
            if not isinstance(answer, protocol.Live):
                return answer
            self._samples.append(answer.sample)
            if on_sample is not None:
                on_sample(answer.sample)

    def _receive(self, deadline: float) -> protocol.Message:
        try:
            answer = self._line.receive(max(0.0, deadline - time.monotonic()))
            while answer is None and time.monotonic() < deadline:
                answer = self._line.receive(max(0.0, deadline - time.monotonic()))
        except Closed as gone:
            if self.closed:
                raise LabError("the rig was closed in the middle of this; open it again") from gone
            raise self._gone() from gone
        if answer is None:
            self._lost = True
            self.close()
            raise AgentLostError(
                f"agent did not answer in time and was ended; {self._when_lost}",
                samples=self._samples,
                stderr_tail=self._process.last_words(),
            )
        return answer

    def _gone(self) -> AgentLostError:
        self._lost = True
        return AgentLostError(
            f"agent ended while it was needed ({self._process.how_it_ended()}); {self._when_lost}. "
            f"{len(self._samples)} samples of the run were received",
            samples=self._samples,
            stderr_tail=self._process.last_words(),
        )

    def _check_usable(self) -> None:
        if os.getpid() != self._owner_pid:
            raise LabError(
                f"this rig belongs to process {self._owner_pid}; a forked process opens one of its own"
            )
        if self.closed:
            raise LabError("this rig is closed; open it again with labkit.rig(...)")
        if self._lost:
            raise self._gone()
