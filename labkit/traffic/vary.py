"""Values that a field takes over the frames of a flow: counted, listed, or drawn with a seed."""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labkit.errors import WorkloadError
from labkit.traffic.draws import drawn

Value: TypeAlias = int | str
Limbs: TypeAlias = tuple[NDArray[Any], ...]
"""Values of a field, one a frame: uint32 up to 32 bits, uint64 up to 64, two uint64 (upper, lower) above."""

LOWER = (1 << 64) - 1
LISTED_IN_FULL = 64
"""Lists up to this length are described value by value, longer ones by their digest."""


class Field(Protocol):
    """What a generator must know of the field that it fills."""

    @property
    def name(self) -> str:
        """Layer and field, as in ``UDP.sport``."""
        ...

    @property
    def bits(self) -> int:
        """Width of the field."""
        ...

    @property
    def usual(self) -> tuple[int, int]:
        """Range of random values when none is given."""
        ...

    def number(self, value: object) -> int:
        """Turn `value` into the field's number; WorkloadError when it is none."""
        ...


class Generator(Protocol):
    """What `vary` maps a field's name to."""

    def draw(self, field: Field, seed: int) -> Limbs:
        """Values for `field`, one a frame."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say in plain JSON values what is drawn."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """`n` values from `start` in steps of `step`; no wrapping around."""

    start: Value
    n: int
    step: int = 1

    def draw(self, field: Field, seed: int) -> Limbs:  # noqa: ARG002
        """Values for `field`; the first and the last must fit it."""
        first = field.number(self.start)
        last = field.number(first + (self.n - 1) * self.step)
        step = abs(last - first) // max(1, self.n - 1)
        distances: NDArray[Any] = np.arange(self.n, dtype=_dtype(field.bits))
        distances *= _dtype(field.bits)(step)
        return _limbs(field.bits, min(first, last), distances if self.step > 0 else distances[::-1])

    def describe(self) -> dict[str, Any]:
        """Start, number and step."""
        return {"count": self.n, "start": self.start, "step": self.step}


@dataclass(frozen=True, slots=True)
class Choices:
    """The listed values in their order; a value listed twice is sent twice as often."""

    values: tuple[Value, ...]

    def draw(self, field: Field, seed: int) -> Limbs:  # noqa: ARG002
        """Values for `field`; each must fit it."""
        numbers = self._numbers(field)
        if field.bits <= 64:
            return (np.array(numbers, dtype=_dtype(field.bits)),)
        return (
            np.array([number >> 64 for number in numbers], dtype=np.uint64),
            np.array([number & LOWER for number in numbers], dtype=np.uint64),
        )

    def _numbers(self, field: Field) -> list[int]:
        values: list[Any] = list(self.values)
        if set(map(type, values)) == {int}:  # the ends tell of all, four times as fast as one by one
            field.number(min(values))
            field.number(max(values))
            return values
        return [field.number(value) for value in values]

    def describe(self) -> dict[str, Any]:
        """List the values, or their number and digest when there are many."""
        if len(self.values) <= LISTED_IN_FULL:
            return {"choices": list(self.values)}
        digest = hashlib.sha256(json.dumps(self.values).encode()).hexdigest()
        return {"choices": len(self.values), "sha256": digest}


@dataclass(frozen=True, slots=True)
class Randoms:
    """`n` seeded random values from `low` to `high`, both included; see `randoms`."""

    n: int
    low: Value | None = None
    high: Value | None = None
    distinct: bool = True
    seed: int | None = None

    def draw(self, field: Field, seed: int) -> Limbs:
        """Values for `field`; the same for the same seed, field and range, wherever and whenever drawn."""
        usual_low, usual_high = field.usual
        low = usual_low if self.low is None else field.number(self.low)
        high = usual_high if self.high is None else field.number(self.high)
        span = high - low + 1
        if span < 1 or span > 1 << 64:
            raise WorkloadError(f"{field.name}: low must not exceed high, nor lie more than 2**64 below it")
        if self.distinct and self.n > span:
            raise WorkloadError(
                f"{field.name}: {self.n} distinct values were asked of a range that has {span}; "
                "ask for fewer or widen the range with low and high"
            )
        own_seed = seed if self.seed is None else self.seed
        distances = drawn(own_seed, field.name, self.n, span, distinct=self.distinct)
        return _limbs(field.bits, low, distances.astype(_dtype(field.bits)))

    def describe(self) -> dict[str, Any]:
        """Number, range and how they are drawn."""
        return {
            "randoms": self.n,
            "low": self.low,
            "high": self.high,
            "distinct": self.distinct,
            "seed": self.seed,
        }


def count(start: Value, n: int, step: int = 1) -> Count:
    """`n` values from `start` (a number or the field's own text, like an address) in steps of `step`.

    Raises
    ------
    WorkloadError
        No values, or a step of 0 that gives the same value again.
    """
    n = _at_least_one("count", n)
    if not step and n > 1:
        raise WorkloadError(f"count: step 0 gives the same value {n} times; give another step")
    return Count(_plain(start), n, operator.index(step))


def choices(values: Iterable[Value]) -> Choices:
    """The listed values in their order; a value listed twice is sent twice as often.

    Raises
    ------
    WorkloadError
        The list is empty.
    """
    listed = tuple(map(_plain, values))
    _at_least_one("choices", len(listed))
    return Choices(listed)


def randoms(
    n: int,
    low: Value | None = None,
    high: Value | None = None,
    *,
    distinct: bool = True,
    seed: int | None = None,
) -> Randoms:
    """`n` seeded random values from `low` to `high`, both included, none twice unless ``distinct=False``.

    Without a range a number spans its whole field, an IPv4 address 198.18.0.0/15 (RFC 2544's own network), a
    MAC address 02:00:00:00:00:00 to 02:ff:ff:ff:ff:ff (locally administered, unicast), an IPv6 address the
    /64 of the packet. `seed` None draws with the flow's seed. The generator is PCG64 for good, and each field
    draws from a stream of its own: same seed, same values, in every process and on every day.

    Raises
    ------
    WorkloadError
        No values, or a seed below 0.
    """
    n = _at_least_one("randoms", n)
    if seed is not None:
        check_seed(seed)
    return Randoms(n, _plain(low), _plain(high), distinct, seed)


def parse_vary(text: str) -> tuple[str, Generator]:
    """Field and generator of ``NAME=start:n[:step]``, ``NAME=a,b,c`` or ``NAME=random:n[:low-high]``.

    A start that holds colons itself is put in brackets: ``Ether.src=[02:00:00:00:00:01]:64``.

    Raises
    ------
    WorkloadError
        The text has none of these forms.
    """
    name, equals, rest = (part.strip() for part in text.partition("="))
    if not (equals and rest and re.fullmatch(r"\w+\.\w+", name)):
        raise WorkloadError(f"{text!r} varies no field; write {VARY_FORMS}")
    if drawn := re.fullmatch(r"random:(\d+)(?::([^-]+)-([^-]+))?", rest):
        low, high = drawn[2], drawn[3]
        return name, randoms(int(drawn[1]), low and _value(low), high and _value(high))
    if counted := re.fullmatch(r"(\[.*\]|[^:,]+):(\d+)(?::(-?\d+))?", rest):
        return name, count(_value(counted[1]), int(counted[2]), int(counted[3] or 1))
    values = [part.strip() for part in rest.split(",")]
    if rest.startswith("random") or not all(values):
        raise WorkloadError(f"{text!r}: {rest!r} is no list of values; write {VARY_FORMS}")
    return name, choices([_value(value) for value in values])


VARY_FORMS = "NAME=start:n[:step], NAME=a,b,c or NAME=random:n[:low-high], with a NAME like UDP.sport"


def check_seed(seed: object) -> None:
    """Refuse what is no whole number from 0."""
    if not isinstance(seed, int) or seed < 0:
        raise WorkloadError(f"seed {seed!r} is not a whole number from 0")


def _value(text: str) -> Value:
    plain = text.strip().removeprefix("[").removesuffix("]")
    try:
        return int(plain, 0)
    except ValueError:
        return plain


def _at_least_one(what: str, n: object) -> int:
    number = _plain(n)
    if not isinstance(number, int) or number < 1:
        raise WorkloadError(f"{what}: {n!r} values make an empty flow; ask for a whole number from 1")
    return number


def _plain(value: Any) -> Any:
    """Python's own integer for a number of any library, for JSON; whatever else as it is."""
    try:
        return operator.index(value)
    except TypeError:
        return value


def _dtype(bits: int) -> type[np.uint32 | np.uint64]:
    return np.uint32 if bits <= 32 else np.uint64


def _limbs(bits: int, base: int, distances: NDArray[Any]) -> Limbs:
    if bits <= 64:
        return (distances + _dtype(bits)(base),)
    lower = distances + np.uint64(base & LOWER)
    carried = lower < distances
    return (carried + np.uint64(base >> 64), lower)
