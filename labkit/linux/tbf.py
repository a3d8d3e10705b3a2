"""The bucket of the queueing discipline `tbf`. Pure arithmetic."""

from __future__ import annotations

from typing import Final

TBF_BURST_BYTES: Final = 1600


def tbf_burst_bytes(bytes_per_s: int) -> int:
    """A burst that still holds `TBF_BURST_BYTES` once it has become whole microseconds at that rate.

    Pyroute2 tells the kernel a time and cuts it off (calc_xmittime): at 1 Gbit/s 1600 bytes would become
    1500, and tbf drops every frame that is longer than its burst (net/sched/sch_tbf.c, tbf_enqueue).
    """
    if bytes_per_s <= 0:
        return TBF_BURST_BYTES
    whole_us = -(-TBF_BURST_BYTES * 1_000_000 // bytes_per_s)
    return max(TBF_BURST_BYTES, whole_us * bytes_per_s // 1_000_000 + 1)
