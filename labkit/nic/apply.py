"""Turns settings of one device and always leads back: journal, write, wait for the link, read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from labkit.errors import (
    CapabilityMissingError,
    JournalError,
    SettingRefusedError,
    WorkloadError,
    listed,
)
from labkit.factors import BY_QUEUE_SETTINGS, BY_QUEUE_SUFFIX, SETTING_NAMES, Scalar, Settings, typed
from labkit.linux.ethtool_messages import CHANNELS, COALESCE, RINGS
from labkit.linux.queues import APART
from labkit.nic.ethtool_knobs import read_together
from labkit.nic.journal import FileJournal, Journal, Owner
from labkit.nic.knob import CompoundKnob, Knob, values_of
from labkit.nic.put_back import STUCK, PutBack, put_back

CARRIER_WITHIN_S = 10.0
SETTLED_AFTER_S = 0.5
"""How long the carrier stays before it is believed: drivers take it down behind the call that resets them."""
STEP_S = 0.025
FIXED = ("usecs", "frames", "usecs_irq", "frames_irq")
"""Coalescing that adaptive moderation of the same direction overrides."""
OF_QUEUES = ("bql_limit_min", "bql_limit_max", "xps_cpus", "rps_cpus", "irq_affinity", *BY_QUEUE_SETTINGS)
"""Settings that a queue loses when it goes, and does not get back when it comes again."""
REMAKES_QUEUES = frozenset({*COALESCE.kinds, *RINGS.kinds})
"""Settings of the device behind whose change each queue may have the device's moderation."""

Change: TypeAlias = tuple[str, Scalar, Scalar]


