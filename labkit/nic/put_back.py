"""Puts journalled settings back, one after the other, and says what became of each."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from labkit.errors import LabError
from labkit.factors import Scalar
from labkit.nic.journal import Entry, Journal
from labkit.nic.knob import Knob

Outcome: TypeAlias = Literal[
    "restored",
    "inexact",
    "unchanged",
    "foreign",
    "skipped",
    "refused",
    "gone",
    "busy",
    "forgotten",
    "damaged",
]
STUCK = frozenset({"refused", "gone", "busy"})
"""Outcomes that leave the entry in its journal."""


class PutBack(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one journalled setting, or of a whole file that cannot be read.

    Attributes
    ----------
    name : str
        The setting; of a ``damaged`` file its path, and nobody knows what it held.
    found : Scalar
        Value before anything was put back.
    text : str
        One line for people.
    """

    name: str
    original: Scalar
    found: Scalar
    outcome: Outcome
    text: str


def put_back(
    where: str, entries: Iterable[Entry], knobs: Mapping[str, Knob], journal: Journal
) -> list[PutBack]:
    """Bring `entries` to their originals, the newest first, and take settled ones out of `journal`.

    Newest first is also what adaptive moderation needs: what was turned off before fixed values comes back
    behind them, and what was turned on behind them goes off first. One that the device refuses stays in the
    journal and hinders no other; it is tried once more behind them.
    """
    results: dict[int, PutBack] = {}
    waiting = sorted(entries, key=lambda entry: entry.number, reverse=True)
    for _ in range(2):
        for entry in waiting:
            results[entry.number] = _one(where, entry, knobs.get(entry.name))
            if results[entry.number].outcome not in STUCK:
                journal.finish(entry.number)
        # a queue that is away takes nothing, and comes back with an older entry
        waiting = [entry for entry in waiting if results[entry.number].outcome in STUCK]
    return list(results.values())


def notes_of(results: Iterable[PutBack]) -> list[str]:
    """Lines about settings that are not as they were before; nothing about the others."""
    return [result.text for result in results if result.outcome not in {"restored", "unchanged"}]


def _one(where: str, entry: Entry, knob: Knob | None) -> PutBack:
    found: Scalar = None
    outcome: Outcome = "gone"
    why = ""
    try:
        if knob is not None:
            found = knob.read()
            outcome = _decide(entry, found)
            if outcome == "restored":
                knob.write(entry.original)
                now = knob.read()
                if now != entry.original:
                    outcome, why = "inexact", f"it reads {now!r}"
    except LabError as error:
        outcome, why = "gone" if error.errno == errno.ENODEV else "refused", str(error)
    text = f"{where}: {entry.name} {_words(entry, found, outcome)}"
    return PutBack(
        name=entry.name,
        original=entry.original,
        found=found,
        outcome=outcome,
        text=f"{text}: {why}" if why else text,
    )


def _decide(entry: Entry, found: Scalar) -> Outcome:
    if found == entry.original:
        return "unchanged"
    if found is None:
        return "gone"
    if entry.original is None:
        return "skipped"
    # behind a write that was not read back stands what the device made of it, which nobody knows
    if entry.state == "begun":
        return "restored"
    ours = entry.state == "accepted" and found in {entry.written, entry.accepted}
    return "restored" if ours else "foreign"


def _words(entry: Entry, found: Scalar, outcome: Outcome) -> str:
    return {
        "restored": f"put back to {entry.original!r}",
        "inexact": f"was written to {entry.original!r} again, and the device made something else of it",
        "unchanged": f"is {entry.original!r} as before",
        "foreign": (
            f"is {found!r}, which somebody else set: left alone; before the lab it was {entry.original!r}"
        ),
        "skipped": f"was not reported before, so {found!r} stays",
        "refused": f"could not be put back to {entry.original!r}",
        "gone": f"is not there to be put back to {entry.original!r}; kept for later",
    }[outcome]
