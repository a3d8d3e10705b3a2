"""What a setting is: something to read, to write, and to read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

from labkit.errors import SettingRefusedError
from labkit.factors import Scalar


class Knob(Protocol):
    """One setting of one device."""

    @property
    def name(self) -> str:
        """One of `labkit.records.SETTING_NAMES`."""
        ...

    @property
    def resets_link(self) -> bool:
        """Whether writing takes the link down and up again."""
        ...

    def read(self) -> Scalar:
        """Value in force; None where the driver does not report it."""
        ...

    def write(self, value: Scalar) -> None:
        """Ask the kernel for `value`; `read` says what came of it.

        Raises
        ------
        SettingRefusedError
            A bad value, with the kernel's errno and words.
        CapabilityMissingError
            The kernel or driver does not have this setting.
        """
        ...


class CompoundKnob(ABC):
    """One knob behind several setting names that change together, such as a qdisc and its limit.

    What it reads and writes is the whole, as one text: so it is kept in a journal, compared and put back
    like any other value.
    """

    name: str
    resets_link: bool
    parts: tuple[str, ...]

    @abstractmethod
    def read(self) -> Scalar:
        """The whole, as in force."""

    @abstractmethod
    def write(self, value: Scalar) -> None:
        """Ask the kernel for the whole."""

    @abstractmethod
    def split(self, whole: Scalar) -> dict[str, Scalar]:
        """Value of each part."""

    @abstractmethod
    def joined(self, whole: Scalar, asked: Mapping[str, Scalar]) -> Scalar:
        """The whole that `asked` leads to from `whole`; refuses parts that do not go together."""


def whole_number(where: str, name: str, value: Scalar) -> int:
    """`value` as a whole number, or a SettingRefusedError that names the device and the setting."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingRefusedError(f"{where}: {name} {value!r} is no whole number; give one")
    return value


def values_of(
    knobs: Mapping[str, Knob], read: Callable[[Mapping[str, Knob]], Mapping[str, Scalar]] | None = None
) -> dict[str, Scalar]:
    """Every setting in force by its own name, the parts of compound knobs one by one.

    Parameters
    ----------
    read : callable or None
        Reads all knobs, where there is a quicker way than one by one.
    """
    values = {name: knob.read() for name, knob in knobs.items()} if read is None else read(knobs)
    found: dict[str, Scalar] = {}
    for name, knob in knobs.items():
        value = values[name]
        found.update(knob.split(value) if isinstance(knob, CompoundKnob) else {name: value})
    return found
