"""The sendmmsg engine against a bare C loop: wall time per packet on one veth pair, same CPU, same frames.

``python -m tests.bench.bench_native`` prints a JSON list of ratios.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labkit._native import Progress, StopFlag
from labkit.engines.base import EngineConfig
from labkit.engines.choose import choose
from labkit.traffic.table import FrameTable
from tests.bench.script import main
from tests.network.private import enter_private_network, veth_pair

if TYPE_CHECKING:
    from tests.bench.pairs import Ratio

BARE = Path(__file__).with_name("bare_sendmmsg.c")
GOAL = 1.03
"""At most 3 % above the bare loop."""

FRAME_BYTES = 60
BATCH = 64
RUN_MS = 200
HEAD = bytes.fromhex("0200000000010200000000020800")


def build(folder: Path) -> Path:
    """Compile the bare loop as the engines are compiled: optimised, for the plain architecture."""
    program = folder / "bare_sendmmsg"
    subprocess.run(["cc", "-O3", "-Wall", "-Wextra", "-o", program, BARE], check=True, timeout=60)
    return program


def bare_ns_per_packet(program: Path, ifindex: int, cpu: int) -> Callable[[], float]:
    command = [str(program), *map(str, (ifindex, cpu, BATCH, RUN_MS, FRAME_BYTES))]
    return lambda: float(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


def engine_ns_per_packet(ifindex: int, cpu: int) -> Callable[[], float]:
    engine = choose("sendmmsg")
    frames = FrameTable.of([HEAD.ljust(FRAME_BYTES, b"\0")] * BATCH)
    config = EngineConfig(ifindex=ifindex, batch=BATCH, duration_ns=RUN_MS * 1_000_000, cpu=cpu)

    def run() -> float:
        report = engine.run(frames, config, StopFlag(), Progress())
        return report.elapsed_ns / report.sent

    return run


def ratios(pairs: int, limit: int) -> list[Ratio]:
    """Enter a private network (this process must have one thread) and compare there."""
    enter_private_network()
    # numpy starts threads, and a user namespace can't be entered with a second one
    from tests.bench.pairs import compare_pairs

    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, veth_pair() as veth:
        engine = engine_ns_per_packet(veth.ifindex, cpu)
        bare = bare_ns_per_packet(build(Path(folder)), veth.ifindex, cpu)
        engine(), bare()
        return [compare_pairs(engine, bare, GOAL, pairs=pairs, limit=limit, name="sendmmsg / bare sendmmsg")]


if __name__ == "__main__":
    sys.exit(main(__doc__, ratios))
