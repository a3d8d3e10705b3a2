"""One run of the event loop with a trial's own ends: shared counts, samples, no frame at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from labkit.engines.base import EndedBy
from labkit.errors import WorkloadError
from labkit.factors import Scalar
from labkit.records import Sample
from labkit.rigs.assemble import SAMPLE_EVERY_NS
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.run import Run, Simulated, Zones
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S, seconds_to_ns

FEWEST_SAMPLES: Final = 5
WARM_S: Final = 0.02
"""Simulated before a run at full speed counts, past the qdisc: moderation and ring have settled then."""


def answer_of(profile: Profile, settings: Mapping[str, Scalar], sender: Sender, run: Run) -> Simulated:
    """The event loop's answer; `run.count` are frames of all CPUs together.

    Raises
    ------
    WorkloadError
        A count that the CPUs cannot share.
    """
    if run.count == 0:
        return _nothing(settings, sender)
    length_s, each = run.duration_s, None
    if run.count is not None and sender.engine == "receive":
        length_s = min(length_s, run.count * sender.gap_ns / sender.cpus / NS_PER_S)
    elif run.count is not None:
        if run.count % sender.cpus:
            raise WorkloadError(f"count {run.count}: give a multiple of {sender.cpus}, for the CPUs share it")
        each = run.count // sender.cpus
    samples = max(FEWEST_SAMPLES, seconds_to_ns(length_s) // SAMPLE_EVERY_NS)
    warm_s = WARM_S if each is None and not sender.gap_ns and not sender.through_qdisc else 0.0
    asked = msgspec.structs.replace(run, duration_s=length_s, warmup_s=warm_s, count=each, samples=samples)
    answer = simulate(profile, settings, sender, asked)
    if each is None or not sender.gap_ns or answer.carrier_lost:
        return answer
    slots_ns = min(each * sender.gap_ns, seconds_to_ns(length_s))  # the last frame takes its slot too
    return msgspec.structs.replace(answer, elapsed_ns=max(answer.elapsed_ns, slots_ns))


def _nothing(settings: Mapping[str, Scalar], sender: Sender) -> Simulated:
    """A run of no frame and no time."""
    none = (0,) * sender.cpus
    return Simulated(
        elapsed_ns=0,
        sent=0,
        refused=0,
        received=0,
        missed=0,
        pps=None,
        per_cpu=(),
        tx_interrupts=none,
        rx_interrupts=none,
        budget=(),
        zones=Zones(waiting=0, uncleaned=0, free=float(settings["tx_ring"] or 0)),
        bql_limit_bytes=None,
        itr=None,
        latency=(),
        samples=(),
        carrier_lost=False,
    )


def ended_by(answer: Simulated, sender: Sender, count: int | None) -> EndedBy:
    """What ended the run; a sender that lost its link ends by error, if without a word."""
    if answer.carrier_lost:
        return "error"
    reached = sender.engine != "receive" and count is not None and answer.sent >= count
    return "count" if reached or count == 0 else "duration"


def samples_of(answer: Simulated, sender: Sender) -> tuple[Sample, ...]:
    """Counts over time, none twice behind the run's end."""
    found: dict[int, Sample] = {}
    for moment in answer.samples:
        receives = sender.engine == "receive"
        offered = round(moment.at_ns * sender.cpus / sender.gap_ns) if receives else moment.sent
        found.setdefault(
            moment.at_ns,
            Sample(
                at_ns=moment.at_ns,
                engine_sent=offered,
                engine_refused=0,
                device_sent=offered,
                peer_received=moment.received if receives else None,
                bql_limit_bytes=moment.bql_limit_bytes,
                bql_inflight_bytes=moment.bql_inflight_bytes,
            ),
        )
    return tuple(found.values())
