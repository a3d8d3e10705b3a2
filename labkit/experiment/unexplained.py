"""What the published tables leave unexplained: numbers, worked out, and what was said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from labkit.experiment.published import PublishedPoint
from labkit.experiment.published_cases import Case, cases
from labkit.paths import data_dir
from labkit.rigs.profiles import load_profiles
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.sender import HYPOTHESES
from labkit.units import NS_PER_S, percent_error


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
        The lab's figure with one of `labkit.simnic.sender.HYPOTHESES` taken to be true.
    """

    name: str
    unit: str
    published: float
    lab: float
    error: float
    about: str
    hypotheses: dict[str, float]

    def as_text(self) -> str:
        """One line for people."""
        taken = "; ".join(
            f"with '{name}' {value:.0f} ({percent_error(value, self.published):+.1f} %)"
            for name, value in self.hypotheses.items()
        )
        numbers = f"published {self.published:.7g} {self.unit}, lab {self.lab:.7g}"
        return f"{self.name}: {numbers}. {self.about}{'. ' if taken else ''}{taken}"


FLUSH: Final = "qdisc path with flush 8"
UNEXPLAINED: Final[Mapping[str, str]] = {
    FLUSH: "46 ns are saved past the qdisc and none on the path through it; its author asked how. "
    "The patch as posted defers the doorbell in packet_direct_xmit alone, which leaves 1 % ('bypass-only')",
    "HARD_TX_LOCK": "two LOCK operations less should save 16 ns, 7 were seen: 'another limit reached'",
    "1 to 2 CPUs": "twice the CPUs send more than twice as much (2.12 and 2.10 times) in kernel commit "
    "d346a3fae3ff; CPUs that share nothing give twice, CPUs that share a line less",
    "v1-followup": "'on top of V1' is faster than the series' own last step at the same setting, ring 1024 "
    "and rx-usecs 1, by 9.35 ns a packet",
    "image 2": "a poll of its own for sent frames saves a segment so many ns, which the loop's interrupts "
    "and polls do not; gfar_poll returns its whole budget after it cleaned any frame, so that each such poll "
    "is followed by another one",
}
"""What stays open, by name."""


def unexplained(points: Sequence[PublishedPoint]) -> list[Unexplained]:
    """Each of `UNEXPLAINED` with its numbers; `points` are those of `published_points`."""
    profiles = load_profiles(data_dir() / "profiles")
    step = {point.setting.get("step"): point for point in points if point.file == "pktgen_patch_steps"}
    saved = _saved(step["patch5"], step["no HARD_TX_LOCK"])
    followup = next(
        point
        for point in points
        if point.table == "v1-followup" and point.setting == {"tx_ring": 1024, "rx_usecs": 1}
    )
    faster = _figure(step["patch5"].published) - NS_PER_S / _figure(followup.published)
    images = profiles["gianfar"], profiles["gianfar@image2"]
    image1, image2 = (_mean(points, f"image {number}", "default") for number in (1, 2))
    return [
        _flush(profiles),
        _open("HARD_TX_LOCK", "ns/packet", *saved),
        _open("1 to 2 CPUs", "times", *_scaling(points)),
        _open("v1-followup", "ns/packet", faster, 0.0),
        _open(
            "image 2",
            "Mbit/s",
            image2,
            image1,
            extra=f" (fitted here: {images[0].value('segment_ns') - images[1].value('segment_ns'):.0f} ns)",
        ),
    ]


def _flush(profiles: Mapping[str, Profile]) -> Unexplained:
    case = next(
        case for case in cases() if case.setting == {"path": "qdisc path", "variant": "flush threshold 8"}
    )
    lab = _with(case, profiles, frozenset())
    return Unexplained(
        name=FLUSH,
        unit=case.unit,
        published=case.published,
        lab=lab,
        error=percent_error(lab, case.published),
        about=UNEXPLAINED[FLUSH],
        hypotheses={name: _with(case, profiles, frozenset({name})) for name in HYPOTHESES},
    )


def _with(case: Case, profiles: Mapping[str, Profile], hypotheses: frozenset[str]) -> float:
    sender = msgspec.structs.replace(case.sender, hypotheses=hypotheses)
    profile = profiles[case.profile]
    return case.figure(profile, simulate(profile, case.settings, sender, case.run))


def _saved(before: PublishedPoint, after: PublishedPoint) -> tuple[float, float]:
    published = _figure(before.published) - _figure(after.published)
    return published, _figure(before.lab) - _figure(after.lab)


def _scaling(points: Sequence[PublishedPoint]) -> tuple[float, float]:
    one, two = (
        next(
            point
            for point in points
            if point.table == "d346a3fae3ff"
            and point.setting["cpus"] == cpus
            and "bypass" in str(point.setting["setting"])
        )
        for cpus in (1, 2)
    )
    return _figure(two.published) / _figure(one.published), _figure(two.lab) / _figure(one.lab)


def _mean(points: Sequence[PublishedPoint], table: str, coalescing: str) -> float:
    rates = [
        _figure(point.published)
        for point in points
        if point.table == table and point.unit == "Mbit/s" and point.setting["coalescing"] == coalescing
    ]
    return sum(rates) / len(rates)


def _figure(value: float | None) -> float:
    if value is None:
        raise ValueError("this point has a figure")
    return value


def _open(name: str, unit: str, published: float, lab: float, extra: str = "") -> Unexplained:
    return Unexplained(
        name=name,
        unit=unit,
        published=published,
        lab=lab,
        error=percent_error(lab, published),
        about=UNEXPLAINED[name] + extra,
        hypotheses={},
    )
