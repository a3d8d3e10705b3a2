"""What goes wrong on a simulated card, on purpose: frozen, and the same on each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from labkit.errors import WorkloadError
from labkit.rigs.base import LONGEST_S
from labkit.simnic.profile import Profile
from labkit.simnic.settings import setting_rules


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults of a simulated rig; by default there are none.

    Attributes
    ----------
    refuse : tuple of str
        Settings of which the driver takes no new value.
    link_down_after : tuple of str
        Settings whose change takes the link down until the old value is back.
    carrier_lost_after_s : float or None
        So long after a run's start the link is lost; behind the run it is back.
    wrap, reset : tuple of str
        Counters that wrap at their width within each run (a driver's statistic at 32 bits, the link's at 64),
        or start again at 0 in its middle.
    drop_interrupt_every : int
        Every so many interrupts of the card one is lost; 0 loses none.
    """

    refuse: tuple[str, ...] = ()
    link_down_after: tuple[str, ...] = ()
    carrier_lost_after_s: float | None = None
    wrap: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    drop_interrupt_every: int = 0


def faults_of(given: Faults | Mapping[str, Any] | None) -> Faults:
    """`given` as a record; a mapping may hold text, as the command line does: ``refuse=tx_ring;rx_usecs``.

    Raises
    ------
    WorkloadError
        An unknown fault, or a value of the wrong kind.
    """
    known = Faults.__struct_fields__
    if given is None:
        return Faults()
    if isinstance(given, Faults):  # built by hand, it may hold values of any kind
        given = msgspec.structs.asdict(given)
    if not isinstance(given, Mapping):
        raise WorkloadError(f"faults {given!r}: give lk.Faults(...) or a mapping; known: {', '.join(known)}")
    for name in given:
        if name not in known:
            raise WorkloadError(f"unknown fault '{name}'; known: {', '.join(known)}")
    try:
        return msgspec.convert(
            {name: _value(name, value) for name, value in given.items()}, Faults, strict=False
        )
    except msgspec.ValidationError as odd:
        raise WorkloadError(f"faults: {odd}") from odd


def check_faults(faults: Faults, profile: Profile, counters: Iterable[str]) -> None:
    """Raise `WorkloadError` for what the card does not have, and for numbers out of range."""
    known_counters = sorted(set(counters))
    for fault, known in (
        ("refuse", list(setting_rules(profile))),
        ("link_down_after", list(setting_rules(profile))),
        ("wrap", known_counters),
        ("reset", known_counters),
    ):
        for name in getattr(faults, fault):
            if name not in known:
                raise WorkloadError(
                    f"fault {fault}: sim:{profile.name} has no {name}; it has {', '.join(known)}"
                )
    lost_s = faults.carrier_lost_after_s
    if lost_s is not None and not 0 <= lost_s <= LONGEST_S:
        raise WorkloadError(f"fault carrier_lost_after_s {lost_s}: give 0 to {LONGEST_S:g} seconds")
    if not 0 <= faults.drop_interrupt_every < 2**32:
        raise WorkloadError(
            f"fault drop_interrupt_every {faults.drop_interrupt_every}: give 0 for none, or a number above"
        )


def _value(name: str, value: Any) -> Any:
    names = name in {"refuse", "link_down_after", "wrap", "reset"}
    return tuple(part.strip() for part in value.split(";")) if names and isinstance(value, str) else value
