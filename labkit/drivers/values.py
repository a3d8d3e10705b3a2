"""What a driver makes of one number: it takes, clamps, rounds or refuses it, or reads it as a code."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from labkit.errors import SettingRefusedError, WorkloadError
from labkit.factors import Scalar, typed
from labkit.units import NS_PER_US

U32_MAX: Final = 2**32 - 1
"""ethtool's ring and coalescing values are unsigned 32-bit (struct ethtool_ringparam, ethtool_coalesce)."""

Outside: TypeAlias = Literal["clamp", "refuse"]
Rounding: TypeAlias = Literal["up", "down", "power of two up", "power of two down", "power of two only"]


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is not a number but a mode.

    Attributes
    ----------
    meaning : str
        What the driver does then.
    period_ns : int or None
        Time between two interrupts in nanoseconds that the mode settles on under a flood of packets; None
        where there is none, or none is known.
    """

    meaning: str
    period_ns: int | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Values inside the range that the driver refuses.

    Attributes
    ----------
    low, high : int
        First and last refused value.
    why : str
        The driver's rule, and what to ask for instead.
    """

    low: int
    high: int
    why: str


class ValueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver takes one number: a ring size in descriptors, an interval in microseconds, frames.

    Attributes
    ----------
    source : str
        Where the facts were read: kernel file and function, or a capture.
    default : int or None
        Value after loading the driver; None where it is not known or depends on the device.
    minimum, maximum : int or None
        Range that the driver takes; None where it is not known or the device tells it.
    below, above : str
        What happens outside the range: ``clamp`` without a word, or ``refuse``.
    rounding : str
        Direction in which a value goes to the next multiple or power of two; ``power of two only`` refuses
        all others.
    multiple : int
        Step of rounding ``up`` and ``down``.
    refused : tuple of Refusal
        Refused values inside the range.
    codes : mapping of int to Code
        Values that are modes; they are taken as they are.
    step_ns : int or None
        The hardware counts an interval in steps of this many nanoseconds.
    usecs_per_step : int
        The driver programs one step for each whole `usecs_per_step` microseconds.
    """

    source: str
    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    below: Outside = "refuse"
    above: Outside = "refuse"
    rounding: Rounding = "up"
    multiple: int = 1
    refused: tuple[Refusal, ...] = ()
    codes: Mapping[int, Code] = {}
    step_ns: int | None = None
    usecs_per_step: int = 1

    def accepted(self, asked: int, setting: str = "value") -> int:
        """Value that is read back when `asked` is wanted for `setting`.

        Raises
        ------
        SettingRefusedError
            A value that the driver refuses; the message holds its rule.
        """
        if asked in self.codes:
            return asked
        for refusal in self.refused:
            if refusal.low <= asked <= refusal.high:
                raise _refused(f"{setting} {asked}: {refusal.why}")
        return self._rounded(self._in_range(asked, setting), setting)

    def period_ns(self, accepted: int) -> int | None:
        """Shortest time between two interrupts in nanoseconds; None when there is none or none is known."""
        if accepted in self.codes:
            return self.codes[accepted].period_ns
        return None if self.step_ns is None else accepted // self.usecs_per_step * self.step_ns

    def effective(self, accepted: int) -> float | None:
        """What the hardware does with `accepted`: microseconds of its own steps, or the number itself.

        None for a code without a known period.
        """
        if self.step_ns is None and accepted not in self.codes:
            return accepted
        period = self.period_ns(accepted)
        return None if period is None else period / NS_PER_US

    def _in_range(self, asked: int, setting: str) -> int:
        low = 0 if self.minimum is None else self.minimum
        if asked < low:
            if self.below == "clamp":
                return low
            raise _refused(f"{setting} {asked}: the driver takes {self._range()}; ask for {low} or more")
        if self.maximum is not None and asked > self.maximum:
            if self.above == "clamp":
                return self.maximum
            raise _refused(
                f"{setting} {asked}: the driver takes {self._range()}; ask for {self.maximum} or less"
            )
        return asked

    def _range(self) -> str:
        low = 0 if self.minimum is None else self.minimum
        return f"{low} or more" if self.maximum is None else f"{low} to {self.maximum}"

    def _rounded(self, number: int, setting: str) -> int:
        if self.rounding == "up":
            return -(-number // self.multiple) * self.multiple
        if self.rounding == "down":
            return number // self.multiple * self.multiple
        above = 1 << max(number - 1, 0).bit_length()
        below = above if above == number else above >> 1
        if self.rounding == "power of two up":
            return above
        if self.rounding == "power of two only" and above != number:
            raise _refused(
                f"{setting} {number}: the driver takes powers of two only; ask for {below} or {above}"
            )
        return below


def whole_number(setting: str, asked: Scalar) -> int:
    """`asked` as the kernel would be sent it for `setting`.

    Raises
    ------
    WorkloadError
        Not a whole number.
    SettingRefusedError
        A whole number that has no room in 32 bits.
    """
    number = typed(setting, asked)
    if not isinstance(number, int) or isinstance(number, bool):
        raise WorkloadError(f"{setting} {asked!r}: give a whole number")
    if not 0 <= number <= U32_MAX:
        raise SettingRefusedError(f"{setting} {number}: its field is 0 to {U32_MAX}", errno=errno.ERANGE)
    return number


def _refused(message: str) -> SettingRefusedError:
    return SettingRefusedError(message, errno=errno.EINVAL)
