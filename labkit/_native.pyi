"""
Native fast path of labkit: frame tables, send loops and the simulated NIC.
"""

from collections.abc import Sequence
import enum


def monotonic_ns() -> int:
    """CLOCK_MONOTONIC in nanoseconds."""

class StopFlag:
    """Ends a running engine within 10 ms; set from any thread."""

    def __init__(self) -> None: ...

    def set(self) -> None:
        """Ask the engine to end."""

    def is_set(self) -> bool:
        """Whether the end was asked for."""

class Progress:
    """Counts of a running engine, readable from any thread."""

    def __init__(self) -> None: ...

    def store(self, sent: int, refused: int) -> None:
        """Called by the engine once a batch."""

    def pace(self, start_ns: int, frame_ns: float) -> None:
        """Called once, before the first call of a paced run."""

    @property
    def start_ns(self) -> int | None:
        """
        CLOCK_MONOTONIC at which frame 0 of a paced run is due; None before and of other runs.
        """

    @property
    def frame_ns(self) -> float | None:
        """Nanoseconds by which each frame is due later."""

    @property
    def sent(self) -> int:
        """Frames sent since the run began."""

    @property
    def refused(self) -> int:
        """Frames refused since the run began."""

class FrameTable:
    """Frames ready to send; owns a copy of what it is given."""

    def __init__(self, block: bytes | bytearray | memoryview, offsets: bytes | bytearray | memoryview, lengths: bytes | bytearray | memoryview) -> None:
        """
        Copy frames from one block; native unsigned 64-bit offsets and 32-bit lengths.
        """

    def __len__(self) -> int: ...

    @property
    def block_bytes(self) -> int:
        """Size of the block in bytes."""

