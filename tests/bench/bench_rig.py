"""What the lab itself costs around real packets: import, rig up, work around a trial, live sampling."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from labkit.analysis.pairs import Ratio, compare_pairs
from labkit.records import Workload
from labkit.rigs import veth
from labkit.rigs.assemble import SAMPLE_EVERY_NS
from labkit.traffic.flows import udp_flow
from labkit.units import NS_PER_S
from tests.bench.script import Absolute, at_most, main

IMPORT = "import time; t = time.perf_counter(); import labkit; print((time.perf_counter() - t) * 1e3)"
NEVER_NS = 3600 * NS_PER_S
WORKLOAD = Workload(udp_flow(frame_bytes=60, flows=64), engine="sendmmsg")


def measure(pairs: int, limit: int) -> Iterator[Ratio | Absolute]:
    """Each figure with its goal."""
    yield at_most("import labkit", import_ms, 150, "ms")
    yield at_most("veth rig up", rig_up_ms, 1000, "ms")
    with veth.VethRig() as rig:
        rig.run(WORKLOAD, duration_s=0.5)
        yield at_most("work around a trial, settling included", lambda: around_ms(rig), 50, "ms")
        yield compare_pairs(
            lambda: ns_per_packet(rig, SAMPLE_EVERY_NS),
            lambda: ns_per_packet(rig, NEVER_NS),
            goal=1.01,
            pairs=pairs,
            limit=limit,
            name="ns/packet with live samples / without",
        )


def import_ms() -> float:
    """Milliseconds of `import labkit` in a fresh interpreter."""
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


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
    trial = rig.run(WORKLOAD, duration_s=0.4, sample_every_ns=sample_every_ns)
    if trial.ns_per_packet is None:
        raise RuntimeError(f"nothing was sent: {trial.difference_reason}")
    return trial.ns_per_packet


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
