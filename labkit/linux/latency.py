"""Keeps CPUs out of slow idle states for a while."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec


class LatencyHold(msgspec.Struct, frozen=True, kw_only=True):
    """Whether CPUs are kept awake, and why not."""

    held: bool
    reason: str | None


@contextmanager
def cpus_kept_awake(device: Path = Path("/dev/cpu_dma_latency")) -> Iterator[LatencyHold]:
    """Allow no idle state with an exit latency above 0 us, on any CPU, inside the block.

    The kernel keeps the wish of 0, a signed 32-bit number, while the descriptor is open, and forgets it when
    the process dies (Documentation/power/pm_qos_interface.rst). Where it is not permitted nothing is held.
    """
    try:
        descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as refused:
        yield LatencyHold(held=False, reason=f"{device}: {refused.strerror}")
        return
    try:
        yield _wished(descriptor, device)
    finally:
        os.close(descriptor)


def _wished(descriptor: int, device: Path) -> LatencyHold:
    try:
        os.write(descriptor, struct.pack("=i", 0))
    except OSError as refused:
        return LatencyHold(held=False, reason=f"{device}: {refused.strerror}")
    return LatencyHold(held=True, reason=None)
