"""The words of the lab as frozen records: what is sent, what was measured.

Units live in the names. Absent is ``None``, never 0. A measured field has no default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from labkit.errors import WorkloadError
from labkit.factors import Scalar, typed

SCHEMA_VERSION: Final = 1
"""Version of the trial record; a reader refuses a newer one."""

Privilege: TypeAlias = Literal["root", "userns", "sudo", "none"]
Mark: TypeAlias = Literal[
    "cpu-shared",
    "kernel-log",
    "rate-missed",
    "device-reset",
    "frozen",
    "ended-early",
    "no-carrier",
    "nothing-sent",
    "unsettled",
]


class Frames(Protocol):
    """Frames ready to send: one block of bytes with offsets and lengths (`traffic.table.FrameTable`)."""

    @property
    def block(self) -> bytes:
        """All frames, back to back."""
        ...

    @property
    def offsets(self) -> bytes:
        """Start of each frame in `block`: native unsigned 64-bit values."""
        ...

    @property
    def lengths(self) -> bytes:
        """Length of each frame in bytes: native unsigned 32-bit values."""
        ...

    @property
    def longest_bytes(self) -> int:
        """Length of the longest frame; 0 when there is none."""
        ...

    @property
    def shortest_bytes(self) -> int:
        """Length of the shortest frame; 0 when there is none."""
        ...

    def __len__(self) -> int: ...

    def frame(self, index: int) -> bytes:
        """Bytes of one frame."""
        ...


class Traffic(Protocol):
    """What a workload sends; `labkit.Flow` is one."""

    @property
    def frame_bytes(self) -> int:
        """Length of the longest frame in bytes, FCS excluded."""
        ...

    def with_frame_bytes(self, frame_bytes: int) -> Traffic:
        """Give the same traffic in frames of `frame_bytes`."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say in plain JSON values what is sent; equal descriptions send equal bytes."""
        ...

    def table(self) -> Frames:
        """Build every frame once."""
        ...


