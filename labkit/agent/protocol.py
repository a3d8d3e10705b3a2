"""Typed messages between the notebook's process and its agent.

No message carries a path, a command or a pickled object. The first message each way states the version.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from labkit.agent.queue_limits import ByteLimits
from labkit.agent.readings import Reading, Worker
from labkit.agent.sink_records import Arrived, SinkConfig
from labkit.engines.base import EngineConfig, EngineReport
from labkit.factors import Scalar
from labkit.linux.links import LinkFacts
from labkit.linux.perf_script import CpuSamples
from labkit.nic.put_back import PutBack
from labkit.records import Privilege, Sample

PROTOCOL_VERSION: Final = 8


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all messages; the class name travels as its tag.

    Attributes
    ----------
    number : int
        Which request this is, or which one it answers: the answer to a request that its asker gave up
        (Ctrl-C) must not pass for the answer to the next one.
    """

    number: int = 0


class Hello(Message, frozen=True, kw_only=True):
    """Client: first message. Answer: Welcome."""

    version: int


class Open(Message, frozen=True, kw_only=True):
    """Client: make the veth rig. Answer: Opened."""

    force_user_namespace: bool
    settings: dict[str, Scalar]
    peer_carrier: bool


class OpenDevice(Message, frozen=True, kw_only=True):
    """Client: hold an interface of the agent's network namespace. Answer: Opened.

    Attributes
    ----------
    port : str or None
        A second interface that frames arrive at, behind the name of its network namespace: ``peer/eth9``.
    i_know : str or None
        The interface's name once more, where something depends on it.
    look_only : bool
        Nothing will be turned, and what a dead laboratory left stays as it is.
    ssh_connection : str or None
        SSH_CONNECTION of the user's own process: sudo takes it away.
    """

    name: str
    port: str | None
    i_know: str | None
    look_only: bool
    ssh_connection: str | None


class OpenGuest(Message, frozen=True, kw_only=True):
    """Client: hold the cards of the machine that the agent is alone on. Answer: Opened."""


class RestoreAll(Message, frozen=True, kw_only=True):
    """Client: put back what dead laboratories left. Answer: AllRestored."""


class Forget(Message, frozen=True, kw_only=True):
    """Client: dismiss what is kept of a device that is gone for good. Answer: AllRestored.

    Attributes
    ----------
    device : str
        The name it had when it was changed.
    """

    device: str


class Preview(Message, frozen=True, kw_only=True):
    """Client: say what applying `settings` would do. Answer: Told."""

    settings: dict[str, Scalar]


class Look(Message, frozen=True, kw_only=True):
    """Client: read the state of the links that `sink` uses. Answer: Opened."""

    sink: str


class Load(Message, frozen=True, kw_only=True):
    """Client: keep these frames for the runs to come. Answer: Done."""

    block: bytes
    offsets: bytes
    lengths: bytes


class Apply(Message, frozen=True, kw_only=True):
    """Client: turn settings, originals kept. Answer: Applied."""

    settings: dict[str, Scalar]


class Restore(Message, frozen=True, kw_only=True):
    """Client: put back what every Apply beyond the first `level` changed. Answer: Done."""

    level: int


class Run(Message, frozen=True, kw_only=True):
    """Client: send the loaded frames once. Answers: Live, ..., Measured.

    Attributes
    ----------
    config : EngineConfig
        For all workers together: each has its share of count and rate.
    workers : int
        Senders, each with a thread, a CPU and a queue of its own.
    profile : bool
        Whether the senders' CPUs are to be sampled.
    """

    engine: str
    sink: str
    config: EngineConfig
    workers: int
    sample_every_ns: int
    peer_counters: list[str]
    sink_config: SinkConfig = SinkConfig()
    profile: bool = False


class Stop(Message, frozen=True, kw_only=True):
    """Client: end the run in progress. No answer of its own."""


class Welcome(Message, frozen=True, kw_only=True):
    """Agent: its side of the version, and who it is."""

    version: int
    pid: int


class Opened(Message, frozen=True, kw_only=True):
    """Agent: state of the rig.

    Attributes
    ----------
    interrupts : int or None
        How many `irq_affinity` turns, None where there is none.
    notes : list of str
        What people should know: settings put back when it was opened, and what this place lacks.
    machine : dict or None
        Facts of the agent's machine, where it is another one than the client's.
    """

    privilege: Privilege
    link: LinkFacts
    peer: LinkFacts | None
    peer_counters: list[str]
    settings: dict[str, Scalar]
    driver: str | None
    interrupts: int | None
    notes: list[str]
    machine: dict[str, str | int | None] | None = None


class Told(Message, frozen=True, kw_only=True):
    """Agent: lines for people."""

    lines: list[str]


class AllRestored(Message, frozen=True, kw_only=True):
    """Agent: what became of each setting that dead laboratories had left changed."""

    results: list[PutBack]


class Done(Message, frozen=True, kw_only=True):
    """Agent: done; `notes` say what people should know of it."""

    notes: list[str] = []


class Applied(Message, frozen=True, kw_only=True):
    """Agent: every setting in force, as read back."""

    accepted: dict[str, Scalar]


class Live(Message, frozen=True, kw_only=True):
    """Agent: one live sample of the run in progress."""

    sample: Sample


class Measured(Message, frozen=True, kw_only=True):
    """Agent: one run, raw.

    Attributes
    ----------
    report : EngineReport
        Of all workers together, from the first one's start to the last one's end.
    cpu : int or None
        CPU of the first worker.
    device, device_counter : str
        Whose counter says what left, and which.
    peer_device : str or None
        Whose counters say what arrived.
    arrived : Arrived or None
        What the sink saw, where it is one that receives.
    at_end : dict of str to int
        Device counters as the engine ended; what `after` has more left a queue later.
    settled : bool
        Whether the queue was empty and two reads in a row agreed in the end.
    byte_limits : list of ByteLimits
        Byte queue limits before and after; empty where nobody could look.
    samples : CpuSamples or None
        What the senders' CPUs did meanwhile, where a profile was wanted.
    """

    report: EngineReport
    workers: list[Worker]
    before: Reading
    device: str
    device_counter: str
    peer_device: str | None
    at_end: dict[str, int]
    after: Reading
    settled: bool
    carrier: bool
    cpu: int | None
    cpus_kept_awake: bool
    runqueue_wait_ns: int | None
    steal_ns: int | None
    kernel_warnings: list[str] | None
    arrived: Arrived | None = None
    byte_limits: list[ByteLimits] = []
    samples: CpuSamples | None = None


class Failed(Message, frozen=True, kw_only=True):
    """Agent: the request failed; the client raises the error of that name with the kernel's words kept."""

    kind: str
    message: str
    errno: int | None
    kernel_text: str | None


Request: TypeAlias = (
    Hello
    | Open
    | OpenDevice
    | OpenGuest
    | RestoreAll
    | Forget
    | Preview
    | Look
    | Load
    | Apply
    | Restore
    | Run
    | Stop
)
Answer: TypeAlias = Welcome | Opened | Told | AllRestored | Done | Applied | Live | Measured | Failed
