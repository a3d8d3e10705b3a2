"""The slow, obvious twin of the native event loop: same question, same counts, one event at a time.

No time is worked out ahead but a frame's last bit, nothing is kept that can be asked again, and every sum is
a whole number. The same tests hold both.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from labkit import _native
from labkit.simnic.reference_lane import Lane
from labkit.simnic.reference_parts import Wire


class TwinLane(msgspec.Struct, frozen=True, kw_only=True):
    """What one CPU and its queue pair did; the fields of `labkit._native.SimLane` and where frames ended."""

    counts: dict[str, int]
    waiting_ps: int
    uncleaned_ps: int
    most_in_flight: int
    bql_limit: int
    itr: int
    in_flight: int
    queued: int
    posting: int


class TwinReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the twin counted; ``samples`` and ``trace`` as tuples of their fields."""

    lanes: list[TwinLane]
    samples: list[tuple[int, int, int, int, int]]
    trace: list[tuple[int, int, int, bool, int, int]]
    latency_ns: list[int]
    carrier_lost: bool


def simulate(config: _native.SimConfig) -> TwinReport:
    """What `labkit._native.simulate` answers, slowly; `config` must be one that it takes."""
    wire = Wire()
    lanes = [Lane(config, wire, number) for number in range(config.lanes)]
    _advance(lanes, config.warmup)
    for lane in lanes:
        lane.begin()
    before = _total(lanes)
    samples = []
    slices = max(1, config.samples)
    for number in range(1, slices + 1):
        part = config.duration if number == slices else config.duration // slices * number
        _advance(lanes, config.warmup + part)
        at = max(lane.now for lane in lanes) - config.warmup
        now = _total(lanes)
        dql = lanes[0].dql
        sent, received = now["sent"] - before["sent"], now["received"] - before["received"]
        samples.append((at, sent, received, dql.limit, dql.inflight()))
    return TwinReport(
        lanes=[_report(lane) for lane in lanes],
        samples=samples if config.samples else [],
        trace=lanes[0].trace,
        latency_ns=[latency for lane in lanes for latency in lane.latency_ns],
        carrier_lost=any(lane.carrier_lost for lane in lanes),
    )


def _advance(lanes: list[Lane], until: int) -> None:
    """One event after the other, each by the lane that is furthest behind."""
    while True:
        going = [lane for lane in lanes if lane.now < until and not lane.ended]
        if not going:
            return
        min(going, key=lambda lane: (lane.now, lane.number)).step(until)


def _total(lanes: list[Lane]) -> Counter[str]:
    return sum((lane.counts for lane in lanes), Counter())


def _report(lane: Lane) -> TwinLane:
    counts = {name: lane.counts[name] - lane.at_start[name] for name in lane.counts}
    return TwinLane(
        counts=counts | {"elapsed_ps": lane.now - lane.started},
        waiting_ps=lane.waiting - lane.waiting_at_start,
        uncleaned_ps=lane.uncleaned - lane.uncleaned_at_start,
        most_in_flight=lane.most_in_flight,
        bql_limit=lane.dql.limit,
        itr=lane.tx.dynamic.itr if lane.tx.kind == _native.SimModeration.DYNAMIC else 0,
        in_flight=len(lane.ring),
        queued=lane.queued,
        posting=lane.posting,
    )
