"""What the lab itself costs around real packets: import, rig up, work around a trial, live sampling."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from unittest import mock

from pairs import Figure, absolute, compare_pairs

from labkit.records import Workload
from labkit.rigs import veth
from labkit.traffic.flows import udp_flow
from labkit.units import NS_PER_S

RUNS = 10
IMPORT = "import time; t = time.perf_counter(); import labkit; print((time.perf_counter() - t) * 1e3)"
NEVER_NS = 3600 * NS_PER_S
WORKLOAD = Workload(flow=udp_flow(frame_bytes=60, flows=64), engine="sendmmsg")


def measure() -> Iterator[Figure]:
    """Yield each figure with its goal."""
    yield absolute("import labkit", median(import_ms), "ms", at_most=150)
    yield absolute("veth rig up", median(rig_up_ms), "ms", at_most=1000)
    with veth.VethRig() as rig:
        rig.run(WORKLOAD, duration_s=0.5)
        yield absolute(
            "work around a trial, settling included", median(lambda: around_ms(rig)), "ms", at_most=50
        )
        yield compare_pairs(
            lambda: ns_per_packet(rig, veth.SAMPLE_EVERY_NS),
            lambda: ns_per_packet(rig, NEVER_NS),
            goal=1.01,
            name="ns/packet with live samples / without",
        ).figure()


def median(run: Callable[[], float]) -> float:
    """Median of ten runs."""
    return statistics.median(run() for _ in range(RUNS))


def import_ms() -> float:
    """Milliseconds of `import labkit` in a fresh interpreter."""
    told = subprocess.run(
        [sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True, timeout=60
    )
    return float(told.stdout)


def rig_up_ms() -> float:
    """Milliseconds from nothing to a rig that answers."""
    started = time.perf_counter()
    with veth.VethRig():
        return (time.perf_counter() - started) * 1e3


def around_ms(rig: veth.VethRig) -> float:
    """Milliseconds that a checked trial of 0.2 s takes beyond its sending."""
    started = time.perf_counter()
    trial = rig.run(WORKLOAD, duration_s=0.2)
    return (time.perf_counter() - started) * 1e3 - trial.elapsed_ns / 1e6


def ns_per_packet(rig: veth.VethRig, sample_every_ns: int) -> float:
    """Nanoseconds a packet, by the device's counter, of one trial of 0.4 s."""
    with mock.patch.object(veth, "SAMPLE_EVERY_NS", sample_every_ns):
        trial = rig.run(WORKLOAD, duration_s=0.4)
    if trial.ns_per_packet is None:
        raise RuntimeError(f"nothing was sent: {trial.difference_reason}")
    return trial.ns_per_packet
