"""Native fast path of labkit: frame tables and send loops."""



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
    def fatal_errno(self) -> int | None: ...

    @property
    def ended_by(self) -> str: ...

def send(table: FrameTable, stop: StopFlag, progress: Progress, *, ifindex: int, batch: int, count: int | None = None, duration_ns: int | None = None, rate_pps: float | None = None, cpu: int | None = None, qdisc_bypass: bool = False) -> TxReport:
    """Send the table's frames over and over, one send() a frame."""

def sendmmsg(table: FrameTable, stop: StopFlag, progress: Progress, *, ifindex: int, batch: int, count: int | None = None, duration_ns: int | None = None, rate_pps: float | None = None, cpu: int | None = None, qdisc_bypass: bool = False) -> TxReport:
    """Send the table's frames over and over, a batch a sendmmsg()."""
