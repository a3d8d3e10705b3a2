"""Engines against other packet generators on one rig, by one counter, in alternated pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from labkit.analysis.pairs import Ratio, compare_pairs
from labkit.analysis.sink_rate import SinkCounter, sink_rate
from labkit.errors import AgentLostError, CapabilityMissingError, LabError, WorkloadError
from labkit.experiment.trial import CURABLE_MARKS, MAX_REPEATS
from labkit.factors import PEER_NAMES, STREAM_NAMES
from labkit.records import RigInfo, Traffic, Trial, Workload
from labkit.rigs import catalog
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.base import Rig

DURATION_S: Final = 0.4
"""Length of one run: eight samples, of which the first and the last are not looked at."""
SAMPLE_EVERY_NS: Final = 50_000_000
SHORTEST_S: Final = 0.3
"""Shorter runs do not surely have the four samples that a rate needs."""
PAIRS: Final = 30
MOST_PAIRS: Final = 120
USUAL_PEERS: Final = ("trafgen", "tcpreplay")


class PeerRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Engine's packets a second over the peer's, at one sink: median, its 95 % interval, pairs behind it."""

    rig: str
    sink: str
    engine: str
    peer: str
    ratio: float
    low: float
    high: float
    pairs: int


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison that could not be made, and why."""

    sink: str
    engine: str
    peer: str
    reason: str


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """Every comparison that was asked for: measured, or absent with its reason; and what to say of all."""

    ratios: tuple[PeerRatio, ...]
    absent: tuple[Absent, ...]
    caveat: str | None = None


def usual_engines(info: RigInfo) -> tuple[str, ...]:
    """Engines of labkit's own that a rig has, those that send the flow's frames."""
    return tuple(name for name in info.engines if name not in (*PEER_NAMES, *STREAM_NAMES))


def bench(
    rig: Rig,
    flow: Traffic,
    *,
    sinks: Sequence[str],
    engines: Sequence[str] = (),
    peers: Sequence[str] = USUAL_PEERS,
    cpu: int | None = None,
    duration_s: float = DURATION_S,
    pairs: int = PAIRS,
    goal: float | None = None,
    told: Callable[[PeerRatio | Absent], None] = lambda _: None,
) -> Bench:
    """Compare each of `engines` with each of `peers` at each of `sinks`, on one CPU, with the same frames.

    Parameters
    ----------
    rig : Rig
        A real one, open.
    engines : sequence of str
        Empty takes all of labkit's own that the rig has.
    pairs : int
        Pairs a comparison; with a `goal` up to `MOST_PAIRS` while it is undecided.
    told : callable
        Called with each comparison as it is done.

    Raises
    ------
    WorkloadError
        An unknown engine, peer or sink, or runs too short for a rate.
    CapabilityMissingError
        A simulated rig: no other program sends there.
    """
    real = _real(rig)
    for name in (*engines, *peers):
        catalog.check_known_engine(name)
    for sink in sinks:
        catalog.check_known_sink(sink)
    _check_duration(duration_s)
    ratios: list[PeerRatio] = []
    absent: list[Absent] = []
    for sink, engine, peer in _combinations(sinks, engines or usual_engines(real.info), peers):
        ours, theirs = (Workload(flow, engine=name, sink=sink, cpu=cpu) for name in (engine, peer))
        try:
            found = compare(real, ours, theirs, goal=goal, pairs=pairs, duration_s=duration_s)
        except AgentLostError:
            raise
        except LabError as why:
            absent.append(Absent(sink=sink, engine=engine, peer=peer, reason=str(why)))
            told(absent[-1])
            continue
        ratios.append(
            PeerRatio(
                rig=real.info.name,
                sink=sink,
                engine=engine,
                peer=peer,
                ratio=found.median,
                low=found.low,
                high=found.high,
                pairs=found.pairs,
            )
        )
        told(ratios[-1])
    return Bench(ratios=tuple(ratios), absent=tuple(absent), caveat=real.caveat)


def compare(
    rig: AgentRig,
    ours: Workload,
    theirs: Workload,
    *,
    goal: float | None = None,
    pairs: int = PAIRS,
    limit: int = MOST_PAIRS,
    duration_s: float = DURATION_S,
    name: str = "",
) -> Ratio:
    """Packets a second of `ours` over those of `theirs`, both by the counter at the sink.

    Of two TCP streams it is bytes a second, by what the sending device counted (on veth the same number as
    the receiving one's): that counter has both, and a packet of theirs may be any number of frames.

    A disturbed run (`labkit.experiment.trial.CURABLE_MARKS`) is repeated, at most three times; a pair with
    one that stays so is not counted, never averaged in.

    Raises
    ------
    CapabilityMissingError, WorkloadError, LabError
        What the rig cannot do, before anything is compared; or every pair was disturbed.
    """
    _check_duration(duration_s)
    streams = _both_streams(ours, theirs)
    for workload in (ours, theirs):
        rig.check(workload)
    # once each beforehand: what is missing shows, and which counter both have
    first = [_run(rig, workload, duration_s) for workload in (ours, theirs)]
    at_peer = all(any(sample.peer_received for sample in trial.samples) for trial in first)
    counter: SinkCounter = "peer_received" if at_peer else "device_sent"

    def rate(trial: Trial) -> float | None:
        return device_mbit(trial) if streams else sink_rate(trial.samples, counter)

    return compare_pairs(
        lambda: _undisturbed(rig, ours, rate, duration_s),
        lambda: _undisturbed(rig, theirs, rate, duration_s),
        goal,
        "higher",
        pairs,
        max(pairs, limit),
        name=name or f"{ours.engine} / {theirs.engine}",
    )


def device_mbit(trial: Trial) -> float | None:
    """10^6 bits a second of a stream, headers included, as the sending device counted them."""
    told: dict[str, float | None] = trial.environment.get("tcp", {})
    return told.get("device_mbit")


def _both_streams(ours: Workload, theirs: Workload) -> bool:
    """Whether both are TCP streams; raises `WorkloadError` where one of them is."""
    streams = [workload.engine in STREAM_NAMES for workload in (ours, theirs)]
    if any(streams) and not all(streams):
        raise WorkloadError(
            f"{ours.engine} / {theirs.engine}: a stream of bytes and frames of one length have no rate in "
            f"common; compare {' and '.join(STREAM_NAMES)} with each other"
        )
    return all(streams)


def _undisturbed(
    rig: AgentRig, workload: Workload, rate: Callable[[Trial], float | None], duration_s: float
) -> float | None:
    for _ in range(1 + MAX_REPEATS):
        trial = _run(rig, workload, duration_s)
        if not CURABLE_MARKS & set(trial.marks):
            return rate(trial)
    return None


def _run(rig: AgentRig, workload: Workload, duration_s: float) -> Trial:
    return rig.run(workload, duration_s=duration_s, check=False, sample_every_ns=SAMPLE_EVERY_NS)


def _check_duration(duration_s: float) -> None:
    if not duration_s >= SHORTEST_S:
        raise WorkloadError(f"duration_s {duration_s:g}: a rate needs runs of {SHORTEST_S:g} s or more")


def _real(rig: Rig) -> AgentRig:
    if not isinstance(rig, AgentRig):
        raise CapabilityMissingError(
            f"rig '{rig.info.name}' has no real packets to compare; take rig '{catalog.VETH.name}'"
        )
    return rig


def _combinations(
    sinks: Sequence[str], engines: Sequence[str], peers: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    for sink in sinks:
        for engine in engines:
            for peer in peers:
                yield sink, engine, peer
