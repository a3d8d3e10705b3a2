"""What limited a trial, where a packet's time went, and what about it nobody knows."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from labkit.analysis.counted import counted_budget, counted_evidence, counted_unknown
from labkit.analysis.operations import completed, nanoseconds
from labkit.analysis.ring import SETTLED, RingZones, ring_label, wire_budget, zones_of
from labkit.analysis.turns import (
    Turn,
    law_pps,
    limit_of_answer,
    turns,
    uncovered,
    wait_ns,
)
from labkit.factors import Scalar
from labkit.records import WHAT_IF, Trial, named
from labkit.simnic.loop import WAITS, simulate
from labkit.simnic.profile import Profile
from labkit.simnic.run import Share, Simulated, Zones
from labkit.simnic.sender import HYPOTHESES, Sender
from labkit.traffic.sizes import mean_wire_bytes
from labkit.units import NS_PER_S, NS_PER_US, line_rate_pps

UNEXPLAINED: Final = "unexplained"
TOLD: Final = (
    "tx_ring rx_ring channels tx_channels rx_usecs tx_usecs rx_frames tx_frames adaptive_rx adaptive_tx "
    "qdisc bql_limit_min bql_limit_max mtu"
).split()
"""Settings that a heading shows, of the dozens that a device has; `Explanation.settings` holds them all."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One trial explained.

    Attributes
    ----------
    rig, engine : str
        A what-if machine is called one.
        Where it ran, and by which engine.
    frame_bytes : int
        Frame length without FCS.
    settings : dict of str to scalar
        As the driver read them back.
    limited_by : str or None
        What limits; None when nothing proves it.
    evidence, unknown : tuple of str
        What is known and says so; what would be needed to say more.
    turns : tuple of Turn
        Where another limit takes over.
    ns_per_packet : float or None
        The time that the budget explains; None when nothing was sent.
    measured_by : str
        Who measured it.
    budget : tuple of Share
        Its parts, each with its source; the last is what they leave over.
    law_pps : float or None
        The closed law's packets per second; None where it covers nothing.
    wire_ns : dict of str to float
        Time of such a frame on the wire, by speed.
    link_ns : float or None
        The same on this rig's own link; None where its speed is not known.
    ring : RingZones or None
        The TX ring's three zones; None where nobody counts descriptors.
    """

    rig: str
    engine: str
    frame_bytes: int
    settings: dict[str, Scalar]
    limited_by: str | None
    evidence: tuple[str, ...]
    unknown: tuple[str, ...]
    turns: tuple[Turn, ...]
    ns_per_packet: float | None
    measured_by: str
    budget: tuple[Share, ...]
    law_pps: float | None
    wire_ns: dict[str, float]
    link_ns: float | None
    ring: RingZones | None

    @property
    def unexplained_ns(self) -> float | None:
        """What the budget's other parts leave over, in ns a packet."""
        return self.budget[-1].ns_per_packet if self.budget else None

    @property
    def explained_ns(self) -> float | None:
        """Sum of the parts that have a source."""
        return sum(share.ns_per_packet for share in self.budget[:-1]) if self.budget else None

    def text(self) -> str:
        """The whole for people, a line a fact."""
        lines = [self._heading(), f"limit: {self._limit()}"]
        lines += [f"  {each}" for each in self.evidence]
        lines += [f"turns: {each.text()}" for each in self.turns]
        if self.ns_per_packet is not None:
            wire = ", ".join(f"{ns:.2f} at {speed}" for speed, ns in self.wire_ns.items())
            lines.append(f"a packet takes {self.ns_per_packet:.1f} ns ({self.measured_by}); the wire: {wire}")
            lines += [
                f"  {share.ns_per_packet:z8.2f}  {share.name} [{share.source}]" for share in self.budget
            ]
        if self.ring is not None:
            lines.append(f"ring: {self.ring.text()}")
        return "\n".join([*lines, *(f"unknown: {each}" for each in self.unknown)])

    def __repr__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        """What limits in bold, and the budget as a table."""
        head = [f"**Limit: {self._limit()}**", *self.evidence, *(each.text() for each in self.turns)]
        if self.ring is not None:
            head.append(self.ring.text())
        lines = [self._heading(), "", *(f"- {each}" for each in head), ""]
        if self.budget:
            lines += ["| ns a packet | | source |", "|---:|---|---|"]
            lines += [f"| {each.ns_per_packet:z.2f} | {each.name} | {each.source} |" for each in self.budget]
            lines += [f"| **{self.ns_per_packet:.2f}** | whole | {self.measured_by} |", ""]
        return "\n".join([*lines, *(f"*Unknown:* {each}  " for each in self.unknown)])

    def _heading(self) -> str:
        """Where, and under which of the settings that matter."""
        shown = [(name, self.settings.get(name)) for name in TOLD]
        told = " ".join(f"{name}={value}" for name, value in shown if value is not None)
        return f"{self.rig} {told}, {self.engine}, {self.frame_bytes} B"

    def _limit(self) -> str:
        return self.limited_by or "no counter proves one"


