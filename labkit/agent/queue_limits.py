"""Byte queue limits of a device's first TX queue, as its files tell them at one instant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from labkit.linux import namespaces
from labkit.linux.queues import SYS, read_word

FIRST_QUEUE: Final = "queues/tx-0/byte_queue_limits"
TORN_BYTES: Final = 1 << 31
"""From here on `inflight` is no amount: bql_show_inflight (net/core/net-sysfs.c) subtracts two counters
without a lock, and shows what comes out below 0 as almost 2^32."""


class ByteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What net/core/net-sysfs.c shows of a queue's limits, in bytes; all None where it shows nothing.

    Attributes
    ----------
    limit_bytes : int or None
        In force now.
    inflight_bytes : int or None
        Queued, and not reported as completed by the driver.
    limit_min_bytes, limit_max_bytes : int or None
        Between which the limit moves.
    """

    limit_bytes: int | None = None
    inflight_bytes: int | None = None
    limit_min_bytes: int | None = None
    limit_max_bytes: int | None = None


def byte_limits(name: str, sys: Path = SYS) -> ByteLimits:
    """Limits of the first TX queue of `name`; four small files, or one look where there are none."""
    folder = sys / "class/net" / name / FIRST_QUEUE
    limit = _bytes(folder / "limit")
    if limit is None:
        return ByteLimits()
    inflight = _bytes(folder / "inflight")
    return ByteLimits(
        limit_bytes=limit,
        inflight_bytes=None if inflight is None or inflight >= TORN_BYTES else inflight,
        limit_min_bytes=_bytes(folder / "limit_min"),
        limit_max_bytes=_bytes(folder / "limit_max"),
    )


def sysfs_here() -> Path | None:
    """Root of a sysfs that shows this network namespace's devices; None where a container forbids it."""
    network = namespaces.current_network()
    try:
        return namespaces.sysfs_of(network)
    except OSError:
        return None
    finally:
        os.close(network)


def _bytes(path: Path) -> int | None:
    word = read_word(path)
    return None if word is None else int(word)