class Workload(msgspec.Struct, frozen=True):
    """What is sent and how.

    Attributes
    ----------
    flow : Traffic
        Frames to send.
    engine : str
        One of `ENGINE_NAMES`.
    batch : int or None
        Frames handed over per system call, 1 to 1024, of xdp_live up to 16384; None is the engine's own
        default. For pktgen its burst: frames a doorbell. For gso segments of a super-packet, 1 to 128.
    rate_pps : float or None
        Asked rate in packets per second; None sends as fast as possible.
    qdisc_bypass : bool
        Skip the queueing discipline (PACKET_QDISC_BYPASS).
    cpu : int or None
        CPU of the sender; None lets the rig choose and record one.
    sink : str or None
        Where frames end, one of `labkit.factors.SINK_NAMES`; None is the rig's default.
    clone_skb : int or None
        pktgen: how often one packet buffer is sent again; 0 makes one for each frame, None is 100 000, as in
        the published tables (on real rigs 0 where a buffer cannot be sent again).
    xmit_mode : str or None
        pktgen: one of `XMIT_MODES`; None is ``start_xmit``.
    delay_ns : int or None
        pktgen: time between two frames; None and 0 are none. Those of a burst leave together, as many such
        times behind the last one.
    pktgen : str or None
        pktgen: further commands in its own words, ``;`` between them, as in ``flag UDPSRC_RND; vlan_id 5``;
        they are written after those that the flow and the fields above stand for.
    message_bytes : int or None
        tcp: bytes that one write hands to the socket; None is 16 384, as netperf has it on Linux. The flow is
        not sent then: the stack makes frames as long as the MTU allows, and a run's count is one of writes.
    cpus : int or None
        CPUs that send, each with a thread and a queue of its own; None is one.
    ring_frames : int or None
        tx_ring and af_xdp on real rigs: frames that the ring holds, a power of two; None is the engine's
        usual size.
    stamp : bool
        Write pktgen's header, with a running sequence number and a time stamp, into the UDP payload of each
        frame as it is sent.
    realtime_priority : int or None
        SCHED_FIFO priority of the sending threads, 1 to 99; None is the ordinary scheduler.
    sink_cpu : int or None
        CPU of a receiving sink; None is another one than the sender's, where there is one.
    sink_sockets : int or None
        Sockets, each with a thread, that a receiving sink spreads frames over (PACKET_FANOUT); None is one.
    sink_block_bytes : int or None
        rx_ring: bytes of a block; None is the sink's usual size.
    sink_retire_ms : int or None
        rx_ring: milliseconds after which a block that is not full is handed over; None is the sink's usual
        time.

    Raises
    ------
    WorkloadError
        A value of the wrong kind, such as a batch of ``"64"`` or of 1.5.
    """

    flow: Traffic
    engine: str
    batch: int | None = None
    rate_pps: float | None = None
    qdisc_bypass: bool = False
    cpu: int | None = None
    sink: str | None = None
    clone_skb: int | None = None
    xmit_mode: str | None = None
    delay_ns: int | None = None
    pktgen: str | None = None
    message_bytes: int | None = None
    cpus: int | None = None
    ring_frames: int | None = None
    stamp: bool = False
    realtime_priority: int | None = None
    sink_cpu: int | None = None
    sink_sockets: int | None = None
    sink_block_bytes: int | None = None
    sink_retire_ms: int | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.flow, "table"):
            raise WorkloadError(f"flow {self.flow!r}: give lk.udp_flow(...) or lk.Flow(packet)")
        for name in self.__struct_fields__[1:]:
            value = getattr(self, name)
            own = typed(name, value)
            if own is not value:  # a number of numpy, which no message to an agent can carry
                msgspec.structs.force_setattr(self, name, own)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at one instant of a running trial, each counted from the trial's start; None is not known.

    The two of byte queue limits are no counts but what was in force and in flight at that instant, of the
    sender's first queue.
    """

    at_ns: int
    engine_sent: int | None
    engine_refused: int | None
    device_sent: int | None
    peer_received: int | None
    bql_limit_bytes: int | None = None
    bql_inflight_bytes: int | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One measured run: counts from independent places, time, environment, and what limited it."""

    rig: str
    engine: str
    sink: str | None
    frame_bytes: int
    batch: int | None
    duration_s: float | None
    rate_pps: float | None
    elapsed_ns: int | None
    cpu_ns: int | None
    pps: float | None
    ns_per_packet: float | None
    engine_sent: int | None
    engine_refused: int | None
    refused_by_errno: dict[str, int]
    partial_returns: int | None
    segments_sent: int | None
    qdisc_dropped: int | None
    device_sent: int | None
    device_dropped: int | None
    peer_received: int | None
    peer_dropped: int | None
    reconciled: bool | None
    difference_reason: str | None
    limiter: str | None
    marks: list[str]
    settings_asked: dict[str, Scalar]
    settings_accepted: dict[str, Scalar]
    settings_effective: dict[str, Scalar]
    environment: dict[str, Any]
    privilege: Privilege
    schema_version: int
    samples: tuple[Sample, ...]

    @property
    def place(self) -> str:
        """The rig's name for people, with what has to be known of its numbers."""
        return named(self.rig, caveat_of(self.environment))

    def __repr__(self) -> str:
        speed = "pps unknown" if self.pps is None else f"{self.pps:,.0f} pps"
        speed += "" if self.ns_per_packet is None else f", {self.ns_per_packet:,.1f} ns/packet"
        agrees = {True: "reconciled", False: "NOT RECONCILED", None: "reconciled unknown"}[self.reconciled]
        marks = ", ".join(self.marks) or "none"
        return f"<Trial on {self.place}, {self.engine}: {speed}, {agrees}, marks: {marks}>"

    def as_json(self) -> dict[str, Any]:
        """One flat JSON object under the names that users rely on; samples are kept apart."""
        flat: dict[str, Any] = msgspec.to_builtins(self)
        del flat["samples"]
        return flat


WHAT_IF, EMULATED = "what-if", "emulated time"
"""Nobody ever measured such a machine; times are an emulator's, and say nothing of silicon."""


def caveat_of(environment: Mapping[str, Any]) -> str | None:
    """What has to be said wherever a number of a trial with this environment is shown; mostly nothing."""
    if environment.get("what_if"):
        return WHAT_IF
    return EMULATED if environment.get("emulated") else None


def named(rig: str, caveat: str | None) -> str:
    """`rig` with its caveat, where there is one."""
    return rig if caveat is None else f"{rig} ({caveat})"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A point that could not be measured, and why."""

    error: str
    reason: str


class RigInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a rig is and can do: read by sweeps, panels and `labkit rigs`.

    Attributes
    ----------
    name : str
        What `labkit.rig` takes.
    title : str
        One line for people.
    engines, sinks : tuple of str
        What the workload may name here.
    factors : tuple of str
        Settings that this rig has.
    """

    name: str
    title: str
    engines: tuple[str, ...]
    sinks: tuple[str, ...]
    factors: tuple[str, ...]
