"""What ethtool turns on one device as knobs: rings, coalescing, also by queue, channels, pause, features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from labkit.errors import CapabilityMissingError, SettingRefusedError
from labkit.factors import BY_QUEUE_SETTINGS, Scalar
from labkit.linux.ethtool import Ethtool
from labkit.linux.ethtool_messages import CHANNELS, COALESCE, PAUSE, RINGS
from labkit.linux.interfaces import Interface
from labkit.nic.knob import Knob

RESETS_UNLESS_KNOWN: Final = frozenset({*RINGS.kinds, *CHANNELS.kinds, *PAUSE.kinds, "mtu"})
"""Taken to reset the link where nothing is known of a driver: waiting for a carrier costs little."""


class LinkResets(Protocol):
    """The one fact of a driver (`labkit.drivers.facts`) that is needed here."""

    def resets(self, setting: str) -> bool | None:
        """Whether changing `setting` takes the link down and up; None when that is not known."""
        ...


class KnobGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one device that one request reads.

    Attributes
    ----------
    where : str
        The device, for messages.
    interface : Interface
        The device.
    reader : callable
        All settings of the group by name; None is not reported by the driver.
    writer : callable
        Changes the settings that are named, and no other.
    maxima : callable or None
        Largest values by name, where the kernel tells any.
    """

    where: str
    interface: Interface
    reader: Callable[[int], dict[str, Scalar]]
    writer: Callable[[int, Mapping[str, Scalar]], None]
    maxima: Callable[[int], dict[str, int]] | None = None

    def read(self) -> dict[str, Scalar]:
        """All settings of the group."""
        return self.reader(self.interface.ifindex)


class EthtoolKnob(msgspec.Struct, frozen=True, kw_only=True):
    """One setting (`labkit.nic.knob.Knob`).

    Attributes
    ----------
    name : str
        ethtool's word in snake case.
    resets_link : bool
        Writing it takes the link down and up.
    group : KnobGroup
        What is read and written with it.
    """

    name: str
    resets_link: bool
    group: KnobGroup

    def read(self) -> Scalar:
        """Value in force; None where the driver does not report one."""
        return self.group.read().get(self.name)

    def maximum(self) -> int | None:
        """Largest value that the kernel tells, or None."""
        return (
            None
            if self.group.maxima is None
            else self.group.maxima(self.group.interface.ifindex).get(self.name)
        )

    def write(self, value: Scalar) -> None:
        """Set it, and nothing else.

        Raises
        ------
        CapabilityMissingError
            The device has no such setting; the kernel was not asked to change it.
        SettingRefusedError
            Above the maximum (the kernel was not asked), or refused by the kernel.
        """
        where = f"{self.group.where}: {self.name} {value}"
        if self.read() is None:
            raise CapabilityMissingError(f"{where}: the driver reports no {self.name} (n/a); leave it out")
        most = self.maximum()
        if most is not None and isinstance(value, int) and value > most:
            raise SettingRefusedError(f"{where}: the device takes {most} at most; ask for {most} or less")
        self.group.writer(self.group.interface.ifindex, {self.name: value})


class KnobOfEnds(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of several devices that change together; the first one tells.

    Attributes
    ----------
    name : str
        ethtool's word in snake case.
    knobs : list of Knob
        The same setting of each device.
    """

    name: str
    knobs: list[Knob]
    resets_link: bool = False

    def read(self) -> Scalar:
        """Value in force; None without a device."""
        return self.knobs[0].read() if self.knobs else None

    def write(self, value: Scalar) -> None:
        """Set it on each device, as its own knob does."""
        for knob in self.knobs:
            knob.write(value)


def ethtool_knobs(ethtool: Ethtool, interface: Interface, facts: LinkResets | None) -> dict[str, EthtoolKnob]:
    """Every setting that the device answers for; a device without rings gets no ring knobs.

    A feature that the driver has fixed is a knob that refuses to be written.

    Raises
    ------
    LabError
        The device is gone.
    """
    where = interface.name
    groups = [
        KnobGroup(where=where, interface=interface, reader=reader, writer=writer, maxima=maxima)
        for reader, writer, maxima in (
            (ethtool.rings, ethtool.set_rings, ethtool.ring_maxima),
            (ethtool.coalesce, ethtool.set_coalesce, None),
            (ethtool.coalesce_by_queue, ethtool.set_coalesce_by_queue, None),
            (ethtool.channels, ethtool.set_channels, ethtool.channel_maxima),
            (ethtool.pause, ethtool.set_pause, None),
            (ethtool.features, ethtool.set_features, None),
        )
    ]
    return {
        name: EthtoolKnob(name=name, resets_link=resets_link(name, facts), group=group)
        for group in groups
        for name in _names(group)
    }


def ask_for_absent(ethtool: Ethtool, where: str, ifindex: int, names: Iterable[str]) -> None:
    """Ask the kernel for settings that the device gave no knob for, so that its own words say why.

    Raises
    ------
    CapabilityMissingError
        The kernel's refusal of the first of them that it refuses.
    """
    groups = (
        (RINGS.kinds, ethtool.rings),
        (COALESCE.kinds, ethtool.coalesce),
        (BY_QUEUE_SETTINGS, ethtool.coalesce_by_queue),
        (CHANNELS.kinds, ethtool.channels),
        (PAUSE.kinds, ethtool.pause),
    )
    for name in names:
        for known, read in groups:
            if name in known:
                try:
                    read(ifindex)
                except CapabilityMissingError as missing:
                    raise CapabilityMissingError(
                        f"{where} has no setting '{name}': {missing.message}",
                        errno=missing.errno,
                        kernel_text=missing.kernel_text,
                    ) from missing


def read_together(knobs: Mapping[str, Any]) -> dict[str, Scalar]:
    """Values of all `knobs` by name, those of one ethtool group by one request.

    Knobs of other kinds are read one by one.
    """
    groups: dict[KnobGroup, dict[str, Scalar]] = {}
    values: dict[str, Scalar] = {}
    for name, knob in knobs.items():
        if isinstance(knob, EthtoolKnob):
            if knob.group not in groups:
                groups[knob.group] = knob.group.read()
            values[name] = groups[knob.group].get(knob.name)
        else:
            values[name] = knob.read()
    return values


def resets_link(name: str, facts: LinkResets | None) -> bool:
    """Whether changing setting `name` is taken to reset the link under a driver of these `facts`."""
    known = None if facts is None else facts.resets(name)
    return name in RESETS_UNLESS_KNOWN if known is None else known


def _names(group: KnobGroup) -> tuple[str, ...]:
    try:
        return tuple(group.read())
    except CapabilityMissingError:
        return ()
