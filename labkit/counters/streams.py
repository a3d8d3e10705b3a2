"""Figures of a TCP stream as ``netperf -cC`` reports them. Pure arithmetic.

Utilisation is the share of time that the CPUs of one side are busy, 100 % being all of them; service demand
is the CPU time that a kilobyte of 1024 bytes cost there, in microseconds (manual of netperf 2.7: "CPU
Utilization", "Global Command-line Options" -c and -C; netlib.c, calc_service_demand). So

    service demand = utilisation / 100 * CPUs * 10^6 / (throughput * 10^6 / 8 / 1024)

with throughput in 10^6 bits a second. The published figures of gianfar (p1010, one core) are exactly this
with one CPU at either side: so is labkit's CPU percentage one of one CPU, that which a side was kept on.
"""

from __future__ import annotations

from typing import Final

from labkit.units import NS_PER_S, NS_PER_US

KILOBYTE: Final = 1024


def throughput_mbit(received_bytes: int, elapsed_ns: int) -> float | None:
    """10^6 bits a second of what the reading application got; None when no time passed."""
    return received_bytes * 8 * NS_PER_S / elapsed_ns / 1e6 if elapsed_ns > 0 else None


def cpu_percent(busy_ns: int, elapsed_ns: int, cpus: int = 1) -> float | None:
    """Share of `cpus` CPUs that was busy, in percent; None when no time passed."""
    return 100 * busy_ns / (elapsed_ns * cpus) if elapsed_ns > 0 else None


def service_demand_us_per_kb(busy_ns: int, received_bytes: int) -> float | None:
    """Microseconds of CPU time for 1024 bytes; None when nothing came."""
    return busy_ns / NS_PER_US / (received_bytes / KILOBYTE) if received_bytes > 0 else None


def demand_of_utilisation(percent: float, mbit: float, cpus: int = 1) -> float:
    """The same from a utilisation and a throughput, as netperf computes it."""
    return percent / 100 * cpus * 1e6 / (mbit * 1e6 / 8 / KILOBYTE)
