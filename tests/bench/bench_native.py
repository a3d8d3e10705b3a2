"""Each native engine against a bare C loop: wall time per packet on one veth pair, same CPU, same frames.

How long each goes on when it is stopped, too. ``python -m tests.bench.bench_native`` prints a JSON list.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from labkit._native import Progress, StopFlag
from labkit.engines.base import EngineConfig
from labkit.engines.choose import choose
from labkit.engines.peers import BARE_BATCHES, bare_program
from labkit.linux.ethtool import Ethtool
from labkit.traffic.table import FrameTable
from tests.bench.script import Absolute, at_most, main
from tests.network.private import enter_private_network, veth_pair

if TYPE_CHECKING:
    from labkit.analysis.pairs import Ratio

GOAL = 1.03
"""At most 3 % above the bare loop."""

STOP_MS = 10.0
FRAME_BYTES = 60
RUN_MS = 200


def frame() -> bytes:
    """The frame of `bare.h`."""
    ip_bytes = FRAME_BYTES - 14
    head = bytes.fromhex("0200000000010200000000020800") + struct.pack(
        "!BBHIBBH4s4s", 0x45, 0, ip_bytes, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    )
    return (head + struct.pack("!4H", 9, 9, ip_bytes - 20, 1)).ljust(FRAME_BYTES, b"\0")


def bare_ns_per_packet(name: str, ifindex: int, cpu: int, batch: int) -> Callable[[], float]:
    command = [bare_program(f"bare_{name}"), *map(str, (ifindex, cpu, batch, RUN_MS, FRAME_BYTES))]
    return lambda: float(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


def engine_ns_per_packet(name: str, ifindex: int, cpu: int, batch: int) -> Callable[[], float]:
    engine = choose(name)
    frames = FrameTable.of([frame()] * batch)
    config = EngineConfig(ifindex=ifindex, batch=batch, duration_ns=RUN_MS * 1_000_000, cpu=cpu)

    def run() -> float:
        report = engine.run(frames, config, StopFlag(), Progress())
        sent = report.attempted if report.sent is None else report.sent
        return report.elapsed_ns / sent

    return run


def measured() -> list[str]:
    """The engines that this process may run."""
    root = os.geteuid() == 0 and os.environ.get("LABKIT_USERNS") != "1"
    return [name for name in BARE_BATCHES if root or name != "xdp_live"]


def stop_ms(name: str, ifindex: int, cpu: int) -> float:
    """From the stop flag to the engine's return, in the middle of a run at full rate."""
    stop, engine = StopFlag(), choose(name)
    config = EngineConfig(ifindex=ifindex, batch=BARE_BATCHES[name], duration_ns=60_000_000_000, cpu=cpu)
    set_at: list[int] = []

    def set_it() -> None:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {cpu} or {cpu})
        set_at.append(time.monotonic_ns())
        stop.set()

    timer = threading.Timer(0.2, set_it)
    timer.start()
    engine.run(FrameTable.of([frame()] * 64), config, stop, Progress())
    returned_at = time.monotonic_ns()
    timer.join()
    return (returned_at - set_at[0]) / 1e6


def ratios(pairs: int, limit: int) -> list[Ratio | Absolute]:
    """Enter a private network (this process must have one thread) and compare there."""
    enter_private_network()
    # numpy, which makes the intervals, starts threads: a user namespace can't be entered with a second one
    from labkit.analysis.pairs import compare_pairs

    cpu = max(os.sched_getaffinity(0))
    found: list[Ratio | Absolute] = []
    with veth_pair() as veth:
        for name in measured():
            batch = BARE_BATCHES[name]
            if name == "xdp_live":
                with contextlib.closing(Ethtool()) as ethtool:
                    ethtool.set_features(veth.peer_ifindex, {"gro": True})
            engine = engine_ns_per_packet(name, veth.ifindex, cpu, batch)
            bare = bare_ns_per_packet(name, veth.ifindex, cpu, batch)
            engine(), bare()
            title = f"{name} / bare {name}"
            found.append(compare_pairs(engine, bare, GOAL, pairs=pairs, limit=limit, name=title))
            stopped = functools.partial(stop_ms, name, veth.ifindex, cpu)
            found.append(at_most(f"{name}: stop to return", stopped, STOP_MS, "ms"))
    return found


if __name__ == "__main__":
    sys.exit(main(__doc__, ratios))
