"""The client's end of the stream, on threads of its own, where no interrupt can tear a message.

Python raises KeyboardInterrupt in the main thread between any two instructions: between reading bytes and
keeping them, between writing a part and counting it. Other threads are never interrupted.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

from labkit.agent.channel import END, LONGEST_WAIT_S, Channel, Closed
from labkit.agent.protocol import Answer, Message
from labkit.errors import LabError

Arrived: TypeAlias = Message | Closed | LabError


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

    def within_s(self, longest_s: float) -> float:
        """Longest wait for the answer to what works for `longest_s`, in seconds of this machine."""
        ...

    def needed(self) -> AbstractContextManager[None]:
        """Within the block it is to work; outside of it, it may rest."""
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


class Line:
    """Whole messages to and from an agent; may be interrupted at any instruction without harm.

    Parameters
    ----------
    read_fd, write_fd : int
        Ends of the byte stream; the line works on duplicates, which it closes itself.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._leaving: SimpleQueue[bytes] = SimpleQueue()
        self._arrived: SimpleQueue[Arrived] = SimpleQueue()
        own_read_fd, own_write_fd = os.dup(read_fd), os.dup(write_fd)
        self._channel = Channel(own_read_fd, own_write_fd, Answer)
        weakref.finalize(self, self._leaving.put, END)
        # neither thread knows the line: it can go, and take the agent with it, while they wait
        _start("agent-writer", _write_all, self._channel, self._leaving, own_write_fd)
        _start("agent-reader", _read_all, self._channel, self._arrived, own_read_fd)

    def send(self, message: Message) -> None:
        """Hand one message over; a LabError says when it is too long, a dead agent shows in `receive`."""
        self._leaving.put(self._channel.encode(message))

    def receive(self, timeout_s: float) -> Message | None:
        """Next message, or None when none came within `timeout_s`.

        Raises
        ------
        Closed
            The stream ended; so says every later call.
        LabError
            What arrived is not of this protocol.
        """
        try:
            arrived = self._arrived.get(timeout=min(timeout_s, LONGEST_WAIT_S))
        except Empty:
            return None
        if isinstance(arrived, Exception):
            self._arrived.put(arrived)
            raise arrived
        return arrived

    def close(self) -> None:
        """Tell the agent to go and give the descriptors back; harmless twice."""
        self._leaving.put(END)


def _start(name: str, work: object, *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, name=name, daemon=True).start()  # type: ignore[arg-type]


def _write_all(channel: Channel, leaving: SimpleQueue[bytes], write_fd: int) -> None:
    try:
        open_ = True
        while open_:
            encoded = leaving.get()
            channel.write(encoded)
            open_ = encoded != END
            del encoded  # a frame table is some 100 MB
    except (Closed, OSError):
        pass  # the reader tells
    finally:
        os.close(write_fd)


def _read_all(channel: Channel, arrived: SimpleQueue[Arrived], read_fd: int) -> None:
    try:
        while True:
            message = channel.receive()
            if message is not None:
                arrived.put(message)
    except (Closed, LabError) as end:
        arrived.put(end)
    except OSError as broken:
        arrived.put(LabError("agent protocol: the stream cannot be read", errno=broken.errno))
    finally:
        os.close(read_fd)


def end(line: Line, process: Process, owner_pid: int) -> None:
    """End the agent; a forked process leaves its parent's alone."""
    if os.getpid() == owner_pid:
        line.close()
        process.end()
