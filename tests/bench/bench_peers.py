"""labkit's engines against other packet generators, by the sink's counter, in alternated pairs.

``python -m tests.bench.bench_peers`` prints a JSON list of ratios. What is not there (a program, an engine, a
sink, root) is a row that says so. Rows of an ordinary user run in a user namespace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from unittest import mock

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from labkit.errors import AgentLostError, CapabilityMissingError, LabError, WorkloadError
from labkit.experiment.bench import compare
from labkit.factors import Scalar
from labkit.records import Traffic, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import Flow, udp_flow
from tests.bench.script import Absolute, main

if TYPE_CHECKING:
    from labkit.analysis.pairs import Ratio

FRAME_BYTES = 60
UNSUMMED = (
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    / IP(src="10.0.0.1", dst="10.0.0.2")
    / UDP(sport=1024, dport=9, chksum=0)
    / Raw(bytes(18))
)
UNSUMMED_FLOW = "no UDP checksum"
FLOWS: dict[str, Traffic] = {
    "one flow": udp_flow(FRAME_BYTES, 1),
    "1000 flows": udp_flow(FRAME_BYTES, 1000),
    "port, sequence and checksum": udp_flow(FRAME_BYTES, 1000, pktgen_header=True),
    UNSUMMED_FLOW: Flow(UNSUMMED),
}
CONSTANT = "one flow"
PACKET_SOCKETS = ("send", "sendmmsg", "tx_ring", "gso")


@dataclass(frozen=True)
class Goal:
    """`engine`'s packets (of a stream: bytes) a second over `peer`'s at `sink`: `ratio`, or a report."""

    who: Literal["root", "user"]
    sink: str
    engine: str
    peer: str
    ratio: float | None
    flow: str = CONSTANT
    peers_flow: str = CONSTANT
    settings: dict[str, Scalar] = field(default_factory=dict)

    @property
    def name(self) -> str:
        ours = self.engine if self.flow == CONSTANT else f"{self.engine}, {self.flow}"
        return f"{ours} / {self.peer}, {self.sink}, {self.who}"


GOALS = (
    Goal("root", "xdp_drop", "xdp_live", "trafgen", 10.0),
    Goal("root", "stack", "xdp_live", "trafgen", 3.0, settings={"gro": True}),
    # GRO sums up a UDP packet that carries a checksum (net/ipv4/udp_offload.c); pktgen's carry none
    Goal("root", "stack", "xdp_live", "trafgen", 3.0, UNSUMMED_FLOW, UNSUMMED_FLOW, {"gro": True}),
    Goal("root", "xdp_drop", "xdp_live", "xdp_live", 0.97, "port, sequence and checksum"),
    Goal("user", "stack", "gso", "trafgen", 2.5),
    Goal("user", "ifb", "gso", "trafgen", 1.6),
    Goal("user", "stack", "af_xdp", "trafgen", 1.6),
    Goal("user", "ifb", "af_xdp", "trafgen", 1.35),
    Goal("user", "stack", "sendmmsg", "trafgen", 1.12),
    Goal("user", "stack", "sendmmsg", "tcpreplay", 1.12),
    Goal("user", "stack", "tx_ring", "trafgen", 0.98),
    Goal("user", "ifb", "tx_ring", "trafgen", 0.98),
    Goal("user", "ifb", "sendmmsg", "trafgen", None),
    # by the device's bytes: a stream's packets are of any length
    Goal("user", "stack", "tcp", "iperf3_tcp", None),
    *(Goal("user", "stack", name, name, 0.98, "1000 flows") for name in PACKET_SOCKETS),
)
"""What each engine is there for. Bare loops have a bench of their own (`bench_native`)."""


def measure(pairs: int, limit: int) -> Iterator[Ratio | Absolute]:
    """Each goal beside its ratio, one rig for all of one user."""
    for who in dict.fromkeys(goal.who for goal in GOALS):
        goals = [goal for goal in GOALS if goal.who == who]
        if who == "root" and os.geteuid() != 0:
            yield from (absent(goal, "needs root") for goal in goals)
            continue
        with mock.patch.dict(os.environ, {"LABKIT_USERNS": "1"} if who == "user" else {}), VethRig() as rig:
            for goal in goals:
                yield judged(rig, goal, pairs, limit)


def judged(rig: VethRig, goal: Goal, pairs: int, limit: int) -> Ratio | Absolute:
    """The ratio of one goal, or why there is none."""
    ours = Workload(FLOWS[goal.flow], engine=goal.engine, sink=goal.sink)
    theirs = Workload(FLOWS[goal.peers_flow], engine=goal.peer, sink=goal.sink)
    try:
        with rig.applied(goal.settings):
            return compare(rig, ours, theirs, goal=goal.ratio, pairs=pairs, limit=limit, name=goal.name)
    except AgentLostError:
        raise
    except (CapabilityMissingError, WorkloadError) as why:
        return absent(goal, str(why))
    except LabError as why:
        return Absolute(goal.name, str(why), f">= {goal.ratio}", "undecided")


def absent(goal: Goal, why: str) -> Absolute:
    return Absolute(goal.name, f"absent: {why}", f">= {goal.ratio}", "absent")


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
