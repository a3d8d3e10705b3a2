"""What a driver does to a setting: it refuses, clamps, rounds, or reads it as a code."""

from __future__ import annotations

import errno
from typing import Final

import msgspec

from labkit.errors import SettingRefusedError, WorkloadError
from labkit.records import Scalar, typed
from labkit.units import NS_PER_US

U32_MAX: Final = 2**32 - 1
"""ethtool's ring and coalescing values are unsigned 32-bit (struct ethtool_ringparam, ethtool_coalesce)."""


class RingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver takes a ring size, in descriptors; it clamps and rounds up without a word.

    Attributes
    ----------
    default, minimum, maximum : int
        Size after loading the driver, and the range that it clamps to.
    multiple : int
        Sizes are rounded up to a multiple of this.
    source : str
        Where the facts were read.
    """

    default: int
    minimum: int
    maximum: int
    multiple: int
    source: str

    def accepted(self, asked: int) -> int:
        """Descriptors that the driver sets up when `asked` are wanted."""
        clamped = min(max(asked, self.minimum), self.maximum)
        return -(-clamped // self.multiple) * self.multiple


class ThrottleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver takes an interrupt interval; two of its values are codes, not microseconds.

    Attributes
    ----------
    default_usecs, max_usecs : int
        Value after loading the driver, and the largest that it takes.
    off_usecs, dynamic_usecs : int
        Codes: no throttling, and an interval that the driver adapts by itself.
    step_ns, usecs_per_step : int
        The hardware counts in steps of `step_ns`; the driver programs one for each whole `usecs_per_step`.
    dynamic_steps : int
        Steps on which the dynamic mode settles under a flood of packets.
    source : str
        Where the facts were read.
    """

    default_usecs: int
    max_usecs: int
    off_usecs: int
    dynamic_usecs: int
    step_ns: int
    usecs_per_step: int
    dynamic_steps: int
    source: str

    def accepted(self, asked: int) -> int:
        """Value that is read back: `asked` itself.

        Raises
        ------
        SettingRefusedError
            Above `max_usecs` (the driver returns EINVAL).
        """
        if asked > self.max_usecs:
            raise SettingRefusedError(
                f"rx_usecs {asked}: the driver takes 0 to {self.max_usecs}; ask for {self.max_usecs} or less",
                errno=errno.EINVAL,
            )
        return asked

    def period_ns(self, accepted_usecs: int) -> int | None:
        """Shortest time between two interrupts in nanoseconds; None when throttling is off."""
        if accepted_usecs == self.off_usecs:
            return None
        if accepted_usecs == self.dynamic_usecs:
            return self.dynamic_steps * self.step_ns
        return accepted_usecs // self.usecs_per_step * self.step_ns

    def effective_usecs(self, accepted_usecs: int) -> float | None:
        """`period_ns` in microseconds; None when throttling is off."""
        period = self.period_ns(accepted_usecs)
        return None if period is None else period / NS_PER_US


class DriverFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One driver as of one kernel.

    Attributes
    ----------
    name, kernel : str
        The driver, and the kernel whose source the facts describe.
    tx_ring : RingFacts
        Transmit ring in descriptors.
    rx_usecs : ThrottleFacts
        Interrupt interval.
    stop_descriptors : int
        The queue stops when fewer descriptors than this are free.
    clean_limit : int
        Descriptors cleaned in one poll before it has to poll again.
    source : str
        Where the last two were read.
    """

    name: str
    kernel: str
    tx_ring: RingFacts
    rx_usecs: ThrottleFacts
    stop_descriptors: int
    clean_limit: int
    source: str


def whole_number(setting: str, asked: Scalar) -> int:
    """`asked` as ethtool would send it for `setting`.

    Raises
    ------
    WorkloadError
        Not a whole number.
    SettingRefusedError
        A whole number that ethtool has no room for.
    """
    number = typed(setting, asked)
    if not isinstance(number, int) or isinstance(number, bool):
        raise WorkloadError(f"{setting} {asked!r}: give a whole number")
    if not 0 <= number <= U32_MAX:
        raise SettingRefusedError(
            f"{setting} {number}: ethtool's field is 0 to {U32_MAX}", errno=errno.ERANGE
        )
    return number
