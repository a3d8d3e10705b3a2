"""What is asked of the event loop and what it answers, as frozen records."""

from __future__ import annotations

import msgspec


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong on the card meanwhile.

    Attributes
    ----------
    carrier_lost_after_s : float or None
        The link is lost then and stays so; pktgen stops.
    drop_interrupt_every : int
        Every so many interrupts one is lost; 0 loses none.
    """

    carrier_lost_after_s: float | None = None
    drop_interrupt_every: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How long is simulated, and what is looked at.

    Attributes
    ----------
    duration_s, warmup_s : float
        Simulated time that counts, and before it.
    count : int or None
        Frames of each CPU after which the run ends.
    samples : int
        Counts over time.
    seed : int
        Of random arrivals.
    """

    duration_s: float = 1.0
    warmup_s: float = 0.0
    count: int | None = None
    samples: int = 0
    seed: int = 1
    faults: Faults = Faults()


class Zones(msgspec.Struct, frozen=True, kw_only=True):
    """Where a ring's descriptors are, on average over time: only the first kind delays packets.

    Attributes
    ----------
    waiting : float
        On their way to the wire.
    uncleaned : float
        Sent, and waiting for the cleaner.
    free : float
        The rest, those that the driver never fills included.
    """

    waiting: float
    uncleaned: float
    free: float


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the time that a packet took its CPU; all parts add up to the whole."""

    name: str
    ns_per_packet: float
    source: str


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One instant of a run.

    Attributes
    ----------
    at_ns : int
        Since the run's start.
    sent, received : int
        Frames of all CPUs so far.
    bql_limit_bytes, bql_inflight_bytes : int or None
        Of the first CPU's queue: BQL's limit, and what is queued and not yet cleaned; None without BQL.
    """

    at_ns: int
    sent: int
    received: int
    bql_limit_bytes: int | None
    bql_inflight_bytes: int | None


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """What the event loop counted.

    Attributes
    ----------
    elapsed_ns : float
        Simulated time of the slowest CPU.
    sent, refused, received, missed : int
        Frames: handed to the card, refused by a full queue, received, and arrived without a descriptor free.
    pps : float or None
        Frames sent a second; for ``receive`` frames received.
    per_cpu : tuple of dict
        Counts of each CPU by name (`labkit._native.SimLane`).
    tx_interrupts, rx_interrupts : tuple of int
        Interrupts of each CPU's queue pair.
    budget : tuple of Share
        Where the time of a packet went; empty when none was sent.
    zones : Zones
        The rings' descriptors, averaged over time and CPUs.
    bql_limit_bytes : int or None
        BQL's limit at the end; None without BQL.
    itr : int or None
        ixgbe's dynamic mode: the driver's value at the end.
    latency : tuple of (int, int)
        Received frames by time from arrival to the stack: (bucket's smallest value in ns, frames).
    samples : tuple of Moment
        Counts and byte queue limits over time.
    carrier_lost : bool
        The run ended with the link.
    """

    elapsed_ns: float
    sent: int
    refused: int
    received: int
    missed: int
    pps: float | None
    per_cpu: tuple[dict[str, int], ...]
    tx_interrupts: tuple[int, ...]
    rx_interrupts: tuple[int, ...]
    budget: tuple[Share, ...]
    zones: Zones
    bql_limit_bytes: int | None
    itr: int | None
    latency: tuple[tuple[int, int], ...]
    samples: tuple[Moment, ...]
    carrier_lost: bool
