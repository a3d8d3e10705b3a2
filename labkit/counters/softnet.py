"""``/proc/net/softnet_stat``: what each CPU's receive queue did. Kernels differ in the number of columns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from labkit.errors import CapabilityMissingError


class SoftnetRow(msgspec.Struct, frozen=True, kw_only=True):
    """One CPU's packet processing; what the kernel does not report is None.

    Attributes
    ----------
    cpu : int
        CPU of the row.
    cpu_assumed : bool
        Whether `cpu` is only the row's number: kernels before 5.10 do not say, and leave out offline CPUs.
    processed, dropped : int
        Packets taken from the queue, and dropped because it was full (``netdev_max_backlog``).
    time_squeeze : int
        Times that packets were left when budget or time was over.
    received_rps, flow_limit : int or None
        Wake-ups by another CPU (RPS), and drops by the flow limit.
    backlog, input_queue, process_queue : int or None
        Packets that wait now: all, and its two parts.
    """

    cpu: int
    cpu_assumed: bool
    processed: int
    dropped: int
    time_squeeze: int
    received_rps: int | None
    flow_limit: int | None
    backlog: int | None
    input_queue: int | None
    process_queue: int | None


def parse_softnet(text: str) -> tuple[SoftnetRow, ...]:
    """Rows of ``softnet_stat`` in the kernel's order (softnet_seq_show in net/core/net-procfs.c).

    Raises
    ------
    CapabilityMissingError
        A row that is not at least three hexadecimal columns.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(_row(position, line) for position, line in enumerate(lines))


def _row(position: int, line: str) -> SoftnetRow:
    try:
        columns = [int(word, 16) for word in line.split()]
        processed, dropped, time_squeeze = columns[:3]
    except ValueError as error:
        raise CapabilityMissingError(
            f"softnet_stat row {position}: {line!r} is not hexadecimal columns; "
            "this kernel's file is not known"
        ) from error
    cpu = _column(columns, 12)
    return SoftnetRow(
        cpu=position if cpu is None else cpu,
        cpu_assumed=cpu is None,
        processed=processed,
        dropped=dropped,
        time_squeeze=time_squeeze,
        received_rps=_column(columns, 9),
        flow_limit=_column(columns, 10),
        backlog=_column(columns, 11),
        input_queue=_column(columns, 13),
        process_queue=_column(columns, 14),
    )


def _column(columns: Sequence[int], index: int) -> int | None:
    return columns[index] if index < len(columns) else None