class TxReport:
    """What an engine did; times are CLOCK_MONOTONIC."""

    @property
    def sent(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def refused_by_errno(self) -> dict[int, int]: ...

    @property
    def super_packets(self) -> int | None: ...

    @property
    def partial_returns(self) -> int: ...

    @property
    def calls(self) -> int: ...

    @property
    def start_ns(self) -> int: ...

    @property
    def end_ns(self) -> int: ...

    @property
    def cpu_ns(self) -> int: ...

    @property
    def involuntary_switches(self) -> int: ...

    @property
    def qdisc_bypass(self) -> bool: ...

    @property
    def zero_copy(self) -> bool | None: ...

    @property
    def fatal_errno(self) -> int | None: ...

    @property
    def gaps(self) -> list[tuple[int, int]] | None:
        """Of a paced run: smallest nanoseconds of a bucket, and its calls."""

    @property
    def burst_frames(self) -> int | None: ...

    @property
    def ended_by(self) -> str: ...

class RingGeometry:
    """The slots of tx_ring's ring, in whole blocks."""

    def __init__(self, *, slots: int, slot_bytes: int, block_bytes: int) -> None: ...

class XskGeometry:
    """The ring of an AF_XDP socket, and its memory."""

    def __init__(self, *, ring_frames: int, slots: int, slot_bytes: int, chunk_bytes: int, memory_bytes: int) -> None: ...

class TxConfig:
    """What an engine is asked."""

    def __init__(self, *, ifindex: int, batch: int, count: int | None = None, duration_ns: int | None = None, rate_pps: float | None = None, cpu: int | None = None, qdisc_bypass: bool = False, stamp: bool = False, queue: int = 0, ring: RingGeometry = ..., xsk: XskGeometry = ...) -> None: ...

def send(table: FrameTable, config: TxConfig, stop: StopFlag, progress: Progress) -> TxReport:
    """Send the table's frames over and over, one send() a frame."""

def sendmmsg(table: FrameTable, config: TxConfig, stop: StopFlag, progress: Progress) -> TxReport:
    """Send the table's frames over and over, a batch a sendmmsg()."""

def tx_ring(table: FrameTable, config: TxConfig, stop: StopFlag, progress: Progress) -> TxReport:
    """Send them through a mapped ring, a batch a kick."""

def gso(table: FrameTable, config: TxConfig, stop: StopFlag, progress: Progress) -> TxReport:
    """Send the table's UDP frames over and over, a batch a super-packet."""

def af_xdp(table: FrameTable, config: TxConfig, stop: StopFlag, progress: Progress) -> TxReport:
    """Send them through an AF_XDP socket, a batch a wake-up."""

def xdp_live(table: FrameTable, config: TxConfig, stop: StopFlag, progress: Progress) -> TxReport:
    """Send them as live frames of an XDP program, a batch a bpf() call."""

OPERATIONS_PER_TURN: int = 8

class Microcost:
    """One operation whose cost can be timed."""

    @property
    def name(self) -> str: ...

    @property
    def how(self) -> str: ...

    @property
    def source(self) -> str: ...

class MicrocostBlock:
    """One operation many times, timed as a whole."""

    @property
    def elapsed_ns(self) -> int: ...

    @property
    def done(self) -> int: ...

    @property
    def involuntary_switches(self) -> int: ...

def microcosts() -> list[Microcost]:
    """The operations that `microcost_block` takes."""

def shared_line() -> Microcost:
    """What `shared_line_block` does."""

def microcost_block(name: str, count: int, cpu: int) -> MicrocostBlock:
    """`count` operations on one CPU."""

def shared_line_block(count: int, cpu: int, other_cpu: int, within_ns: int) -> MicrocostBlock:
    """
    `count` transfers of a cache line between two CPUs, or fewer when the time runs out.
    """

class SimModeration(enum.Enum):
    """When the card raises an interrupt."""

    INTERVAL = 0

    DYNAMIC = 1

    HOLD_OFF = 2

class SimWhenFull(enum.Enum):
    """What a sender does that finds its queue stopped."""

    SPIN = 0

    REFUSE = 1

    QUEUE = 2

class SimModerationConfig:
    """Moderation of one direction; ps."""

    def __init__(self) -> None: ...

    @property
    def kind(self) -> SimModeration: ...

    @kind.setter
    def kind(self, arg: SimModeration, /) -> None: ...

    @property
    def period(self) -> int: ...

    @period.setter
    def period(self, arg: int, /) -> None: ...

    @property
    def frames(self) -> int: ...

    @frames.setter
    def frames(self, arg: int, /) -> None: ...

class SimConfig:
    """What the simulated NIC is asked; every time in picoseconds."""

    def __init__(self) -> None: ...

    @property
    def duration(self) -> int: ...

    @duration.setter
    def duration(self, arg: int, /) -> None: ...

    @property
    def warmup(self) -> int: ...

    @warmup.setter
    def warmup(self, arg: int, /) -> None: ...

    @property
    def count(self) -> int: ...

    @count.setter
    def count(self, arg: int, /) -> None: ...

    @property
    def lanes(self) -> int: ...

    @lanes.setter
    def lanes(self, arg: int, /) -> None: ...

    @property
    def samples(self) -> int: ...

    @samples.setter
    def samples(self, arg: int, /) -> None: ...

    @property
    def trace(self) -> int: ...

    @trace.setter
    def trace(self, arg: int, /) -> None: ...

    @property
    def seed(self) -> int: ...

    @seed.setter
    def seed(self, arg: int, /) -> None: ...

    @property
    def tx_ring(self) -> int: ...

    @tx_ring.setter
    def tx_ring(self, arg: int, /) -> None: ...

    @property
    def frame_bytes(self) -> int: ...

    @frame_bytes.setter
    def frame_bytes(self, arg: int, /) -> None: ...

    @property
    def wire(self) -> int: ...

    @wire.setter
    def wire(self, arg: int, /) -> None: ...

    @property
    def fetch(self) -> int: ...

    @fetch.setter
    def fetch(self, arg: int, /) -> None: ...

    @property
    def write_back(self) -> int: ...

    @write_back.setter
    def write_back(self, arg: int, /) -> None: ...

    @property
    def drop_interrupt_every(self) -> int: ...

    @drop_interrupt_every.setter
    def drop_interrupt_every(self, arg: int, /) -> None: ...

    @property
    def carrier_lost_at(self) -> int: ...

    @carrier_lost_at.setter
    def carrier_lost_at(self, arg: int, /) -> None: ...

    @property
    def stop_descriptors(self) -> int: ...

    @stop_descriptors.setter
    def stop_descriptors(self, arg: int, /) -> None: ...

    @property
    def wake_descriptors(self) -> int: ...

    @wake_descriptors.setter
    def wake_descriptors(self, arg: int, /) -> None: ...

    @property
    def clean_limit(self) -> int: ...

    @clean_limit.setter
    def clean_limit(self, arg: int, /) -> None: ...

    @property
    def tx_moderation(self) -> SimModerationConfig: ...

    @tx_moderation.setter
    def tx_moderation(self, arg: SimModerationConfig, /) -> None: ...

    @property
    def rx_moderation(self) -> SimModerationConfig: ...

    @rx_moderation.setter
    def rx_moderation(self, arg: SimModerationConfig, /) -> None: ...

    @property
    def shared_vector(self) -> bool: ...

    @shared_vector.setter
    def shared_vector(self, arg: bool, /) -> None: ...

    @property
    def packet(self) -> int: ...

    @packet.setter
    def packet(self, arg: int, /) -> None: ...

    @property
    def burst_ps(self) -> int: ...

    @burst_ps.setter
    def burst_ps(self, arg: int, /) -> None: ...

    @property
    def call_ps(self) -> int: ...

    @call_ps.setter
    def call_ps(self, arg: int, /) -> None: ...

    @property
    def doorbell(self) -> int: ...

    @doorbell.setter
    def doorbell(self, arg: int, /) -> None: ...

    @property
    def burst(self) -> int: ...

    @burst.setter
    def burst(self, arg: int, /) -> None: ...

    @property
    def batch(self) -> int: ...

    @batch.setter
    def batch(self, arg: int, /) -> None: ...

    @property
    def clean(self) -> int: ...

    @clean.setter
    def clean(self, arg: int, /) -> None: ...

    @property
    def interrupt(self) -> int: ...

    @interrupt.setter
    def interrupt(self, arg: int, /) -> None: ...

    @property
    def repoll(self) -> int: ...

    @repoll.setter
    def repoll(self, arg: int, /) -> None: ...

    @property
    def cached(self) -> int: ...

    @cached.setter
    def cached(self, arg: int, /) -> None: ...

    @property
    def cache_miss(self) -> int: ...

    @cache_miss.setter
    def cache_miss(self, arg: int, /) -> None: ...

    @property
    def shared_line(self) -> int: ...

    @shared_line.setter
    def shared_line(self, arg: int, /) -> None: ...

    @property
    def locked_stall(self) -> int: ...

    @locked_stall.setter
    def locked_stall(self, arg: int, /) -> None: ...

    @property
    def sends(self) -> bool: ...

    @sends.setter
    def sends(self, arg: bool, /) -> None: ...

    @property
    def injects(self) -> bool: ...

    @injects.setter
    def injects(self, arg: bool, /) -> None: ...

    @property
    def when_full(self) -> SimWhenFull: ...

    @when_full.setter
    def when_full(self, arg: SimWhenFull, /) -> None: ...

    @property
    def queue_limit(self) -> int: ...

    @queue_limit.setter
    def queue_limit(self, arg: int, /) -> None: ...

    @property
    def gap(self) -> int: ...

    @gap.setter
    def gap(self, arg: int, /) -> None: ...

    @property
    def bql(self) -> bool: ...

    @bql.setter
    def bql(self, arg: bool, /) -> None: ...

    @property
    def bql_stops(self) -> bool: ...

    @bql_stops.setter
    def bql_stops(self, arg: bool, /) -> None: ...

    @property
    def bql_min(self) -> int: ...

    @bql_min.setter
    def bql_min(self, arg: int, /) -> None: ...

    @property
    def bql_max(self) -> int: ...

    @bql_max.setter
    def bql_max(self, arg: int, /) -> None: ...

    @property
    def bql_hold(self) -> int: ...

    @bql_hold.setter
    def bql_hold(self, arg: int, /) -> None: ...

    @property
    def rx_ring(self) -> int: ...

    @rx_ring.setter
    def rx_ring(self, arg: int, /) -> None: ...

    @property
    def rx_budget(self) -> int: ...

    @rx_budget.setter
    def rx_budget(self, arg: int, /) -> None: ...

    @property
    def arrival_gap(self) -> int: ...

    @arrival_gap.setter
    def arrival_gap(self, arg: int, /) -> None: ...

    @property
    def poisson(self) -> bool: ...

    @poisson.setter
    def poisson(self, arg: bool, /) -> None: ...

    @property
    def receive(self) -> int: ...

    @receive.setter
    def receive(self, arg: int, /) -> None: ...

    @property
    def window(self) -> int: ...

    @window.setter
    def window(self, arg: int, /) -> None: ...

    @property
    def ack_every(self) -> int: ...

    @ack_every.setter
    def ack_every(self, arg: int, /) -> None: ...

    @property
    def ack_delay(self) -> int: ...

    @ack_delay.setter
    def ack_delay(self, arg: int, /) -> None: ...

    @property
    def ack_jitter(self) -> int: ...

    @ack_jitter.setter
    def ack_jitter(self, arg: int, /) -> None: ...

    @property
    def small_queue(self) -> int: ...

    @small_queue.setter
    def small_queue(self, arg: int, /) -> None: ...

class SimLane:
    """What one simulated CPU and its queue pair did."""

    @property
    def counts(self) -> dict[str, int]: ...

    @property
    def waiting_ps(self) -> float: ...

    @property
    def uncleaned_ps(self) -> float: ...

    @property
    def most_in_flight(self) -> int: ...

    @property
    def bql_limit(self) -> int: ...

    @property
    def itr(self) -> int: ...

class SimSample:
    """
    Counts of all lanes at one simulated time, and the first one's byte queue limits.
    """

    @property
    def at(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def received(self) -> int: ...

    @property
    def bql_limit(self) -> int: ...

    @property
    def bql_inflight(self) -> int: ...

class SimTracePoint:
    """The first lane's ring at one simulated time."""

    @property
    def at(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def uncleaned(self) -> int: ...

    @property
    def interrupt(self) -> bool: ...

    @property
    def bql_limit(self) -> int: ...

    @property
    def bql_inflight(self) -> int: ...

class SimReport:
    """What the simulation counted."""

    @property
    def lanes(self) -> list[SimLane]: ...

    @property
    def samples(self) -> list[SimSample]: ...

    @property
    def trace(self) -> list[SimTracePoint]: ...

    @property
    def latency(self) -> list[int]: ...

    @property
    def carrier_lost(self) -> bool: ...

def simulate(config: SimConfig) -> SimReport:
    """
    Run the simulated NIC; ValueError for a config that no card could have.
    """

def histogram_floor(bucket: int) -> int:
    """Smallest value of a histogram's bucket."""

class RxReport:
    """What one socket of a receiving sink saw."""

    @property
    def received(self) -> int: ...

    @property
    def foreign(self) -> int: ...

    @property
    def corrupted(self) -> int: ...

    @property
    def distinct(self) -> int: ...

    @property
    def duplicates(self) -> int: ...

    @property
    def reordered(self) -> int: ...

    @property
    def beyond_window(self) -> int: ...

    @property
    def kernel_dropped(self) -> int: ...

    @property
    def latency_most_ns(self) -> int: ...

    @property
    def cpu_ns(self) -> int: ...

    @property
    def drained(self) -> bool: ...

    @property
    def latency_ns(self) -> list[tuple[int, int]]:
        """Smallest value of each bucket that was hit, and how often."""

class RxRing:
    """A receive ring in TPACKET_V3 on one interface."""

    def __init__(self, table: FrameTable, sender: Progress, *, ifindex: int, addresses: bool, content: bool, numbered: bool, first_number: int, burst_frames: int | None, promiscuous: bool, block_bytes: int, blocks: int, retire_ms: int) -> None:
        """Open it; frames are kept from now on."""

    def share(self, group: int | None) -> int:
        """
        Join a group of sockets, or begin one with None; its number comes back.
        """

    def run(self, stop: StopFlag, cpu: int | None) -> RxReport:
        """
        Receive on this thread until the stop flag, then what has arrived by then.
        """

    def close(self) -> None:
        """Close it; what it counted stays."""

    @property
    def received(self) -> int:
        """Frames of ours so far, readable from any thread."""

class RxSocket:
    """A packet socket that is read by recvmmsg()."""

    def __init__(self, table: FrameTable, sender: Progress, *, ifindex: int, addresses: bool, content: bool, numbered: bool, first_number: int, burst_frames: int | None, promiscuous: bool, batch: int, buffer_bytes: int) -> None:
        """Open it; frames are kept from now on."""

    def share(self, group: int | None) -> int:
        """
        Join a group of sockets, or begin one with None; its number comes back.
        """

    def run(self, stop: StopFlag, cpu: int | None) -> RxReport:
        """
        Receive on this thread until the stop flag, then what has arrived by then.
        """

    def close(self) -> None:
        """Close it; what it counted stays."""

    @property
    def received(self) -> int:
        """Frames of ours so far, readable from any thread."""

class XdpDrop:
    """An XDP program that counts and drops what an interface receives."""

    def __init__(self, ifindex: int) -> None:
        """Attach it in this thread's network namespace."""

    def detach(self) -> None:
        """Take it off; the count stays."""

    @property
    def received(self) -> int:
        """Frames so far."""

def numbers_itself(table: FrameTable) -> bool:
    """Whether the frames carry pktgen's header with the numbers 0, 1, 2, ..."""

def count_arrivals(table: FrameTable, frames: Sequence[bytes], *, addresses: bool, content: bool, numbered: bool, first_number: int = 0) -> RxReport:
    """What a receiving sink reports of these frames, in this order."""

class StreamConfig:
    """What a stream between two connected sockets is asked."""

    def __init__(self, *, send_fd: int, receive_fd: int, message_bytes: int, count: int | None = None, duration_ns: int | None = None, send_cpu: int | None = None, receive_cpu: int | None = None, interval_ns: int, most_intervals: int) -> None: ...

class TcpFacts:
    """What the kernel tells of a connection in the end."""

    @property
    def retransmits(self) -> int: ...

    @property
    def rtt_us(self) -> int: ...

    @property
    def cwnd_segments(self) -> int: ...

    @property
    def mss_bytes(self) -> int: ...

    @property
    def data_segments(self) -> int: ...

class StreamReport:
    """What a stream did; times are CLOCK_MONOTONIC."""

    @property
    def bytes_sent(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def writes(self) -> int: ...

    @property
    def short_writes(self) -> int: ...

    @property
    def waits(self) -> int: ...

    @property
    def start_ns(self) -> int: ...

    @property
    def written_ns(self) -> int: ...

    @property
    def end_ns(self) -> int: ...

    @property
    def send_cpu_ns(self) -> int: ...

    @property
    def receive_cpu_ns(self) -> int: ...

    @property
    def involuntary_switches(self) -> int: ...

    @property
    def drained(self) -> bool: ...

    @property
    def send_errno(self) -> int | None: ...

    @property
    def receive_errno(self) -> int | None: ...

    @property
    def tcp(self) -> TcpFacts | None: ...

    @property
    def intervals(self) -> list[tuple[int, int]]: ...

    @property
    def ended_by(self) -> str: ...

MOST_MESSAGE_BYTES: int = 16777216

def tcp_stream(config: StreamConfig, stop: StopFlag) -> StreamReport:
    """
    Write from this thread and read on another, until count, duration, stop or an error.
    """
