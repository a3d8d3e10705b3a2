"""A card in memory: settings as its driver takes them, turned as real ones are, and a link."""

from __future__ import annotations

import errno
from typing import Final

from labkit.errors import SettingRefusedError
from labkit.factors import Scalar, Settings
from labkit.nic.apply import SettingsHost
from labkit.nic.ethtool_knobs import resets_link
from labkit.nic.guard import change_list
from labkit.nic.journal import MemoryJournal
from labkit.rigs.simulated_faults import Faults
from labkit.simnic.profile import Profile
from labkit.simnic.settings import accepted_value, first_value, setting_rules

DEVICE: Final = "eth0"
LINK_BACK_S: Final = 3.0
"""Simulated seconds until the link is back after a reset: what a tg3 takes (systemd issue 28696)."""


class SimulatedKnob:
    """One setting of a simulated card (`labkit.nic.knob.Knob`)."""

    def __init__(self, card: SimulatedDevice, name: str, *, resets_link: bool) -> None:
        self.name, self.resets_link = name, resets_link
        self._card = card

    def read(self) -> Scalar:
        """Value in force."""
        return self._card.values[self.name]

    def write(self, value: Scalar) -> None:
        """Ask the driver for `value`; `read` says what it made of it."""
        self._card.write(self.name, value, resets_link=self.resets_link)


class SimulatedDevice:
    """Settings, link and clock of one simulated card.

    Parameters
    ----------
    profile : Profile
        The machine.
    faults : Faults
        What goes wrong.

    Attributes
    ----------
    values : dict of str to int
        Settings in force.
    settings : SettingsHost
        Turns them and leads back, as on a real device; its clock is this card's.
    """

    def __init__(self, profile: Profile, faults: Faults) -> None:
        self._profile, self._faults = profile, faults
        self._first = {name: first_value(rule) for name, rule in setting_rules(profile).items()}
        self.values = dict(self._first)
        self._now_s = self._link_back_s = 0.0
        self._knobs = {
            name: SimulatedKnob(self, name, resets_link=resets_link(name, profile.driver))
            for name in self._first
        }
        self.settings = SettingsHost(
            DEVICE,
            self._knobs,
            MemoryJournal(),
            lambda: self.carrier,
            monotonic=lambda: self._now_s,
            sleep=self._sleep,
        )

    @property
    def carrier(self) -> bool:
        """Whether the link is up now, in simulated time."""
        stuck = any(self.values[name] != self._first[name] for name in self._faults.link_down_after)
        return not stuck and self._now_s >= self._link_back_s

    def accepted(self, name: str, asked: Scalar) -> int:
        """What the driver makes of `asked`; raises what it refuses, and changes nothing."""
        if name in self._faults.refuse:
            raise SettingRefusedError(
                f"{DEVICE}: {name} {asked} is refused; leave it as it is",
                errno=errno.EINVAL,
                kernel_text="refused by fault injection",
            )
        return accepted_value(self._profile, name, asked, self.values)

    def write(self, name: str, value: Scalar, *, resets_link: bool) -> None:
        """Take a value as the driver takes it."""
        self.values[name] = self.accepted(name, value)
        if resets_link:
            self._link_back_s = self._now_s + LINK_BACK_S

    def preview(self, asked: Settings) -> str:
        """What applying `asked` would do, one line a change, and what becomes of values that are rounded."""
        wanted = {name: self.accepted(name, value) for name, value in asked.items()}
        resets = {name: LINK_BACK_S for name in wanted if self._knobs[name].resets_link}
        rounded = [
            f"{name}: {value} becomes {wanted[name]}"
            for name, value in asked.items()
            if value != wanted[name]
        ]
        return "\n".join([change_list(wanted, self.values, resets), *rounded])

    def _sleep(self, seconds: float) -> None:
        self._now_s += seconds
