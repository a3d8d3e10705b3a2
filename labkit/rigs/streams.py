"""A TCP stream on a real rig: what it may be asked, and what its trial tells beyond packets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from labkit.counters.streams import cpu_percent, service_demand_us_per_kb, throughput_mbit
from labkit.engines.base import EngineReport
from labkit.engines.stream_records import StreamReport
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import RECEIVING_SINKS, STREAM_NAMES, Scalar
from labkit.records import Frames, RigInfo, Traffic, Workload
from labkit.rigs.peer_counter import PeerRule
from labkit.units import ETHERNET_HEADER_BYTES

NO_SOCKET: Final = ("ifb", *RECEIVING_SINKS)
"""Sinks that take frames before a socket could, or have no receiving end."""
RULE: Final = PeerRule(
    counters=(), note="segments end in a socket, which no counter of the receiving device tells apart"
)
ONE_MACHINE: Final = (
    "both ends are one machine: local is the CPU of the writer, on which the kernel also takes segments in "
    "at the receiving end unless told otherwise, remote that of the reader; each is busy with whatever ran "
    "there"
)
OF_A_MIX: Final = ("shortest_frame_bytes", "mean_frame_bytes", "mean_wire_bytes", "sizes")
ONE_CPU: Final = "both ends share one CPU, which is local; there is no remote one"


def check_stream(info: RigInfo, workload: Workload, *, simulated: bool) -> None:
    """Raise what an engine of streams cannot do on a real rig.

    Raises
    ------
    CapabilityMissingError
        Several CPUs, or a sink other than the stack's own sockets.
    WorkloadError
        A write of no bytes.
    """
    if simulated or workload.engine not in STREAM_NAMES:
        return
    engine = f"rig '{info.name}': engine '{workload.engine}'"
    if workload.message_bytes is not None and workload.message_bytes < 1:
        raise WorkloadError(f"message_bytes {workload.message_bytes}: give 1 or more")
    if (workload.cpus or 1) > 1:
        raise CapabilityMissingError(
            f"{engine} is one stream with a writer and a reader on a CPU each, not {workload.cpus} of them; "
            "leave cpus out"
        )
    if workload.sink in NO_SOCKET:
        raise CapabilityMissingError(
            f"{engine} writes to a socket of the receiving end's stack, and sink '{workload.sink}' has none; "
            f"take sink '{info.sinks[0]}'"
        )


def frame_bytes_of(engine: str, frames: Frames, settings: Mapping[str, Scalar]) -> int:
    """Length of the longest frame without FCS: a stream's are as long as the MTU allows."""
    mtu = settings.get("mtu")
    if engine in STREAM_NAMES and isinstance(mtu, int):
        return mtu + ETHERNET_HEADER_BYTES
    return frames.longest_bytes


def flow_of(engine: str, flow: Traffic) -> dict[str, Any]:
    """What is told of a flow; lengths of a mix are not those of a stream, whose frames the stack makes."""
    told = flow.describe()
    if engine not in STREAM_NAMES:
        return told
    return {name: value for name, value in told.items() if name not in OF_A_MIX}


def byte_counted(report: EngineReport) -> bool:
    """Whether both ends of a stream counted bytes: then these are held against each other, not packets."""
    return report.stream is not None and report.stream.bytes_sent is not None


def stream_reconciled(stream: StreamReport) -> bool:
    """Whether every byte that was written was read, up to the stream's end."""
    return stream.drained is True and stream.bytes_sent == stream.bytes_received


def stream_difference(report: EngineReport, stream: StreamReport) -> str | None:
    """Why not every byte arrived, or why the stream ended early; None where nothing is wrong."""
    reasons = []
    if report.fatal_errno is not None:
        reasons.append(f"writing ended early ({report.fatal_errno})")
    if stream.receive_errno is not None:
        reasons.append(f"reading ended early ({stream.receive_errno})")
    missing = (stream.bytes_sent or 0) - (stream.bytes_received or 0)
    if missing > 0:
        cause = "" if stream.receive_errno else ": still on their way when waiting for them ended"
        reasons.append(f"{missing} bytes written and never read{cause}")
    elif missing < 0:
        reasons.append(f"{-missing} bytes read more than were written")
    elif not stream.drained and not reasons:
        reasons.append("every byte was read, but the stream's end never came")
    return "; ".join(reasons) or None


def stream_told(report: EngineReport, frame_bytes: int, device_sent: int | None) -> dict[str, Any]:
    """What stands under ``environment["tcp"]`` of a trial; None is not known.

    The first five names are those of the published figures of gianfar, and mean what netperf's do
    (`labkit.counters.streams`). ``device_mbit`` are the bits a second that the sending device counted,
    headers included: the one figure that streams of other programs have too. ``intervals`` are pairs of
    nanoseconds since the start and bytes read by then.
    """
    stream = report.stream
    if stream is None:
        return {}
    told: dict[str, Any] = {
        **_figures(stream, report.elapsed_ns),
        "bytes_sent": stream.bytes_sent,
        "bytes_received": stream.bytes_received,
        "retransmits": stream.retransmits,
        "intervals": [list(pair) for pair in stream.intervals],
        "message_bytes": stream.message_bytes,
        "mss_bytes": stream.mss_bytes,
        "rtt_us": stream.rtt_us,
        "cwnd_segments": stream.cwnd_segments,
        "waits": stream.waits,
        "drain_ns": None if stream.written_ns is None else report.end_ns - stream.written_ns,
        "cpu_local": stream.send_cpu,
        "cpu_remote": stream.receive_cpu,
        "thread_local_ns": stream.send_cpu_ns,
        "thread_remote_ns": stream.receive_cpu_ns,
        "device_mbit": _mbit(stream.device_bytes, stream.device_ns),
    }
    if stream.bytes_sent is not None:
        told["cpus_are"] = ONE_CPU if stream.receive_cpu is None else ONE_MACHINE
    whole = bool(device_sent) and (stream.device_bytes or 0) > frame_bytes * (device_sent or 0)
    are = {"device_packets_are": "super-packets"} if whole else {}
    return {"tcp": told, **are}


def _figures(stream: StreamReport, elapsed_ns: int) -> dict[str, float | None]:
    """What netperf tells, of both sides."""
    local, remote = (_no_more(busy, elapsed_ns) for busy in (stream.busy_send_ns, stream.busy_receive_ns))
    return {
        "throughput_mbit": _mbit(stream.bytes_received, elapsed_ns),
        "cpu_local_pct": None if local is None else cpu_percent(local, elapsed_ns),
        "cpu_remote_pct": None if remote is None else cpu_percent(remote, elapsed_ns),
        "sdem_local_us_per_kb": _demand(local, stream.bytes_received),
        "sdem_remote_us_per_kb": _demand(remote, stream.bytes_received),
    }


def _no_more(busy_ns: int | None, elapsed_ns: int) -> int | None:
    """Busy time without what a tick of 10 ms holds of the time before and after."""
    return None if busy_ns is None else min(busy_ns, elapsed_ns)


def _demand(busy_ns: int | None, received: int | None) -> float | None:
    return None if busy_ns is None or received is None else service_demand_us_per_kb(busy_ns, received)


def _mbit(counted: int | None, elapsed_ns: int | None) -> float | None:
    return None if counted is None or elapsed_ns is None else throughput_mbit(counted, elapsed_ns)
