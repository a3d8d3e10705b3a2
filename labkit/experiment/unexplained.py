"""What the published tables leave unexplained: numbers, worked out, and what was said about them."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from math import isclose
from typing import Final

import msgspec

from labkit.experiment.published import PublishedPoint
from labkit.experiment.published_cases import Case, cases
from labkit.factors import Scalar
from labkit.paths import data_dir
from labkit.rigs.profiles import load_profiles
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.sender import HYPOTHESES
from labkit.units import NS_PER_S, percent_error

TEXT_COLUMNS: Final = 100
"""Width of the text for people."""
SAME: Final = 0.005
"""Relative difference up to which a hypothesis changes nothing."""


class Unexplained(msgspec.Struct, frozen=True, kw_only=True):
    """One published difference that no mechanism of the lab gives.

    Attributes
    ----------
    name : str
        What it is, short.
    unit : str
        Of the numbers.
    published, lab : float
        What was measured, and what the lab says.
    error : float
        Of the lab, in percent.
    about : str
        What is known or was said.
    hypotheses : dict of str to float
        The lab's figure with one explanation taken to be true: one of `labkit.simnic.sender.HYPOTHESES`,
        or what `about` tells of.
    """

    name: str
    unit: str
    published: float
    lab: float
    error: float
    about: str
    hypotheses: dict[str, float]

    @property
    def without_effect(self) -> list[str]:
        """Hypotheses that leave the lab's figure as it is."""
        return [name for name, value in self.hypotheses.items() if isclose(value, self.lab, rel_tol=SAME)]

    def as_text(self) -> str:
        """Lines for people: the numbers, what is known, and what each hypothesis would make of it."""
        idle = self.without_effect
        lines = [f"{self.name}: published {_digits(self.published)} {self.unit}, lab {self._told(self.lab)}"]
        lines += _indented(self.about)
        for name, value in self.hypotheses.items():
            if name not in idle:
                why = f": {HYPOTHESES[name]}" if name in HYPOTHESES else ""
                lines += _indented(f"if '{name}', lab {self._told(value)}{why}")
        if idle:
            lines += _indented(f"no difference with {', '.join(map(repr, idle))}")
        return "\n".join(lines)

    def _told(self, value: float) -> str:
        return f"{_digits(value)} ({percent_error(value, self.published):+.1f} %)"