def explain(trial: Trial, *, profile: Profile | None = None, measured_ns: float | None = None) -> Explanation:
    """Explain `trial`: what limits, where that changes, where a packet's time went.

    Parameters
    ----------
    trial : Trial
        Of any rig.
    profile : Profile or None
        The machine that a simulated rig simulates; without it only counters speak.
    measured_ns : float or None
        Time a packet as somebody measured or published it at this setting; it is then that time which the
        budget explains, and what the simulated machine does not account for stands as unexplained.
    """
    if measured_ns is not None:
        nanoseconds("measured_ns", measured_ns, least=0)
    if profile is None:
        return _by_counters(trial, measured_ns)
    sender = sender_of(trial)
    machine = completed(profile, sender)
    settings = dict(trial.settings_accepted)
    answer = simulate(machine, settings, sender, SETTLED)
    budget, zones = _answered(trial, answer)
    law = law_pps(machine, settings, sender)
    limited_by = trial.limiter
    # a count of full rings does not tell the ring from the wire behind it; the loop does
    if limited_by in {None, "TX ring"}:
        limited_by = limit_of_answer(machine, settings, sender, answer) or limited_by
    link = machine.value("link_bits_per_s")
    whole = _own_ns(trial) if measured_ns is None else measured_ns
    if whole is not None:
        whole *= sender.cpus  # the budget holds what every CPU did meanwhile
    ring: Any = settings.get("tx_ring", machine.driver.defaults["tx_ring"])
    return Explanation(
        rig=named(trial.rig, WHAT_IF if machine.what_if else None),
        engine=trial.engine,
        frame_bytes=trial.frame_bytes,
        settings=settings,
        limited_by=limited_by,
        evidence=_evidence(machine, settings, sender, budget, law),
        unknown=_unknown(machine, settings, sender),
        turns=turns(machine, settings, sender),
        ns_per_packet=whole,
        measured_by=_measured_by(trial, measured_ns, sender.cpus),
        budget=closed(budget, whole),
        law_pps=None if law is None else law[0][law[1]],
        wire_ns=wire_budget(trial.frame_bytes),
        link_ns=NS_PER_S / line_rate_pps(trial.frame_bytes, link),
        ring=_ring(trial, sender, ring, zones, link),
    )


def sender_of(trial: Trial) -> Sender:
    """The simulated sender of `trial`, as its environment names it, else by what the trial says itself."""
    named = trial.environment.get("sender")
    if named is not None:
        return msgspec.convert(named, Sender)
    gap_ns = NS_PER_S / trial.rate_pps if trial.rate_pps else 0.0
    return Sender(engine=trial.engine, frame_bytes=trial.frame_bytes, batch=trial.batch or 1, gap_ns=gap_ns)


def _own_ns(trial: Trial) -> float | None:
    """Time of a frame that the simulated machine dealt with: sent, or received where the far end sends."""
    if trial.engine != "receive" or trial.elapsed_ns is None or trial.peer_received is None:
        return trial.ns_per_packet
    return trial.elapsed_ns / trial.peer_received if trial.peer_received else None


