"""What an engine is asked, what it reports, and what is wrong with a request before a socket is opened."""

from __future__ import annotations

import errno as errno_names
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from labkit._native import Progress, StopFlag
from labkit.engines.pktgen_told import PktgenTold
from labkit.engines.priority import check_priority
from labkit.engines.stream_records import StreamReport
from labkit.errors import CapabilityMissingError, LabError, WorkloadError
from labkit.records import Frames

EndedBy: TypeAlias = Literal["count", "duration", "stop", "error"]

MAX_BATCH: Final = 1024
"""Most messages one sendmmsg() takes (kernel: UIO_MAXIOV in __sys_sendmmsg; 2000 asked, 1024 done)."""

FATAL_ERRNOS: Final = frozenset(
    {errno_names.ENETDOWN, errno_names.ENXIO, errno_names.ENODEV, errno_names.EBADF, errno_names.EPERM}
)
"""The device or the socket is gone, or the process may not send: no later frame can fare better."""


class PktgenConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What only the kernel's pktgen is asked; see `labkit.records.Workload`."""

    clone_skb: int | None = None
    xmit_mode: str | None = None
    delay_ns: int | None = None
    commands: str | None = None


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is asked.

    Attributes
    ----------
    ifindex : int
        Interface number in the network namespace of the calling thread.
    batch : int
        Frames a system call, 1 to the engine's `max_batch`; for gso segments of a super-packet.
    count : int or None
        Frames to attempt, never more.
    duration_ns : int or None
        Length of the run; with `count`, whichever ends first. One of both is needed.
    rate_pps : float or None
        Asked rate; None sends as fast as possible. Below 50 000 a second frames leave one by one (those of a
        super-packet together), above it in batches; paced batches hold a millisecond of the rate at most.
    cpu : int or None
        CPU that the calling thread is pinned to during the run.
    qdisc_bypass : bool
        Ask for PACKET_QDISC_BYPASS; the report says whether the kernel granted it.
    ring_frames : int or None
        Slots of the ring of tx_ring or af_xdp; None gives it its usual size.
    queue : int
        TX queue of this sender, where the engine chooses one.
    stamp : bool
        Write pktgen's header with a running sequence and a time stamp into each frame's UDP payload.
    realtime_priority : int or None
        SCHED_FIFO priority of the sending thread, 1 to 99; None leaves the ordinary scheduler.
    pktgen : PktgenConfig
        What only pktgen is asked.
    message_bytes : int or None
        tcp: bytes of one write to the socket; None is the engine's own.
    """

    ifindex: int
    batch: int
    count: int | None = None
    duration_ns: int | None = None
    rate_pps: float | None = None
    cpu: int | None = None
    qdisc_bypass: bool = False
    ring_frames: int | None = None
    queue: int = 0
    stamp: bool = False
    realtime_priority: int | None = None
    pktgen: PktgenConfig = PktgenConfig()
    message_bytes: int | None = None


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine did.

    Attributes
    ----------
    sent : int or None
        Frames that a system call took; the device may still drop them. None where the engine cannot know.
    attempted : int or None
        Where `sent` is None: frames handed over, whatever became of them, if that is known.
    refused : int
        Frames that a call failed at, which were then skipped: its first, for gso the whole super-packet.
    refused_by_errno : dict
        The same by the error's symbol: ``{"EMSGSIZE": 1}``.
    super_packets : int or None
        What carried the frames of gso, each as one packet through the stack; None where each went alone.
    partial_returns : int
        Calls that took only some of their frames; sendmmsg hides the errno of the next.
    calls : int
        System calls made.
    start_ns, end_ns : int
        CLOCK_MONOTONIC just before the first and just after the last system call; a paced run ends with the
        last frame's slot, at its deadline or when it was stopped.
    cpu_ns : int
        CPU time of the sending thread.
    waited_ns : int or None
        Where the sender is another process: time that it was ready but waited for its CPU.
    involuntary_switches : int
        How often the thread lost its CPU against its will.
    qdisc_bypass : bool
        Whether frames skipped the queueing discipline: asked for and granted.
    fatal_errno : str or None
        Symbol of the error that ended the run early, counts kept.
    ended_by : str
        ``count``, ``duration``, ``stop`` or ``error``.
    gaps : list of (int, int) or None
        Of a paced run the times between the starts of successive calls: smallest nanoseconds of a bucket, and
        how many fell into it.
    burst_frames : int or None
        Of a paced run the most frames that left together.
    zero_copy : bool or None
        Of af_xdp whether the device read the frames where they lay; False where the kernel copied them.
    stream : StreamReport or None
        Of a TCP stream what its two ends did; None of frames.
    pktgen : PktgenTold or None
        What pktgen told beyond its counts.
    """

    sent: int | None
    refused: int
    refused_by_errno: dict[str, int]
    super_packets: int | None
    partial_returns: int
    calls: int
    start_ns: int
    end_ns: int
    cpu_ns: int
    involuntary_switches: int
    qdisc_bypass: bool
    fatal_errno: str | None
    ended_by: EndedBy
    attempted: int | None = None
    waited_ns: int | None = None
    gaps: list[tuple[int, int]] | None = None
    burst_frames: int | None = None
    zero_copy: bool | None = None
    stream: StreamReport | None = None
    pktgen: PktgenTold | None = None

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds from just before the first to just after the last system call."""
        return self.end_ns - self.start_ns


class Engine(Protocol):
    """A way to hand frames to the kernel."""

    @property
    def name(self) -> str:
        """What `labkit.engines.choose.choose` takes."""
        ...

    @property
    def default_batch(self) -> int:
        """Frames a call when neither the workload nor the frames say otherwise."""
        ...

    @property
    def max_batch(self) -> int:
        """Most frames a call."""
        ...

    def usual_batch(self, frames: Frames) -> int:
        """Frames a call when the workload names none: the default, or what these frames allow."""
        ...

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what is wrong with a request whatever the kernel would say."""
        ...

    def run(self, frames: Frames, config: EngineConfig, stop: StopFlag, progress: Progress) -> EngineReport:
        """Send `frames` in order, over and over, until count, duration, stop or a fatal error.

        Raises
        ------
        WorkloadError
            A request that makes no sense: batch, count, duration, rate, CPU, no frame.
        CapabilityMissingError
            No CAP_NET_RAW in this network namespace.
        LabError
            Any other reason why the socket could not be opened, with its errno.
        """
        ...


