"""Starts the agent process and keeps its last words."""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Final

from labkit.agent.client import AgentClient
from labkit.agent.install import AGENT, installed_command
from labkit.errors import AgentLostError, CapabilityMissingError

STDERR_TAIL_BYTES = 16_384
EXIT_WITHIN_S = 3.0
ANSWER_WITHIN_S: Final = 10.0
"""Longest silence of a healthy agent; it comes on top of the time that a request takes by itself."""
WITHOUT_ROOT: Final = (
    f"run labkit as root, or let `sudo {Path(sys.executable).with_name('labkit')} install-agent` allow you "
    f"its agent; rigs 'veth' and 'sim:ixgbe' need no root"
)
"""What to do where sudo gives nothing."""

ROOT_EXIT_WITHIN_S = 60.0
"""One that turns the settings of a device puts them back before it ends, and links take their time."""


class AgentProcess:
    """The running agent: two pipes, and a ring buffer of what it wrote to standard error.

    Parameters
    ----------
    command : list of str
        Program and arguments.
    exit_within_s : float
        How long it may take to end once its input has ended.
    descriptors : sequence of int
        What else of this process's it is given.
    """

    def __init__(
        self, command: list[str], *, exit_within_s: float = EXIT_WITHIN_S, descriptors: Sequence[int] = ()
    ) -> None:
        self._exit_within_s = exit_within_s
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal reaches the agent as a Stop message only
            cwd="/",
            pass_fds=descriptors,
        )
        self._tail: collections.deque[bytes] = collections.deque()
        self._reader = threading.Thread(
            target=_keep_tail,
            args=(_stream(self._process.stderr), self._tail),
            name="agent-stderr",
            daemon=True,
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id of the agent."""
        return self._process.pid

    @property
    def read_fd(self) -> int:
        """Where its answers arrive."""
        return _stream(self._process.stdout).fileno()

    @property
    def write_fd(self) -> int:
        """Where requests go."""
        return _stream(self._process.stdin).fileno()

    def within_s(self, longest_s: float) -> float:
        """The time itself, and the longest silence of a healthy agent."""
        return longest_s + ANSWER_WITHIN_S

    def needed(self) -> AbstractContextManager[None]:
        """Nothing: an agent that is not asked anything sleeps."""
        return contextlib.nullcontext()

    def last_words(self) -> str:
        """The end of what it wrote to standard error; complete once it has ended."""
        self._reader.join(timeout=1.0)
        return b"".join(self._tail)[-STDERR_TAIL_BYTES:].decode(errors="replace")

    def how_it_ended(self) -> str:
        """One phrase: killed by which signal, or its exit status."""
        try:
            status = self._process.wait(timeout=EXIT_WITHIN_S)
        except subprocess.TimeoutExpired:
            return "it closed its stream without ending"
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def end(self) -> None:
        """Close its input, which ends it; kill it when that takes too long. Harmless twice."""
        for stream in (self._process.stdin, self._process.stdout):
            _stream(stream).close()
        try:
            self._process.wait(timeout=self._exit_within_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(PermissionError):  # root's, through sudo: it ends by itself, or never
                self._process.kill()
                self._process.wait()
        self._reader.join(timeout=1.0)
        _stream(self._process.stderr).close()


def start_agent(*, as_root: bool = False, state: Path | None = None) -> AgentProcess:
    """Start an agent: as this user, or as root, through `sudo -n` where this user is not root.

    Parameters
    ----------
    as_root : bool
        The agent needs root. The root-owned copy is preferred where there is one.
    state : Path or None
        Folder of its journal and locks instead of the system's; not through sudo, whose rule names all words.

    Raises
    ------
    CapabilityMissingError
        Root is needed and there is no sudo, or `state` is to go through it.
    """
    own = [sys.executable, *AGENT]
    if not _through_sudo(as_root=as_root):
        command = own if state is None else [*own, "--state", str(state)]
        return AgentProcess(command, exit_within_s=ROOT_EXIT_WITHIN_S if as_root else EXIT_WITHIN_S)
    if state is not None:
        raise CapabilityMissingError(f"agent: only root itself may name {state} as the agent's folder")
    try:
        return AgentProcess(["sudo", "-n", *(installed_command() or own)], exit_within_s=ROOT_EXIT_WITHIN_S)
    except FileNotFoundError as absent:
        raise CapabilityMissingError(
            f"a device needs root, and there is no sudo here; {WITHOUT_ROOT}"
        ) from absent


def connect_as_root(*, state: Path | None = None) -> AgentClient:
    """Client of a fresh agent that is root; see `start_agent`.

    Raises
    ------
    CapabilityMissingError
        sudo did not start the agent (a password, no rule), or the agent refused to be root from its folder.
    """
    process = start_agent(as_root=True, state=state)
    try:
        return AgentClient(process)
    except AgentLostError as lost:
        # a traceback is a fault of the agent's own: that one is shown as it is
        if not _through_sudo(as_root=True) or "Traceback" in lost.stderr_tail:
            raise
        words = "; ".join(lost.stderr_tail.split("\n")).strip("; ") or "no word why"
        raise CapabilityMissingError(
            f"a device needs root, and sudo did not start the agent ({words}); {WITHOUT_ROOT}"
        ) from lost


def _through_sudo(*, as_root: bool) -> bool:
    return as_root and os.geteuid() != 0


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("the agent was started without pipes")
    return stream


def _keep_tail(stream: IO[bytes], tail: collections.deque[bytes]) -> None:
    kept = 0
    while piece := os.read(stream.fileno(), 4096):
        tail.append(piece)
        kept += len(piece)
        while kept - len(tail[0]) >= STDERR_TAIL_BYTES:
            kept -= len(tail.popleft())
