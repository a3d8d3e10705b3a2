"""Which asked levels of a factor are one level to the driver."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from labkit.drivers.facts import DriverFacts
from labkit.errors import LabError
from labkit.factors import Scalar


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """A level that is not measured, for the driver makes the same of another one.

    Attributes
    ----------
    asked, instead : scalar
        The level, and the one that is measured for both.
    accepted : scalar
        What the driver makes of either.
    """

    asked: Scalar
    instead: Scalar
    accepted: Scalar


class Levels(msgspec.Struct, frozen=True, kw_only=True):
    """Levels of one factor that the driver tells apart, and those that fell together with one of them."""

    setting: str
    driver: str
    levels: tuple[Scalar, ...]
    merged: tuple[Merged, ...]

    def __str__(self) -> str:
        count = len(self.levels)
        if not self.merged:
            return f"{self.setting}: {count} levels, all different to {self.driver}"
        reasons = ", ".join(f"{each.accepted} of {each.asked} as of {each.instead}" for each in self.merged)
        asked = count + len(self.merged)
        return f"{self.setting}: {count} of {asked} levels are run: {self.driver} makes {reasons}"


def distinct_levels(facts: DriverFacts, setting: str, levels: Iterable[Scalar]) -> Levels:
    """Leave out each of `levels` that the driver accepts as the same value as an earlier one.

    A level that it refuses, or of which it is not known what becomes, stays: measuring will tell.
    """
    first: dict[Scalar, Scalar] = {}
    kept: list[Scalar] = []
    merged: list[Merged] = []
    for level in levels:
        accepted = _accepted(facts, setting, level)
        if accepted is not None and accepted in first:
            merged.append(Merged(asked=level, instead=first[accepted], accepted=accepted))
            continue
        if accepted is not None:
            first[accepted] = level
        kept.append(level)
    return Levels(setting=setting, driver=facts.name, levels=tuple(kept), merged=tuple(merged))


def _accepted(facts: DriverFacts, setting: str, level: Scalar) -> Scalar:
    try:
        return facts.accepted(setting, level)
    except LabError:
        return None