def closed(budget: tuple[Share, ...], whole_ns: float | None) -> tuple[Share, ...]:
    """`budget` with a last part that makes it add up to `whole_ns`; nothing where there is no whole."""
    if whole_ns is None:
        return ()
    left = whole_ns - sum(share.ns_per_packet for share in budget)
    return (*budget, Share(name=UNEXPLAINED, ns_per_packet=left, source="what no other part accounts for"))


def _by_counters(trial: Trial, measured_ns: float | None) -> Explanation:
    whole = trial.ns_per_packet if measured_ns is None else measured_ns
    return Explanation(
        rig=trial.place,
        engine=trial.engine,
        frame_bytes=trial.frame_bytes,
        settings=dict(trial.settings_accepted),
        limited_by=trial.limiter,
        evidence=counted_evidence(trial),
        unknown=counted_unknown(trial),
        turns=(),
        ns_per_packet=whole,
        measured_by=_measured_by(trial, measured_ns),
        budget=closed(counted_budget(trial), whole),
        law_pps=None,
        wire_ns=wire_budget(
            trial.frame_bytes, on_wire=mean_wire_bytes(trial.environment.get("flow", {}), trial.frame_bytes)
        ),
        link_ns=None,
        ring=None,
    )


def _ring(trial: Trial, sender: Sender, ring: int, zones: Zones, link: float) -> RingZones | None:
    """The zones, where the sender's frames go through a TX ring at all."""
    if sender.engine == "receive" or sender.injects:
        return None
    label = ring_label(trial.settings_accepted, ring, trial.frame_bytes)
    return zones_of(label, ring, zones, trial.frame_bytes, link)


def _measured_by(trial: Trial, measured_ns: float | None, cpus: int = 1) -> str:
    told = trial.rig if measured_ns is None else "measured elsewhere"
    return told if cpus == 1 else f"{told}, time of {cpus} CPUs"


def _answered(trial: Trial, answer: Simulated) -> tuple[tuple[Share, ...], Zones]:
    """Budget and zones that the trial kept of its own run, else those of `answer`."""
    kept: dict[str, Any] = trial.environment.get("simulated") or {}
    if "budget" not in kept or "zones" not in kept:
        return answer.budget, answer.zones
    return msgspec.convert(kept["budget"], tuple[Share, ...]), msgspec.convert(kept["zones"], Zones)


def _evidence(
    profile: Profile,
    settings: dict[str, Scalar],
    sender: Sender,
    budget: tuple[Share, ...],
    law: tuple[dict[str, float], str] | None,
) -> tuple[str, ...]:
    total = sum(share.ns_per_packet for share in budget)
    if sender.engine == "receive":
        idle = wait_ns(budget, WAITS["idle_ps"])
        return (f"the receiver's CPU is idle for {idle:.1f} of {total:.1f} ns a packet",)
    waits = wait_ns(budget)
    lines = [
        f"the sender waits {waits:.1f} of {total:.1f} ns a packet for the ring"
        if waits
        else f"the sender never waits for the ring in its {total:.1f} ns a packet"
    ]
    if law is not None:
        usecs: Any = settings.get("rx_usecs", profile.driver.defaults["rx_usecs"])
        ring: Any = settings.get("tx_ring", profile.driver.defaults["tx_ring"])
        period_us = (profile.driver.rx_usecs.period_ns(usecs) or 0) / NS_PER_US
        stop = profile.driver.stop_descriptors
        lines.append(
            f"an interrupt every {period_us:.3f} us frees at most {ring} - {stop} = {ring - stop} descriptors"
        )
        each = ", ".join(f"{name} {pps / 1e6:.2f}" for name, pps in law[0].items())
        lines.append(f"the closed law's limits in Mpps: {each}")
    return tuple(lines)


def _unknown(profile: Profile, settings: dict[str, Scalar], sender: Sender) -> tuple[str, ...]:
    told = []
    if profile.what_if:
        told.append(f"nobody measured {profile.name}: its constants are assumptions")
    told += [
        f"whether '{name}' is true, which is taken for granted here: {HYPOTHESES[name]}"
        for name in sorted(sender.hypotheses)
    ]
    reason = uncovered(profile, settings, sender)
    if reason is not None:
        told.append(f"where another limit takes over: the closed law does not say, for {reason}")
    return tuple(told)
