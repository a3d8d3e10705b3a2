"""Which limit holds at one setting of a simulated machine, and where another one takes over."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec
import numpy as np

from labkit.analysis.ring import SETTLED
from labkit.errors import SettingRefusedError
from labkit.simnic.law import limits
from labkit.simnic.loop import WAITS, simulate
from labkit.simnic.profile import Constant, Profile
from labkit.simnic.run import Share, Simulated
from labkit.simnic.sender import Sender, doorbell_frames, terms
from labkit.units import NS_PER_S, line_rate_pps

RING_WAIT: Final = WAITS["ring_wait_ps"]
LINE_RATE_SHARE: Final = 0.995
"""Share of the wire's time from which the wire is said to limit; below, the ring runs dry now and then."""
WAITING_SHARE: Final = 0.001
"""Share of its time that a sender waits before the ring is said to limit it."""
MOST_TURNS: Final = 4
SEARCHED: Final = 8
"""Levels on from the law's turn where the event loop may have its own."""
NAMES: Final = ("TX ring", "line rate", "CPU")

Axis = Literal["tx_ring", "rx_usecs"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Where one limit ends and the next begins, on one setting, all others as they are.

    Attributes
    ----------
    setting : str
        ``tx_ring`` or ``rx_usecs``.
    last, first : int
        Neighbouring levels that the driver accepts: the last of the one limit, the first of the other.
    before, after : str
        The two limits by the closed law.
    loop_last, loop_first : int or None
        The nearest levels at which the event loop names the same two limits; None when `SEARCHED` levels on
        it still names another one.
    loop_pps : tuple of float
        The event loop's packets per second at `last` and `first`.
    """

    setting: Axis
    last: int
    first: int
    before: str
    after: str
    loop_last: int | None
    loop_first: int | None
    loop_pps: tuple[float, float]

    @property
    def confirmed(self) -> bool:
        """Whether the event loop names the same two limits at both sides."""
        return (self.last, self.first) == (self.loop_last, self.loop_first)

    def text(self) -> str:
        """One line for people."""
        speeds = " and ".join(f"{pps / 1e6:.2f}" for pps in self.loop_pps)
        told = f"the event loop agrees: {speeds} Mpps"
        if not self.confirmed:
            last, first = (level or "further on" for level in (self.loop_last, self.loop_first))
            told = f"the event loop: up to {last}, from {first}; {speeds} Mpps at the law's two"
        return f"{self.before} up to {self.setting} {self.last}, {self.after} from {self.first} ({told})"


def wait_ns(budget: Sequence[Share], name: str = RING_WAIT) -> float:
    """Nanoseconds a packet of one kind of waiting."""
    return sum(share.ns_per_packet for share in budget if share.name == name)


def limit_of(
    profile: Profile, sender: Sender, budget: Sequence[Share], *, refused: int, bql_stops: bool = False
) -> str | None:
    """What limits a sender whose time a packet went where `budget` says; None when nothing was sent."""
    total = sum(share.ns_per_packet for share in budget)
    if not total:
        return None
    waits = {name: wait_ns(budget, name) / total for name in WAITS.values()}
    wire_ns = NS_PER_S / line_rate_pps(sender.frame_bytes, profile.value("link_bits_per_s"))
    if sender.engine == "receive":
        return "CPU" if waits[WAITS["idle_ps"]] < WAITING_SHARE else "arrivals"
    if not sender.injects and wire_ns >= LINE_RATE_SHARE * total / sender.cpus:
        return "line rate"
    if waits[WAITS["pacing_wait_ps"]] > WAITING_SHARE:
        return "pacing"
    if waits[WAITS["window_wait_ps"]] > WAITING_SHARE:
        return "peer"
    if waits[RING_WAIT] + waits[WAITS["idle_ps"]] > WAITING_SHARE or refused:
        return "BQL" if bql_stops else "TX ring"
    return "CPU"


def limit_of_answer(
    profile: Profile, settings: Mapping[str, Any], sender: Sender, answer: Simulated
) -> str | None:
    """The same for an answer of the event loop."""
    ring = settings.get("tx_ring", profile.driver.defaults["tx_ring"]) - profile.driver.stop_descriptors
    limit = answer.bql_limit_bytes
    stops = limit is not None and limit < ring * sender.frame_bytes
    return limit_of(profile, sender, answer.budget, refused=answer.refused, bql_stops=stops)


def uncovered(profile: Profile, settings: Mapping[str, Any], sender: Sender) -> str | None:
    """Why the closed law says nothing here; None where it does."""
    usecs = settings.get("rx_usecs", profile.driver.defaults["rx_usecs"])
    if profile.driver.moderation != "interval":
        return "it knows interrupts by interval alone, not by hold-off"
    if not profile.driver.rx_usecs.period_ns(usecs):
        return f"rx-usecs {usecs} does not moderate interrupts"
    if sender.engine in {"receive", "tcp"} or sender.injects:
        return f"it knows no {sender.xmit_mode if sender.injects else sender.engine}"
    if sender.through_qdisc:
        return "it knows no byte queue limits"
    return "it knows one CPU at full speed" if sender.cpus > 1 or sender.gap_ns else None


def frame_cost_ns(profile: Profile, sender: Sender) -> float:
    """What sending one frame costs, doorbells and calls shared out among theirs; cleaning not."""
    doorbells = math.ceil(sender.batch / doorbell_frames(profile, sender))  # a call's end rings one, too
    frames = {"frame": 1, "burst": sender.batch / doorbells, "call": sender.batch}
    return sum(term.ns / frames[term.per] for term in terms(profile, sender))


def law_profile(profile: Profile, sender: Sender) -> Profile:
    """`profile` with all that one frame of `sender` costs as the law's cost of a packet."""
    cost = frame_cost_ns(profile, sender) + profile.value("clean_ns")
    packet = Constant(value=cost, kind="fitted", source="sum of the sender's terms")
    return msgspec.structs.replace(
        profile, constants=msgspec.structs.replace(profile.constants, packet_ns=packet)
    )


def law_pps(
    profile: Profile, settings: Mapping[str, Any], sender: Sender
) -> tuple[dict[str, float], str] | None:
    """The law's three limits in packets per second, and which is smallest; None where it covers nothing."""
    if uncovered(profile, settings, sender):
        return None
    values = {**profile.driver.defaults, **settings}
    found = limits(
        law_profile(profile, sender),
        tx_rings=[values["tx_ring"]],
        periods_ns=[profile.driver.rx_usecs.period_ns(values["rx_usecs"]) or 0],
        frame_bytes=sender.frame_bytes,
    )
    columns = (found.ring_pps, found.wire_pps, found.cpu_pps)
    each = {name: float(column[0]) for name, column in zip(NAMES, columns, strict=True)}
    return each, min(each, key=lambda name: each[name])


def turns(profile: Profile, settings: Mapping[str, Any], sender: Sender) -> tuple[Turn, ...]:
    """Every change of the limit over the driver's rings and over its intervals, one setting turned at a time.

    The law finds them among all levels that the driver accepts; the event loop then runs at both sides. None
    where the law covers nothing (`uncovered`).
    """
    if uncovered(profile, settings, sender):
        return ()
    values = {**profile.driver.defaults, **settings}
    cost = law_profile(profile, sender)
    found: list[Turn] = []
    for axis in ("tx_ring", "rx_usecs"):
        levels = _levels(profile, axis)
        named = _limits_over(cost, values, axis, levels, sender.frame_bytes)
        edges = [place for place, (one, next_) in enumerate(pairwise(named)) if one != next_]
        found += [
            _turn(profile, values, sender, axis, levels, place, (named[place], named[place + 1]))
            for place in edges[:MOST_TURNS]
        ]
    return tuple(found)


def _levels(profile: Profile, axis: Axis) -> list[int]:
    """Levels of a setting that the driver takes as they are; its codes are modes, not numbers."""
    rule = profile.driver.tx_ring if axis == "tx_ring" else profile.driver.rx_usecs
    if rule.minimum is None or rule.maximum is None:
        return []
    taken: dict[int, None] = {}
    for level in range(rule.minimum, rule.maximum + 1):
        with contextlib.suppress(SettingRefusedError):
            taken[rule.accepted(level, axis)] = None
    numbers = [level for level in taken if level not in rule.codes]
    return numbers if axis == "tx_ring" else [level for level in numbers if rule.period_ns(level)]


def _limits_over(
    profile: Profile, values: Mapping[str, Any], axis: Axis, levels: Sequence[int], frame_bytes: int
) -> list[str]:
    if not levels:
        return []
    rings = levels if axis == "tx_ring" else [values["tx_ring"]] * len(levels)
    usecs = levels if axis == "rx_usecs" else [values["rx_usecs"]] * len(levels)
    periods = [profile.driver.rx_usecs.period_ns(each) or 0 for each in usecs]
    found = limits(profile, tx_rings=rings, periods_ns=periods, frame_bytes=frame_bytes)
    smallest = np.argmin([found.ring_pps, found.wire_pps, found.cpu_pps], axis=0)
    return [NAMES[place] for place in smallest]


def _turn(
    profile: Profile,
    values: Mapping[str, Any],
    sender: Sender,
    axis: Axis,
    levels: Sequence[int],
    place: int,
    named: tuple[str, str],
) -> Turn:
    """The turn between ``levels[place]`` and the next, with the event loop run at both sides."""
    below, above = levels[place::-1][:SEARCHED], levels[place + 1 :][:SEARCHED]
    loop_last, last_pps = _nearest(profile, values, sender, axis, below, named[0])
    loop_first, first_pps = _nearest(profile, values, sender, axis, above, named[1])
    return Turn(
        setting=axis,
        last=below[0],
        first=above[0],
        before=named[0],
        after=named[1],
        loop_last=loop_last,
        loop_first=loop_first,
        loop_pps=(last_pps, first_pps),
    )


def _nearest(
    profile: Profile,
    values: Mapping[str, Any],
    sender: Sender,
    axis: Axis,
    levels: Sequence[int],
    wanted: str,
) -> tuple[int | None, float]:
    """First of `levels` where `wanted` limits the event loop, and packets per second at the first of all."""
    first_pps: float | None = None
    for level in levels:
        settings = {**values, axis: level}
        answer = simulate(profile, settings, sender, SETTLED)
        first_pps = (answer.pps or 0.0) if first_pps is None else first_pps
        if limit_of_answer(profile, settings, sender, answer) == wanted:
            return level, first_pps
    return None, first_pps or 0.0
