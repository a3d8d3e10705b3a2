"""Which trials to run, in which order: worked out beforehand, as plain data. No clock, no file."""

from __future__ import annotations

import hashlib
import itertools
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from labkit.errors import WorkloadError
from labkit.factors import NAMES_OF, SETTING_NAMES, WORKLOAD_FACTORS, Scalar, typed

MAX_TRIALS: Final = 1_000_000
"""Most trials of one plan: eleven days at a second each, and all of them are held in memory."""


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is varied, and the levels it takes in the order asked."""

    name: str
    levels: tuple[Scalar, ...]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One trial to run.

    Attributes
    ----------
    index : int
        Which combination of levels, counted from 0 in the order of the factors.
    repeat : int
        Which randomised block, counted from 0: a block runs every combination once.
    levels : dict of str to scalar
        Level of each factor.
    """

    index: int
    repeat: int
    levels: dict[str, Scalar]


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every trial of a sweep in the order in which it runs; equal arguments give equal plans.

    Attributes
    ----------
    factors : tuple of Factor
        What is varied.
    repeats : int
        Randomised blocks.
    seed : int
        Seed of the order (numpy's PCG64).
    duration_s, warmup_s : float
        Seconds each trial sends, and sends before it counts.
    points : tuple of Point
        Trials in running order.
    count : int or None
        Frames that each trial sends, if `duration_s` is not over before; None sends for `duration_s`.
    """

    factors: tuple[Factor, ...]
    repeats: int
    seed: int
    duration_s: float
    warmup_s: float
    points: tuple[Point, ...]
    count: int | None = None

    @classmethod
    def of(
        cls,
        factors: Mapping[str, Iterable[Scalar]],
        *,
        repeats: int = 5,
        duration_s: float = 1.0,
        warmup_s: float = 0.1,
        seed: int = 0,
        count: int | None = None,
    ) -> Plan:
        """Plan every combination of `factors`' levels `repeats` times, in randomised blocks.

        Raises
        ------
        WorkloadError
            An unknown factor; a factor without levels or with one twice; numbers out of range.
        """
        _require(_is_whole(repeats) and repeats >= 1, f"repeats is {repeats!r}: ask for 1 or more")
        _require(_is_whole(seed) and seed >= 0, f"seed is {seed!r}: give a whole number from 0 up")
        _require(
            _is_number(duration_s) and duration_s > 0, f"duration_s is {duration_s!r}: give seconds above 0"
        )
        _require(
            _is_number(warmup_s) and warmup_s >= 0, f"warmup_s is {warmup_s!r}: give seconds, or 0 for none"
        )
        _require(count is None or (_is_whole(count) and count >= 1), f"count is {count!r}: give 1 or more")
        checked = tuple(_factor(name, levels) for name, levels in factors.items())
        trials = math.prod(len(factor.levels) for factor in checked) * repeats
        _require(trials <= MAX_TRIALS, f"{trials} trials are over {MAX_TRIALS}: ask for fewer, in parts")
        return cls(
            factors=checked,
            repeats=repeats,
            seed=seed,
            duration_s=float(duration_s),
            warmup_s=float(warmup_s),
            points=_blocks(_combinations(checked), repeats, seed),
            count=count,
        )

    def with_levels(self, levels: Mapping[str, tuple[Scalar, ...]]) -> Plan:
        """Plan the same with other levels of the factors that `levels` names."""
        if not levels:
            return self
        return Plan.of(
            {factor.name: levels.get(factor.name, factor.levels) for factor in self.factors},
            repeats=self.repeats,
            duration_s=self.duration_s,
            warmup_s=self.warmup_s,
            seed=self.seed,
            count=self.count,
        )

    @property
    def combinations(self) -> tuple[dict[str, Scalar], ...]:
        """Every combination of levels once, in the order of the factors."""
        return _combinations(self.factors)

    @property
    def total_s(self) -> float:
        """Seconds of sending, warm-up included; with a `count` the most. Settling and repeats come on top."""
        return len(self.points) * (self.duration_s + self.warmup_s)

    @property
    def digest(self) -> str:
        """Content as 64 hexadecimal digits; a stopped sweep is found again by it."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    def __str__(self) -> str:
        least = f"at least {self.total_s:g} s" if self.count is None else f"{self.count} frames each"
        head = (
            f"{len(self.points)} trials = {len(self.combinations)} points x {self.repeats} repeats, "
            f"{least}; order from seed {self.seed}"
        )
        return "\n".join([head, *_table(self)])


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise WorkloadError(f"plan: {message}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _factor(name: str, levels: Iterable[Scalar]) -> Factor:
    known = SETTING_NAMES | WORKLOAD_FACTORS
    _require(name in known, f"factor {name!r} is unknown; known are {', '.join(sorted(known))}")
    listed = not isinstance(levels, str | bytes) and isinstance(levels, Iterable)
    _require(listed, f"levels of {name} are {levels!r}: give a list, such as [{levels!r}]")
    values = tuple(_level(name, level) for level in levels)
    _require(bool(values), f"factor {name} has no levels: give at least one")
    twice = [level for place, level in enumerate(values) if level in values[:place]]
    _require(not twice, f"factor {name} names {twice} twice; repeats=N measures a level more often")
    return Factor(name=name, levels=values)


def _level(name: str, level: object) -> Scalar:
    try:
        value = typed(name, level)
    except WorkloadError as error:
        raise WorkloadError(f"plan: {error}") from error
    finite = not isinstance(value, float) or math.isfinite(value)
    _require(finite, f"level {value} of {name} is not finite")
    known = NAMES_OF.get(name)
    unknown = known is not None and value is not None and value not in known
    _require(not unknown, f"{name} {value!r} is unknown; known are {', '.join(sorted(known or ()))}")
    return value


def _combinations(factors: tuple[Factor, ...]) -> tuple[dict[str, Scalar], ...]:
    names = [factor.name for factor in factors]
    products = itertools.product(*(factor.levels for factor in factors))
    return tuple(dict(zip(names, levels, strict=True)) for levels in products)


def _blocks(combinations: tuple[dict[str, Scalar], ...], repeats: int, seed: int) -> tuple[Point, ...]:
    import numpy as np

    shuffler = np.random.Generator(np.random.PCG64(seed))
    return tuple(
        Point(index=int(index), repeat=repeat, levels=combinations[index])
        for repeat in range(repeats)
        for index in shuffler.permutation(len(combinations))
    )


def _table(plan: Plan) -> list[str]:
    """Return the points in running order, one line each, as columns."""
    names = [factor.name for factor in plan.factors]
    rows = [["trial", "repeat", *names]] + [
        [str(place), str(point.repeat), *(str(point.levels[name]) for name in names)]
        for place, point in enumerate(plan.points)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
