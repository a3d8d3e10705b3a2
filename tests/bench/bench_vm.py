"""The emulated machine: how long it takes to be made and to come up, its ring sweep, whether boots agree."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from labkit.analysis.pairs import Ratio
from labkit.errors import CapabilityMissingError
from labkit.experiment.trial import run_trial
from labkit.guest.image import image
from labkit.records import Trial, Workload
from labkit.rigs.vm import VmRig
from labkit.traffic.flows import udp_flow
from tests.bench.script import Absolute, at_most, main

RINGS = (64, 128, 256, 1024)
FRAMES = 100_000
BOOTS = 2
PPS_WITHIN = 0.02
WORKLOAD = Workload(udp_flow(flows=1), engine="pktgen")


def measure(pairs: int, limit: int) -> Iterator[Ratio | Absolute]:
    """Each figure with its goal; no ratio is among them."""
    del pairs, limit
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        try:
            yield at_most("guest's kernel and start made", lambda: built_s(cache), 90, "s", runs=1)
        except CapabilityMissingError as absent:
            yield Absolute("vm rig", str(absent), "", "absent")
            return
        yield at_most("vm rig up", lambda: up_s(cache), 20, "s")
        with VmRig("e1000e", cache=cache) as rig:
            yield at_most("ring sweep 64, 128, 256, 1024", lambda: swept_s(rig), 30, "s")
        yield boots_agree(cache)


def built_s(cache: Path) -> float:
    """Seconds from an empty cache, the download included."""
    started = time.perf_counter()
    image(cache, tell=lambda _: None)
    return time.perf_counter() - started


def up_s(cache: Path) -> float:
    """Seconds from nothing to a rig that answers."""
    started = time.perf_counter()
    with VmRig("e1000e", cache=cache):
        return time.perf_counter() - started


def swept_s(rig: VmRig) -> float:
    """Seconds of the sweep, settings turned and put back at each level; the rig is up."""
    started = time.perf_counter()
    ring_table(rig)
    return time.perf_counter() - started


def ring_table(rig: VmRig) -> list[Trial]:
    """A trial of pktgen at each ring."""
    return [run_trial(rig, WORKLOAD, settings={"tx_ring": ring}, count=FRAMES) for ring in RINGS]


def boots_agree(cache: Path) -> Absolute:
    """Counts of fresh machines side by side, and the widest spread of a level's pps."""
    tables = []
    for _ in range(BOOTS):
        with VmRig("e1000e", cache=cache) as rig:
            tables.append(ring_table(rig))
    levels = list(zip(*tables, strict=True))
    spread = max(_spread([trial.pps or 0.0 for trial in level]) for level in levels)
    alike = all(len({_counts(trial) for trial in level}) == 1 for level in levels)
    counts = "; ".join(f"{ring}: {_counts(level[0])}" for ring, level in zip(RINGS, levels, strict=True))
    moved = [[str(trial.environment["push_back"]) for trial in level] for level in levels]
    restarts = "; ".join(map("/".join, moved))
    said = "identical" if alike else "DIFFER"
    value = f"counts {said} ({counts}), pps within {spread:.2%}, restarts {restarts}"
    met = alike and spread <= PPS_WITHIN
    return Absolute("two boots", value, "identical counts, pps within 2 %", "met" if met else "missed")


def _counts(trial: Trial) -> tuple[object, ...]:
    return (trial.engine_sent, trial.device_sent, trial.peer_received)


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


if __name__ == "__main__":
    raise SystemExit(main(__doc__, measure))
