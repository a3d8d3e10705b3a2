"""Captures as traffic: pcap files in and out. The client reads them; the agent gets frames."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from labkit.errors import LabError, WorkloadError
from labkit.records import Traffic
from labkit.traffic.pcap import pcap_bytes, read_pcap
from labkit.traffic.sizes import sizes_of
from labkit.traffic.table import FrameTable
from labkit.units import MIN_FRAME_BYTES

LARGEST_FILE_BYTES: Final = 1 << 28
"""More would not fit into one message to the agent."""


@dataclass(frozen=True, slots=True, eq=False)
class PcapFlow:
    """Frames of a capture in its order, over and over; the time between them is the workload's, not theirs.

    Attributes
    ----------
    name : str
        The file's name, without its folder.
    pad_bytes : int or None
        Shorter frames got zero bytes up to this length.
    """

    name: str
    pad_bytes: int | None
    _table: FrameTable = field(repr=False)
    _described: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = sizes_of(self._table)
        described = {
            "packet": f"capture {self.name}",
            "layers": [],
            "vary": {},
            "seed": None,
            **sizes,
            "pad_bytes": self.pad_bytes,
            "sha256": hashlib.sha256(self._table.lengths + self._table.block).hexdigest(),
        }
        object.__setattr__(self, "_described", described)

    @property
    def frame_bytes(self) -> int:
        """Length of the longest frame in bytes, FCS excluded; `describe` has the mean."""
        return self._table.longest_bytes

    def with_frame_bytes(self, frame_bytes: int) -> NoReturn:
        """Refuse: a capture has lengths of its own."""
        raise WorkloadError(
            f"{self.name}: a capture has its own lengths, leave frame_bytes {frame_bytes} out"
        )

    def describe(self) -> dict[str, Any]:
        """Say in plain JSON values what is sent, lengths, their means and a digest of all bytes included."""
        return dict(self._described)

    def table(self) -> FrameTable:
        """Every frame in the capture's order."""
        return self._table


def pcap_flow(path: str | os.PathLike[str], *, pad_bytes: int | None = MIN_FRAME_BYTES) -> PcapFlow:
    """Traffic of the frames in a classic pcap file (microseconds or nanoseconds, either byte order).

    Frames below `pad_bytes` get zero bytes up to it, as every flow's do; None sends them as captured.
    Addresses and checksums stay as captured: a sender with checksum offload leaves wrong ones in a capture.

    Raises
    ------
    WorkloadError
        The file cannot be read, or `read_pcap` refuses what it holds; the message names the file.
    """
    file = Path(path)
    try:
        table = read_pcap(_content(file))
    except WorkloadError as fault:
        raise WorkloadError(f"{file}: {fault.message}", errno=fault.errno) from fault
    if pad_bytes is not None and table.shortest_bytes < pad_bytes:
        table = FrameTable.of(table.frame(index).ljust(pad_bytes, b"\0") for index in range(len(table)))
    return PcapFlow(file.name, pad_bytes, table)


def write_pcap(flow: Traffic, path: str | os.PathLike[str]) -> None:
    """Write every frame of the flow once, in order, into a classic pcap file; time stamps are 0.

    Raises
    ------
    LabError
        The file cannot be written.
    """
    try:
        Path(path).write_bytes(pcap_bytes(flow.table()))
    except OSError as fault:
        raise LabError(f"{path}: cannot be written; give another place", errno=fault.errno) from fault


def _content(file: Path) -> bytes:
    """Bytes of a regular file; a pipe, which might never end, is none."""
    try:
        opened = open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))  # noqa: SIM115
    except (OSError, ValueError) as fault:
        number = fault.errno if isinstance(fault, OSError) else None
        raise WorkloadError("cannot be read; give the name of a pcap file", errno=number) from fault
    with opened:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise WorkloadError("is no regular file; give the name of a pcap file")
        if about.st_size > LARGEST_FILE_BYTES:
            raise WorkloadError(
                f"has {about.st_size} bytes, more than the {LARGEST_FILE_BYTES} that a flow takes; "
                "cut it: editcap -r IN OUT 1-100000"
            )
        return opened.read(LARGEST_FILE_BYTES)
