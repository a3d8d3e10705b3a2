"""What sinks and paced senders promise: exact counts and few drops at full rate, a rate that is kept.

``python -m tests.bench.bench_sinks`` prints a JSON list of medians against their bounds.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from functools import partial

from labkit.records import Trial, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow
from tests.bench.script import RUNS, Absolute, at_most, main

FLOW = udp_flow(60, 64)
DROPS_PERCENT = 0.01
RATE_PERCENT = 0.1
RATES_PPS = (1_000.0, 20_000.0, 200_000.0)


def measure(_pairs: int, _limit: int) -> Iterator[Absolute]:
    """Each promise on one rig."""
    with VethRig() as rig:
        root = os.geteuid() == 0 and os.environ.get("LABKIT_USERNS") != "1"
        if root:
            yield from sink_at_full_rate(rig, "xdp_live", "xdp_drop", DROPS_PERCENT)
        yield from sink_at_full_rate(rig, "sendmmsg", "rx_ring", None)
        for rate_pps in RATES_PPS:
            name = f"paced at {rate_pps:,.0f} pps for 1 s, off by"
            yield at_most(name, partial(rate_error_percent, rig, rate_pps), RATE_PERCENT, "%")


def sink_at_full_rate(rig: VethRig, engine: str, sink: str, bound: float | None) -> Iterator[Absolute]:
    """Whether every frame sent is received or counted as dropped, and how many were dropped."""
    trials = [rig.run(Workload(FLOW, engine, sink=sink), duration_s=0.5) for _ in range(RUNS)]
    told = sum(exact(trial) for trial in trials)
    name = f"{engine} into {sink}"
    all_told = "met" if told == RUNS else "missed"
    yield Absolute(f"{name}: runs with exact counts", f"{told} of {RUNS}", f"{RUNS} of {RUNS}", all_told)
    dropped = [100 * (trial.peer_dropped or 0) / (trial.device_sent or 1) for trial in trials]
    worst = f"{statistics.median(dropped):.3g} % [{min(dropped):.3g}, {max(dropped):.3g}]"
    met = bound is None or max(dropped) <= bound
    goal = "report" if bound is None else f"<= {bound:g} %"
    yield Absolute(f"{name}: dropped", worst, goal, "met" if met else "missed")


def exact(trial: Trial) -> bool:
    """Whether what the device sent is what the sink received and what was counted as dropped."""
    handed_over = trial.environment.get("handed_over", trial.engine_sent)
    arrived = (trial.peer_received or 0) + (trial.peer_dropped or 0)
    return trial.reconciled is True and handed_over == trial.device_sent == arrived > 0


def rate_error_percent(rig: VethRig, rate_pps: float) -> float:
    """How far the device's rate is from what was asked."""
    trial = rig.run(Workload(FLOW, "sendmmsg", rate_pps=rate_pps), duration_s=1.0)
    return 100 * abs((trial.pps or 0.0) / rate_pps - 1)


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