def _digits(value: float) -> str:
    """Thousands in groups, smaller numbers with four digits."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"


def _indented(text: str) -> list[str]:
    """Wrap text below a head line."""
    return textwrap.wrap(text, TEXT_COLUMNS, initial_indent="  ", subsequent_indent="    ")


FLUSH: Final = "qdisc path with flush 8"
NO_LOCK: Final = "no HARD_TX_LOCK"
UNEXPLAINED: Final[Mapping[str, str]] = {
    FLUSH: "46 ns a packet are saved past the qdisc and none on the path through it; its author asked how.",
    "HARD_TX_LOCK": "Two LOCK operations less should save 16 ns a packet, and 7 were seen: 'another limit "
    "reached'.",
    "1 to 2 CPUs": "Twice the CPUs send more than twice as much in kernel commit d346a3fae3ff: 2.12 times "
    "past the qdisc, 2.10 through it. CPUs that share nothing give twice, CPUs that share a cache line less.",
    "v1-followup": "The kernel 'on top of V1' is this much faster than the series' own last step at the same "
    "setting, ring 1024 and rx-usecs 1, and the thread does not say why. What it measured beyond that step, "
    "without HARD_TX_LOCK, saved less.",
    "image 2": "A poll of its own for sent frames saves time on each segment that the loop's interrupts and "
    "polls do not give, so the lab's figure is that of image 1. gfar_poll returns its whole budget after it "
    "cleaned any frame: each such poll is followed by another one.",
}
"""What stays open, by name."""


def unexplained(points: Sequence[PublishedPoint]) -> list[Unexplained]:
    """Each of `UNEXPLAINED` with its numbers; `points` are those of `published_points`."""
    profiles = load_profiles(data_dir() / "profiles")
    flush = _point(points, path="qdisc path", variant="flush threshold 8")
    last, lockless = (_point(points, series="v1", step=step) for step in ("patch5", NO_LOCK))
    one, two = (_point(points, setting="AF_PACKET qdisc bypass 64 B", cpus=cpus) for cpus in (1, 2))
    return [
        _open(FLUSH, "pps", [flush], lambda rates: rates[0], profiles),
        _open("HARD_TX_LOCK", "ns/packet", [last, lockless], lambda ns: ns[0] - ns[1], profiles),
        _open("1 to 2 CPUs", "times", [one, two], lambda rates: rates[1] / rates[0], profiles),
        _followup(points, last, lockless),
        _image(points, profiles),
    ]


def _point(points: Sequence[PublishedPoint], table: str | None = None, **setting: Scalar) -> PublishedPoint:
    """First point with this setting: of one run, the rate stands before its other figures."""
    return next(
        point for point in points if setting.items() <= point.setting.items() and table in {None, point.table}
    )


def _open(
    name: str,
    unit: str,
    points: Sequence[PublishedPoint],
    difference: Callable[[list[float]], float],
    profiles: Mapping[str, Profile],
) -> Unexplained:
    """What of some points' figures stays open, with each hypothesis of the threads tried."""
    asked = [_case(point) for point in points]
    published = difference([_figure(point.published) for point in points])
    lab = difference([_figure(point.lab) for point in points])
    return Unexplained(
        name=name,
        unit=unit,
        published=published,
        lab=lab,
        error=percent_error(lab, published),
        about=UNEXPLAINED[name],
        hypotheses={
            each: difference([_with(case, profiles, frozenset({each})) for case in asked])
            for each in HYPOTHESES
        },
    )


def _case(point: PublishedPoint) -> Case:
    place = (point.file, point.table, point.setting, point.unit)
    return next(case for case in cases() if (case.file, case.table, case.setting, case.unit) == place)


def _with(case: Case, profiles: Mapping[str, Profile], hypotheses: frozenset[str]) -> float:
    sender = msgspec.structs.replace(case.sender, hypotheses=hypotheses)
    profile = profiles[case.profile]
    return case.figure(profile, simulate(profile, case.settings, sender, case.run))


def _followup(
    points: Sequence[PublishedPoint], last: PublishedPoint, lockless: PublishedPoint
) -> Unexplained:
    """A kernel faster than its series: the lab has it as a machine of its own, and for the step no figure."""
    followup = _point(points, "v1-followup", tx_ring=1024, rx_usecs=1)
    return Unexplained(
        name="v1-followup",
        unit="ns/packet",
        published=_figure(last.published) - NS_PER_S / _figure(followup.published),
        lab=0.0,
        error=-100.0,
        about=UNEXPLAINED["v1-followup"],
        hypotheses={NO_LOCK: _figure(last.published) - _figure(lockless.published)},
    )


def _image(points: Sequence[PublishedPoint], profiles: Mapping[str, Profile]) -> Unexplained:
    """What a Tx NAPI of its own saves: the lab without it, and with the saving that was fitted."""
    streams = [
        point
        for point in points
        if point.unit == "Mbit/s" and point.table == "image 2" and point.setting["coalescing"] == "default"
    ]
    plain = _figure(_point(points, "image 1", coalescing="default").lab)
    published = statistics.mean(_figure(point.published) for point in streams)
    saved_ns = profiles["gianfar"].value("segment_ns") - profiles["gianfar@image2"].value("segment_ns")
    return Unexplained(
        name="image 2",
        unit="Mbit/s",
        published=published,
        lab=plain,
        error=percent_error(plain, published),
        about=UNEXPLAINED["image 2"],
        hypotheses={f"{saved_ns:.0f} ns a segment are saved, fitted here": _figure(streams[0].lab)},
    )


def _figure(value: float | None) -> float:
    if value is None:
        raise ValueError("this point has a figure")
    return value