class SettingsHost:
    """Settings of one device, the way back to what they were, and nothing of how they are read or written.

    Parameters
    ----------
    where : str
        Name of the device in messages.
    knobs : mapping of str to Knob
        What the device has, in the order in which it is to be written.
    journal : Journal
        Where originals are kept until they are back.
    carrier : callable
        Whether the link has carrier now.
    absent : mapping of str to str
        Why the device has no knob of that name here, where that is known.
    carrier_within_s, settled_after_s : float
        Longest wait for the carrier after a reset, and how long it has to stay.
    monotonic, sleep : callable
        The clock in seconds.
    """

    def __init__(
        self,
        where: str,
        knobs: Mapping[str, Knob],
        journal: Journal,
        carrier: Callable[[], bool],
        *,
        absent: Mapping[str, str] = MappingProxyType({}),
        carrier_within_s: float = CARRIER_WITHIN_S,
        settled_after_s: float = SETTLED_AFTER_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._where = where
        self._knobs = knobs
        self._journal = journal
        self._carrier, self._absent = carrier, absent
        self._carrier_within_s, self._settled_after_s = carrier_within_s, settled_after_s
        self._monotonic, self._sleep = monotonic, sleep
        self.level = 0

    def current(self) -> dict[str, Scalar]:
        """Every setting in force; None where the driver does not report one."""
        return values_of(self._knobs, read_together)

    def check(self, settings: Settings) -> None:
        """Raise what `apply` would refuse before its first write; nothing is changed."""
        self._changes(self._checked(settings))

    def apply(self, settings: Settings) -> dict[str, Scalar]:
        """Turn `settings`, keep the originals for `restore`, and read back everything in force.

        A refusal in the middle puts back what was changed before it.

        Raises
        ------
        WorkloadError
            A setting that nobody knows, or a value of another kind.
        CapabilityMissingError
            A setting that this device does not have, or does not report: there would be no way back.
        SettingRefusedError
            With the kernel's errno and words, or because the link did not come back with the new values.
        JournalError
            The originals cannot be kept, so nothing was changed.
        """
        changes = self._changes(self._checked(settings))
        had_carrier = self._resets(name for name, _, _ in changes) and self._carrier()
        try:
            kept = self._lost_with(changes)
            for place, entry in enumerate(self._journal.plan(self.level, [*kept, *changes])):
                self._journal.begin(entry.number)
                if place < len(kept):  # put back whatever it then is: queues that went have forgotten theirs
                    continue
                self._knobs[entry.name].write(entry.written)
                self._journal.accept(entry.number, self._knobs[entry.name].read())
            if had_carrier:
                self._await_carrier(", ".join(name for name, _, _ in changes))
        except BaseException as failure:
            self._put_back(self.level, failure)
            raise
        self.level += 1
        return self.current()

    def restore(self, level: int) -> list[PutBack]:
        """Put back what every `apply` beyond the first `level` changed, the newest first; harmless twice.

        Raises
        ------
        JournalError
            Something could not be put back; all else was, and the journal keeps it.
        """
        results = self._put_back(level, None)
        self.level = min(level, self.level)
        return results

    def recover(self, alive: Callable[[Owner], bool]) -> list[PutBack]:
        """Finish what dead processes left of this device; call it with the device's lock held."""
        results: list[PutBack] = []
        if isinstance(self._journal, FileJournal):
            for left in self._journal.leftovers(alive):
                results += put_back(self._where, left.entries(), self._knobs, left)
                if not left.entries():
                    left.remove()
        if self._resets(result.name for result in results if result.outcome == "restored"):
            self._carrier_stays()
        return results

    def forget_originals(self) -> None:
        """Make what is in force now the state that `restore` leads back to."""
        for entry in self._journal.entries():
            self._journal.finish(entry.number)
        self.level = 0

    def _checked(self, settings: Settings) -> dict[str, Scalar]:
        """Settings by the kind of value, every name known and there."""
        unknown = sorted(settings.keys() - SETTING_NAMES)
        if unknown:
            known = ", ".join(sorted(SETTING_NAMES))
            raise WorkloadError(f"unknown setting {', '.join(unknown)}; known: {known}")
        asked = {name: typed(name, value) for name, value in settings.items()}
        for name in asked:
            if self._knob_of(name) is None:
                has = listed(tuple(self.current()))
                why = f": {self._absent[name]}" if name in self._absent else ""
                raise CapabilityMissingError(f"{self._where} has no setting '{name}'{why} (it has {has})")
        return asked

    def _knob_of(self, name: str) -> Knob | None:
        for knob in self._knobs.values():
            if isinstance(knob, CompoundKnob) and name in knob.parts:
                return knob
        return self._knobs.get(name)

    def _changes(self, asked: Mapping[str, Scalar]) -> list[Change]:
        """Name, original and value of each knob to write, in order.

        Adaptive moderation goes off before fixed values of its direction and comes on behind them.
        """
        wanted = {**asked, **self._adaptive_off(asked)}
        changes = []
        for name, knob in self._knobs.items():
            parts = knob.parts if isinstance(knob, CompoundKnob) else (name,)
            mine = {part: wanted[part] for part in parts if part in wanted}
            if mine:
                changes.append(self._change(name, knob, mine))
        return sorted((one for one in changes if one[1] != one[2]), key=_turn)

    def _adaptive_off(self, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Adaptive moderation that would override fixed values of `asked`, of the device and of queues."""
        fixed = {name.removesuffix(BY_QUEUE_SUFFIX) for name in asked}
        off: dict[str, Scalar] = {}
        for direction in ("rx", "tx"):
            device = f"adaptive_{direction}"
            queues = f"{device}{BY_QUEUE_SUFFIX}"
            overridden = not fixed.isdisjoint(f"{direction}_{field}" for field in FIXED)
            if not overridden or device in asked or queues in asked:
                continue
            if self._adapts(device):
                off[device] = False
            if self._adapts(queues):
                off[queues] = "off"
        return off

    def _adapts(self, name: str) -> bool:
        return name in self._knobs and _is_on(self._knobs[name].read())

    def _lost_with(self, changes: Iterable[Change]) -> list[Change]:
        """Settings of queues as they are, where a change takes them away: put back behind it."""
        changed = {name for name, _, _ in changes}
        lost = BY_QUEUE_SETTINGS if changed & REMAKES_QUEUES else ()
        lost = OF_QUEUES if changed & CHANNELS.kinds.keys() else lost
        values = [(name, self._knobs[name].read()) for name in lost if name in self._knobs]
        return [(name, value, value) for name, value in values if value is not None]

    def _change(self, name: str, knob: Knob, mine: Mapping[str, Scalar]) -> Change:
        original = knob.read()
        if original is None:
            raise CapabilityMissingError(
                f"{self._where} does not report '{name}', so it could not be put back; nothing was changed"
            )
        target = knob.joined(original, mine) if isinstance(knob, CompoundKnob) else mine[name]
        return name, original, target

    def _put_back(self, level: int, failure: BaseException | None) -> list[PutBack]:
        entries = [entry for entry in self._journal.entries() if entry.level >= level]
        results = put_back(self._where, entries, self._knobs, self._journal)
        if self._resets(result.name for result in results if result.outcome == "restored"):
            self._carrier_stays()
        stuck = [result.text for result in results if result.outcome in STUCK]
        if stuck:
            first = f"{failure}; and " if failure is not None else ""
            raise JournalError(f"{first}{'; '.join(stuck)}. `labkit restore` tries again") from failure
        return results

    def _resets(self, names: Iterable[str]) -> bool:
        return any(self._knobs[name].resets_link for name in names)

    def _await_carrier(self, turned: str) -> None:
        if not self._carrier_stays():
            raise SettingRefusedError(
                f"{self._where}: no carrier within {self._carrier_within_s:g} s after {turned} changed; the "
                f"settings were put back. Look at the cable and at the other end"
            )

    def _carrier_stays(self) -> bool:
        """Whether the carrier is back within the bound, and has stayed for a while."""
        now = self._monotonic()
        deadline, since = now + self._carrier_within_s, now
        while now <= deadline:
            now = self._monotonic()
            if not self._carrier():
                since = now
            elif now - since >= self._settled_after_s:
                return True
            self._sleep(STEP_S)
        return False


def _turn(change: Change) -> int:
    name, _, value = change
    if not name.startswith("adaptive_"):
        return 1
    return 2 if _is_on(value) else 0


def _is_on(adaptive: Scalar) -> bool:
    """Whether moderation adapts, on the device or on one of its queues."""
    return adaptive is True or (isinstance(adaptive, str) and "on" in adaptive.split(APART))
