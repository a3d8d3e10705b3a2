"""Settings are turned in order, waited for and read back; a refusal leaves the device as it was."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import (
    CapabilityMissingError,
    JournalError,
    LabError,
    SettingRefusedError,
    WorkloadError,
)
from labkit.factors import Scalar
from labkit.nic.apply import SettingsHost
from labkit.nic.journal import MemoryJournal
from labkit.nic.knob import Knob
from labkit.rigs.base import Applied
from tests.sweep_fakes import FakeRig, Meter, sweep


class FakeKnob:
    """A value in memory that rounds and refuses as told, and keeps a diary."""

    def __init__(
        self,
        name: str,
        value: Scalar,
        diary: list[tuple[str, Scalar]],
        *,
        step: int = 1,
        resets: bool = False,
    ) -> None:
        self.name, self.resets_link = name, resets
        self.value, self.step, self.diary = value, step, diary
        self.refuses: set[Scalar] = set()

    def read(self) -> Scalar:
        return self.value

    def write(self, value: Scalar) -> None:
        if value in self.refuses:
            raise SettingRefusedError(
                f"eth7: {self.name} {value}", errno=errno.EINVAL, kernel_text="too much"
            )
        self.diary.append((self.name, value))
        self.value = value + -value % self.step if type(value) is int else value


class Clock:
    """Time that passes while somebody sleeps; the link is down between two moments."""

    def __init__(self, down_s: tuple[float, float] = (0.0, 0.0)) -> None:
        self.now_s, self._down_s = 0.0, down_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def carrier(self) -> bool:
        return not self._down_s[0] < self.now_s <= self._down_s[1]


class Card:
    """A card with rings, coalescing and a queue length."""

    def __init__(self, clock: Clock | None = None, **values: Scalar) -> None:
        self.clock = clock or Clock()
        self.diary: list[tuple[str, Scalar]] = []
        given = {
            "rx_usecs": 3,
            "rx_frames": None,
            "tx_usecs": 5,
            "tx_ring": 512,
            "txqueuelen": 1000,
            "adaptive_rx": True,
            "adaptive_tx": False,
            **values,
        }
        self.knobs = {
            name: FakeKnob(
                name, value, self.diary, step=8 if name == "tx_ring" else 1, resets=name == "tx_ring"
            )
            for name, value in given.items()
        }
        self.journal = MemoryJournal()
        knobs: dict[str, Knob] = dict(self.knobs)
        self.host = SettingsHost(
            "eth7",
            knobs,
            self.journal,
            self.clock.carrier,
            monotonic=self.clock.monotonic,
            sleep=self.clock.sleep,
        )

    def values(self) -> Mapping[str, Scalar]:
        return {name: knob.value for name, knob in self.knobs.items()}


def test_accepted_is_what_the_driver_made_of_it() -> None:
    card = Card()
    accepted = card.host.apply({"tx_ring": 1001})
    assert accepted["tx_ring"] == 1008
    assert accepted["rx_frames"] is None
    (entry,) = card.journal.entries()
    assert (entry.original, entry.written, entry.accepted) == (512, 1001, 1008)


def test_adaptive_goes_off_before_fixed_values_and_comes_back_behind_them() -> None:
    card = Card()
    accepted = card.host.apply({"rx_usecs": 30})
    assert card.diary == [("adaptive_rx", False), ("rx_usecs", 30)]
    assert (accepted["adaptive_rx"], accepted["adaptive_tx"]) == (False, False)
    assert [entry.name for entry in card.journal.entries()] == ["adaptive_rx", "rx_usecs"]
    card.host.restore(0)
    assert card.diary[2:] == [("rx_usecs", 3), ("adaptive_rx", True)]


def test_adaptive_that_was_turned_on_goes_off_before_fixed_values_come_back() -> None:
    card = Card(adaptive_rx=False)
    card.host.apply({"adaptive_rx": True, "rx_usecs": 30})
    card.host.restore(0)
    assert card.diary == [
        ("rx_usecs", 30),
        ("adaptive_rx", True),
        ("adaptive_rx", False),
        ("rx_usecs", 3),
    ]


def test_the_other_directions_adaptive_stays_on_from_beginning_to_end() -> None:
    # met in vyos: one field set, the others reset
    card = Card(adaptive_rx=False, adaptive_tx=True)
    accepted = card.host.apply({"rx_usecs": 30})
    assert accepted["adaptive_tx"] is True
    card.host.restore(0)
    assert card.diary == [("rx_usecs", 30), ("rx_usecs", 3)]


def test_adaptive_that_the_driver_refuses_is_tried_once_and_reads_as_it_was() -> None:
    card = Card(adaptive_rx=False)
    card.knobs["adaptive_rx"].refuses = {True}
    with pytest.raises(SettingRefusedError, match="EINVAL"):
        card.host.apply({"adaptive_rx": True})
    assert (card.host.current()["adaptive_rx"], card.diary) == (False, [])


class CardRig(FakeRig):
    """A rig whose settings are those of a card."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self.card = card

    @contextmanager
    def applied(self, settings: Mapping[str, Any]) -> Iterator[Applied]:
        accepted = self.card.host.apply(settings)
        try:
            yield Applied(asked=dict(settings), accepted=accepted, effective=accepted)
        finally:
            self.card.host.restore(0)


