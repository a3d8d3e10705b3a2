"""A workload as the simulated sender takes it, and what pktgen, a socket or a TCP stream would refuse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import XMIT_MODES, Scalar
from labkit.records import Workload
from labkit.simnic.profile import Profile
from labkit.simnic.sender import Sender
from labkit.traffic.sizes import sizes_text
from labkit.units import ETHERNET_HEADER_BYTES, NS_PER_S, wire_bytes

BATCHES: Final[Mapping[str, tuple[int, int]]] = {
    "pktgen": (1, 1024),
    "send": (1, 1),
    "sendmmsg": (64, 1024),
    "tx_ring": (256, 1024),
    "tcp": (1, 1),
    "receive": (1, 1),
}
"""Frames handed over at once unless the workload says otherwise, and at most, by engine."""

CLONE_SKB: Final = 100_000
PKTGEN_SHORTEST_BYTES: Final = 42
"""pktgen raises a shorter ``pkt_size`` without a word: Ethernet, IP and UDP header (14 + 20 + 8)."""
LONGEST_GAP_NS: Final = NS_PER_S
ENOTSUPP: Final = 524
"""The kernel's own errno, which pktgen of those years returned; newer kernels say EOPNOTSUPP (95)."""


def sender_of(
    workload: Workload,
    profile: Profile,
    settings: Mapping[str, Scalar],
    *,
    hypotheses: frozenset[str] = frozenset(),
    random_arrivals: bool = False,
) -> Sender:
    """The simulated sender of `workload` under the settings in force.

    Raises
    ------
    WorkloadError
        Numbers that make no sense, or that contradict each other.
    CapabilityMissingError
        What the engine refuses.
    """
    cpus = _cpus(workload, settings)
    sender = Sender(
        engine=workload.engine,
        frame_bytes=_frame_bytes(workload, settings),
        batch=_batch(workload),
        clone_skb=_clone_skb(workload),
        xmit_mode=_xmit_mode(workload),
        qdisc_bypass=workload.qdisc_bypass,
        gap_ns=_gap_ns(workload, profile, cpus),
        poisson=random_arrivals and workload.engine == "receive",
        cpus=cpus,
        hypotheses=hypotheses,
    )
    if workload.engine == "pktgen":
        _check_pktgen(sender)
    return sender


def _batch(workload: Workload) -> int:
    default, most = BATCHES[workload.engine]
    batch = default if workload.batch is None else workload.batch
    if not 1 <= batch <= most:
        limits = "exactly 1" if most == 1 else f"1 to {most}"
        raise WorkloadError(f"{workload.engine}: batch {batch}: this engine takes {limits} frames at once")
    return batch


def _frame_bytes(workload: Workload, settings: Mapping[str, Scalar]) -> int:
    """Length without FCS: a TCP stream's segments are full, and pktgen has a shortest frame."""
    if workload.engine == "tcp":
        return int(settings["mtu"] or 0) + ETHERNET_HEADER_BYTES
    asked, told = workload.flow.frame_bytes, workload.flow.describe()
    if told.get("shortest_frame_bytes", asked) != asked:
        having = "vm:e1000e" if workload.engine == "pktgen" else "veth"
        raise CapabilityMissingError(
            f"a simulated sender has frames of one length, not of {sizes_text(told, asked)}; try rig "
            f"'{having}'"
        )
    return max(asked, PKTGEN_SHORTEST_BYTES) if workload.engine == "pktgen" else asked


def _clone_skb(workload: Workload) -> int:
    if workload.clone_skb is None:
        return 0 if workload.xmit_mode == "netif_receive" else CLONE_SKB
    if workload.clone_skb < 0:
        raise WorkloadError(
            f"clone_skb {workload.clone_skb}: give 0 for a buffer of each frame's own, or more"
        )
    return workload.clone_skb


def _xmit_mode(workload: Workload) -> str:
    mode = workload.xmit_mode or XMIT_MODES[0]
    if mode not in XMIT_MODES:
        raise WorkloadError(f"unknown xmit_mode '{mode}'; known: {', '.join(XMIT_MODES)}")
    return mode


def _cpus(workload: Workload, settings: Mapping[str, Scalar]) -> int:
    cpus, queues = 1 if workload.cpus is None else workload.cpus, settings.get("channels")
    if cpus > int(queues or 1):
        hint = "take fewer" if queues is None else f"take fewer, or set channels to {cpus}"
        raise WorkloadError(
            f"cpus {cpus}: each sends on a queue of its own, and here are {queues or 1}; {hint}"
        )
    return cpus


def _gap_ns(workload: Workload, profile: Profile, cpus: int) -> float:
    """Time between two frames of one CPU, or, for ``receive``, between two arrivals at one queue."""
    rate_pps, delay_ns = workload.rate_pps, workload.delay_ns or 0
    if rate_pps is not None and not 0 < rate_pps < math.inf:
        raise WorkloadError(f"rate_pps {rate_pps}: give a rate above 0, or none for full speed")
    if delay_ns < 0:
        raise WorkloadError(f"delay_ns {delay_ns}: give 0 or more nanoseconds")
    if workload.engine == "tcp" and rate_pps is not None:
        raise WorkloadError("tcp: its acknowledgements are its clock; leave rate_pps out")
    if rate_pps is not None and delay_ns:
        raise WorkloadError("rate_pps and delay_ns are one number of pktgen; give one of both")
    gap_ns = float(delay_ns) if rate_pps is None else cpus * NS_PER_S / rate_pps
    if gap_ns > LONGEST_GAP_NS:
        raise WorkloadError(
            f"a frame every {gap_ns / NS_PER_S:g} s: the simulation takes one a second of each CPU or more"
        )
    if workload.engine != "receive":
        return gap_ns
    bits = 8 * wire_bytes(workload.flow.frame_bytes)
    return max(gap_ns, cpus * bits / profile.value("link_bits_per_s") * NS_PER_S)  # the wire carries no more


def _check_pktgen(sender: Sender) -> None:
    """What pktgen's own commands refuse."""
    if sender.injects and sender.clone_skb:
        raise CapabilityMissingError(
            f"pktgen: clone_skb {sender.clone_skb} with xmit_mode netif_receive: the receive path frees the "
            "buffer, so it cannot be sent again; leave clone_skb out",
            errno=ENOTSUPP,
        )
    if sender.through_qdisc and sender.batch > 1:
        raise CapabilityMissingError(
            f"pktgen: batch {sender.batch}, its burst, with xmit_mode queue_xmit: a qdisc takes frames one "
            "by one; leave the batch out",
            errno=ENOTSUPP,
        )
