"""Frames patched with numpy against scapy building them one by one: time per frame, same bytes.

``python -m tests.bench.bench_craft`` prints a JSON list of ratios.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from labkit.traffic.flows import Flow, choices, count, randoms
from labkit.traffic.table import FrameTable
from labkit.traffic.vary import Generator
from tests.bench.script import main

if TYPE_CHECKING:
    from labkit.analysis.pairs import Ratio

FRAMES = 100_000
SCAPY_FRAMES = 2_000
ONE_FIELD: Mapping[str, Generator] = {"IP.src": count("10.0.0.1", FRAMES)}
THREE_FIELDS: Mapping[str, Generator] = {
    "IP.src": randoms(FRAMES, "10.0.0.0", "10.255.255.255"),
    "UDP.sport": count(1024, 60_000),
    "IP.ttl": choices([32, 64, 128]),
}
GOALS = [("one field", ONE_FIELD, 2_000.0), ("three fields, one of them random", THREE_FIELDS, 1_000.0)]
"""Scapy's time a frame over ours: each at least the goal, for 60-byte frames with both checksums."""


def packet() -> Any:
    ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return ethernet / IP(src="10.0.0.1", dst="198.51.100.2") / UDP(sport=1024, dport=9) / Raw(bytes(18))


def scapys_frames(table: FrameTable, names: list[str]) -> list[bytes]:
    """Frames that scapy builds with the values that `table` shows: fields set in one packet, then bytes()."""
    built = packet()
    frames = []
    for index in range(SCAPY_FRAMES):
        frame = table.frame(index)
        built[IP].src = ".".join(map(str, frame[26:30]))
        if "UDP.sport" in names:
            built[UDP].sport = int.from_bytes(frame[34:36], "big")
            built[IP].ttl = frame[22]
        frames.append(bytes(built))
    return frames


def craft(vary: Mapping[str, Generator]) -> FrameTable:
    return Flow(packet(), vary).table()


def ns_per_frame(work: Callable[[], object], frames: int) -> Callable[[], float]:
    def run() -> float:
        started_ns = time.perf_counter_ns()
        work()
        return (time.perf_counter_ns() - started_ns) / frames

    return run


def ratios(pairs: int, limit: int) -> list[Ratio]:
    """Compare both ways for each goal, after the bytes were found equal."""
    from labkit.analysis.pairs import compare_pairs

    found = []
    for title, vary, goal in GOALS:
        table = craft(vary)
        if scapys_frames(table, list(vary)) != [table.frame(index) for index in range(SCAPY_FRAMES)]:
            raise AssertionError(f"{title}: the frames are not scapy's")
        scapy = ns_per_frame(partial(scapys_frames, table, list(vary)), SCAPY_FRAMES)
        ours = ns_per_frame(partial(craft, vary), FRAMES)
        found.append(
            compare_pairs(
                scapy, ours, goal, "higher", pairs=pairs, limit=limit, name=f"scapy / craft, {title}"
            )
        )
    return found


if __name__ == "__main__":
    sys.exit(main(__doc__, ratios))
