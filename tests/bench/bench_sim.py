"""How fast the event loop and the closed law answer: CPU time, absolute goals.

``python -m tests.bench.bench_sim`` prints a JSON list of results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from labkit import _native
from labkit.experiment.published import compare_published
from labkit.paths import data_dir
from labkit.rigs.profiles import load_profiles
from labkit.simnic.config import config_of
from labkit.simnic.law import limits
from labkit.simnic.loop import simulate
from labkit.simnic.run import Run
from labkit.simnic.sender import Sender
from tests.bench.script import Absolute, at_most, main

PLAIN_NS, EVERYTHING_NS = 10, 50
"""CPU time of one simulated packet: 100 and 20 million a second."""
GRID_S = 2
"""CPU time of the 36 published points, a simulated second each."""
LAW_US = 5
"""CPU time of one of `LAW_SETTINGS` settings in one call of the law."""
LAW_SETTINGS = 1_000

PROFILES = load_profiles(data_dir() / "profiles")
PKTGEN = Sender(engine="pktgen")


def everything() -> _native.SimConfig:
    """Four CPUs that send in calls of 32 through qdiscs with BQL, share a line, and receive at random."""
    config = config_of(PROFILES["ixgbe"], {"tx_ring": 1024, "rx_usecs": 30}, PKTGEN, Run())
    config.lanes, config.shared_line = 4, 20_000
    config.when_full, config.queue_limit = _native.SimWhenFull.QUEUE, 1000
    config.bql = config.bql_stops = True
    config.call_ps, config.batch = 100_000, 32
    config.arrival_gap, config.poisson, config.receive = 1_000_000, True, 200_000
    config.packet = 300_000
    return config


def ns_per_packet(config: _native.SimConfig) -> Callable[[], float]:
    def run() -> float:
        started = time.process_time_ns()
        lanes = _native.simulate(config).lanes
        return (time.process_time_ns() - started) / sum(lane.counts["sent"] for lane in lanes)

    return run


def grid_s() -> float:
    """CPU time of the published points, packet by packet, in seconds."""
    settings = [(PROFILES[point.rig.removeprefix("sim:")], point.setting) for point in compare_published()]
    started = time.process_time()
    for profile, setting in settings:
        simulate(profile, setting, PKTGEN, Run(duration_s=1))
    return time.process_time() - started


def law_us() -> float:
    """CPU time of one setting in a call of the law for many, in microseconds."""
    rings = [64 + 4 * number for number in range(LAW_SETTINGS)]
    periods_ns = [10_240.0 + 1_000 * number for number in range(LAW_SETTINGS)]
    started = time.process_time_ns()
    limits(PROFILES["ixgbe"], tx_rings=rings, periods_ns=periods_ns)
    return (time.process_time_ns() - started) / LAW_SETTINGS / 1_000


def measure(_pairs: int, _limit: int) -> Iterator[Absolute]:
    """Each figure beside its goal."""
    plain = config_of(PROFILES["ixgbe"], {"tx_ring": 1024, "rx_usecs": 30}, PKTGEN, Run())
    yield at_most("a simulated packet, pktgen on one CPU", ns_per_packet(plain), PLAIN_NS, "ns")
    yield at_most("a simulated packet, everything on", ns_per_packet(everything()), EVERYTHING_NS, "ns")
    yield at_most("36 published points of 1 s each", grid_s, GRID_S, "s")
    yield at_most(f"the closed law, {LAW_SETTINGS} settings a call", law_us, LAW_US, "us")


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