@runtime_checkable
class Together(Protocol):
    """An engine whose workers start and end as one: called once, from one thread, for all of them."""

    def run_all(
        self,
        frames: Frames,
        configs: Sequence[EngineConfig],
        stop: StopFlag,
        progresses: Sequence[Progress],
    ) -> list[EngineReport]:
        """Send as `Engine.run` says, a worker a config; a report of each in the same order."""
        ...


MAX_NS: Final = 10**16
"""Longest run, some 115 days; far below what 64 bits of nanoseconds hold."""
MAX_COUNT: Final = 2**63 - 1
MAX_C_INT: Final = 2**31 - 1


def check(engine: str, max_batch: int, frames: Frames, config: EngineConfig) -> None:
    """Raise `WorkloadError` for what is wrong with a request whatever the kernel would say."""
    _check_length(engine, config)
    if not 1 <= config.batch <= max_batch:
        limits = "exactly 1 frame" if max_batch == 1 else f"1 to {max_batch} frames"
        raise WorkloadError(f"{engine}: batch {config.batch}: this engine takes {limits} a call")
    if len(frames) == 0:
        raise WorkloadError(f"{engine}: the flow holds no frame; give it at least one")
    if config.rate_pps is not None and not (config.rate_pps > 0 and math.isfinite(config.rate_pps)):
        raise WorkloadError(
            f"{engine}: rate {config.rate_pps:g} pps: give more than 0, or none for full speed"
        )
    if not 1 <= config.ifindex <= MAX_C_INT:
        raise WorkloadError(f"{engine}: interface number {config.ifindex}: the kernel counts from 1")
    check_priority(engine, config.realtime_priority)
    if config.cpu is not None and not 0 <= config.cpu <= MAX_C_INT:
        raise WorkloadError(f"{engine}: CPU {config.cpu}: CPUs are numbered from 0")


def _check_length(engine: str, config: EngineConfig) -> None:
    if config.count is None and config.duration_ns is None:
        raise WorkloadError(f"{engine}: neither count nor duration given; the run would never end")
    if config.count is not None and not 0 <= config.count <= MAX_COUNT:
        raise WorkloadError(f"{engine}: count {config.count}: give 0 or more frames, up to {MAX_COUNT}")
    if config.duration_ns is not None and not 0 < config.duration_ns <= MAX_NS:
        raise WorkloadError(
            f"{engine}: duration {config.duration_ns} ns: give more than 0 and at most {MAX_NS}"
        )


@contextmanager
def explained(
    engine: str, ifindex: int, reasons: Mapping[int, str] | None = None, *, doing: str = "sending"
) -> Iterator[None]:
    """Turn what opening a socket or pinning a thread raises into labkit's errors.

    `reasons` has the words for an errno by which this engine cannot run here; `doing` is what it is for.
    """
    try:
        yield
    except ValueError as error:
        raise WorkloadError(f"{engine}: {error}") from error
    except OSError as error:
        if reasons and error.errno is not None and error.errno in reasons:
            raise CapabilityMissingError(f"{engine}: {reasons[error.errno]}", errno=error.errno) from error
        if isinstance(error, PermissionError):
            raise CapabilityMissingError(
                f"{engine}: a packet socket needs CAP_NET_RAW in its network namespace; "
                "use rig 'veth', which makes a namespace of its own",
                errno=error.errno,
            ) from error
        raise LabError(
            f"{engine}: no {doing} on interface number {ifindex}; is it still there?", errno=error.errno
        ) from error