def test_point_without_carrier_is_a_gap_of_the_sweep_and_never_0_pps(tmp_path: Path) -> None:
    # met with tg3: the link is down for seconds behind a ring change
    card = Card(Clock((0.0, 12.0)))
    measured = sweep(CardRig(card), Meter(), {"tx_ring": [64, 128]}, repeats=1)
    results = measured.run(tmp_path / "results.sqlite", progress=False)
    assert results.state == "finished"
    (gap,) = results.gaps
    assert "no carrier within 10 s after tx_ring changed" in gap.gap.reason
    (trial,) = results.trials
    assert trial.pps
    assert card.values()["tx_ring"] == 512


def test_adaptive_that_is_not_reported_does_not_hinder_fixed_values() -> None:
    card = Card(adaptive_rx=None)
    card.host.apply({"rx_usecs": 30})
    assert card.diary == [("rx_usecs", 30)]


def test_only_what_changes_is_written() -> None:
    card = Card()
    card.host.apply({"tx_ring": 512, "txqueuelen": 9, "tx_usecs": 5})
    assert card.diary == [("txqueuelen", 9)]


def test_levels_come_back_one_by_one_or_all_at_once() -> None:
    card = Card()
    before = card.values()
    card.host.apply({"txqueuelen": 1})
    card.host.apply({"txqueuelen": 2})
    card.host.restore(1)
    assert card.values()["txqueuelen"] == 1
    card.host.apply({"txqueuelen": 3})
    card.host.apply({})
    card.host.apply({"txqueuelen": 4})
    assert card.host.level == 4
    card.host.restore(0)
    assert (card.values(), card.host.level, card.journal.entries()) == (before, 0, [])
    assert card.host.restore(0) == []


def test_refused_setting_in_the_middle_leaves_device_unchanged() -> None:
    card = Card()
    before = card.values()
    card.knobs["txqueuelen"].refuses = {7}
    with pytest.raises(SettingRefusedError, match=r"EINVAL.*too much") as told:
        card.host.apply({"rx_usecs": 30, "tx_ring": 64, "txqueuelen": 7})
    assert told.value.errno == errno.EINVAL
    assert ("tx_ring", 64) in card.diary
    assert (card.values(), card.host.level, card.journal.entries()) == (before, 0, [])


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"nosuch": 1, "tx_ring": 64}, WorkloadError, "unknown setting nosuch"),
        ({"tx_ring": "large"}, WorkloadError, "tx_ring 'large': give a whole number"),
        ({"tx_ring": 64, "channels": 4}, CapabilityMissingError, "eth7 has no setting 'channels'"),
        ({"tx_ring": 64, "rx_frames": 4}, CapabilityMissingError, "does not report 'rx_frames'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    settings: dict[str, Any], error: type[LabError], said: str
) -> None:
    card = Card()
    with pytest.raises(error, match=said):
        card.host.apply(settings)
    assert (card.diary, card.journal.entries()) == ([], [])


def test_link_that_comes_back_late_is_waited_for() -> None:
    card = Card(Clock((0.2, 3.2)))
    card.host.apply({"tx_ring": 64})
    assert 3.7 <= card.clock.now_s < 3.8


def test_link_that_stays_down_is_an_error_and_the_settings_are_back() -> None:
    card = Card(Clock((0.0, 1e9)))
    before = card.values()
    with pytest.raises(SettingRefusedError, match="no carrier within 10 s after tx_ring changed"):
        card.host.apply({"tx_ring": 64})
    assert card.values() == before
    assert card.clock.now_s == pytest.approx(20, abs=0.1)


def test_link_without_carrier_before_is_not_waited_for() -> None:
    card = Card(Clock((-1.0, 1e9)))
    assert card.host.apply({"tx_ring": 64})["tx_ring"] == 64
    assert card.clock.now_s == 0.0


def test_setting_that_does_not_reset_the_link_waits_for_nothing() -> None:
    card = Card()
    card.host.apply({"txqueuelen": 5})
    assert card.clock.now_s == 0.0


def test_value_that_somebody_else_set_is_left_alone_and_told() -> None:
    card = Card()
    card.host.apply({"txqueuelen": 5, "tx_ring": 64})
    card.knobs["txqueuelen"].value = 77
    results = {result.name: result.outcome for result in card.host.restore(0)}
    assert results == {"txqueuelen": "foreign", "tx_ring": "restored"}
    assert (card.values()["txqueuelen"], card.values()["tx_ring"]) == (77, 512)


def test_setting_that_cannot_be_put_back_is_told_and_tried_again() -> None:
    card = Card()
    before = card.values()
    card.host.apply({"txqueuelen": 5, "tx_ring": 64})
    card.knobs["tx_ring"].refuses = {512}
    with pytest.raises(JournalError, match="tx_ring could not be put back to 512"):
        card.host.restore(0)
    assert card.values()["txqueuelen"] == 1000
    card.knobs["tx_ring"].refuses = set()
    card.host.restore(0)
    assert card.values() == before


def test_forgotten_originals_make_the_present_the_way_back() -> None:
    card = Card()
    card.host.apply({"txqueuelen": 5})
    card.host.forget_originals()
    card.host.apply({"txqueuelen": 6})
    card.host.restore(0)
    assert card.values()["txqueuelen"] == 5
