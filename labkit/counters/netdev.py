"""``/proc/net/dev``: the kernel's counters by interface name."""

from __future__ import annotations

import msgspec

from labkit.errors import CapabilityMissingError


class NetdevRow(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one interface in the order of the file."""

    name: str
    rx_bytes: int
    rx_packets: int
    rx_errors: int
    rx_dropped: int
    rx_fifo: int
    rx_frame: int
    rx_compressed: int
    rx_multicast: int
    tx_bytes: int
    tx_packets: int
    tx_errors: int
    tx_dropped: int
    tx_fifo: int
    tx_collisions: int
    tx_carrier: int
    tx_compressed: int


_COLUMNS = NetdevRow.__struct_fields__[1:]


def parse_netdev(text: str) -> dict[str, NetdevRow]:
    """Rows of ``/proc/net/dev`` by interface.

    A name may hold a colon (``bond0:1``), and older kernels put no blank behind the one that ends it: the
    last colon of a line does.

    Raises
    ------
    CapabilityMissingError
        A row with another number of columns.
    """
    rows = [_row(line) for line in text.splitlines() if ":" in line]
    return {row.name: row for row in rows}


def _row(line: str) -> NetdevRow:
    name, _, numbers = line.rpartition(":")
    try:
        values = dict(zip(_COLUMNS, map(int, numbers.split()), strict=True))
    except ValueError as error:
        raise CapabilityMissingError(
            f"net/dev: {line!r} has not {len(_COLUMNS)} numbers; this kernel's file is not known"
        ) from error
    return NetdevRow(name=name.strip(), **values)
