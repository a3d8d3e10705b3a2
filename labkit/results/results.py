"""Results of a sweep in memory: frozen rows, and pandas on request."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final

import msgspec

from labkit.errors import WorkloadError
from labkit.factors import SETTING_NAMES, Scalar
from labkit.records import Gap, Trial
from labkit.results.schema import State

if TYPE_CHECKING:
    import pandas as pd


SHOWN_TRIALS: Final = 10


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One trial and its place in the plan (`labkit.experiment.plan.Point`)."""

    point: int
    repeat: int
    levels: dict[str, Scalar]
    trial: Trial


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """One place of the plan where nothing could be measured."""

    point: int
    repeat: int
    levels: dict[str, Scalar]
    gap: Gap


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep measured.

    Attributes
    ----------
    sweep_id : int or None
        Number in the store; None for what never was there.
    rig : str
        Where it was measured.
    state : str
        ``running``, ``finished``, ``cancelled`` or ``failed``.
    factors : dict of str to tuple
        Planned levels of each factor.
    rows : tuple of Measured
        Trials in the order in which they ran.
    gaps : tuple of Missed
        What could not be measured, with the reason.
    environment : dict
        Software of the process that ran the sweep.
    """

    sweep_id: int | None
    rig: str
    state: State
    factors: dict[str, tuple[Scalar, ...]]
    rows: tuple[Measured, ...]
    gaps: tuple[Missed, ...]
    environment: dict[str, Any]

    def __repr__(self) -> str:
        number = "" if self.sweep_id is None else f" of sweep {self.sweep_id}"
        marked = sum(bool(trial.marks) for trial in self.trials)
        over = ", ".join(f"{name} ({len(levels)})" for name, levels in self.factors.items()) or "nothing"
        return (
            f"<Results{number} on {self.place}, {self.state}: {len(self.rows)} trials ({marked} marked) and "
            f"{len(self.gaps)} gaps over {over}>"
        )

    def _repr_html_(self) -> str:
        """The line, and below it the first and last trials with what was asked for."""
        head = f"<p>{html.escape(repr(self))}</p>"
        if not self.rows:
            return head
        columns = dict.fromkeys([*self.factors, "pps", "ns_per_packet", "reconciled", "marks"])
        return head + str(
            self.frame()[list(columns)].to_html(max_rows=SHOWN_TRIALS, float_format="{:,.1f}".format)
        )

    @property
    def place(self) -> str:
        """The rig's name for people (`labkit.records.Trial.place`)."""
        return self.trials[0].place if self.rows else self.rig

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Trials in the order in which they ran."""
        return tuple(row.trial for row in self.rows)

    @property
    def all_gaps(self) -> bool:
        """True when every point tried is a gap: the sweep measured nothing."""
        return bool(self.gaps) and not self.rows

    def only(self, **levels: Scalar) -> Results:
        """Rows and gaps at the named levels: ``results.only(batch=64)``.

        Raises
        ------
        WorkloadError
            A name that is no factor of these results.
        """
        if unknown := sorted(levels.keys() - self.factors.keys()):
            raise WorkloadError(
                f"results: no factor {', '.join(unknown)}; these vary {', '.join(self.factors) or 'nothing'}"
            )

        def kept(place: Measured | Missed) -> bool:
            return all(place.levels[name] == level for name, level in levels.items())

        return msgspec.structs.replace(
            self,
            factors={
                name: tuple(level for level in planned if level == levels.get(name, level))
                for name, planned in self.factors.items()
            },
            rows=tuple(row for row in self.rows if kept(row)),
            gaps=tuple(gap for gap in self.gaps if kept(gap)),
        )

    def frame(self) -> pd.DataFrame:
        """One row a trial: point, repeat, asked levels, then every field of the trial.

        A setting that was a factor has ``NAME_accepted`` and ``NAME_effective`` beside the asked
        level. Where a factor and a field of the trial share a name (``batch``), the name holds the
        asked level and ``NAME_effective`` what the trial did.
        """
        import pandas as pd

        columns = ["point", "repeat", *self.factors]
        return pd.DataFrame([_flat(row) for row in self.rows], columns=None if self.rows else columns)

    def gap_frame(self) -> pd.DataFrame:
        """One row a gap: point, repeat, asked levels, error, reason."""
        import pandas as pd

        rows = [
            {"point": miss.point, "repeat": miss.repeat, **miss.levels, **msgspec.to_builtins(miss.gap)}
            for miss in self.gaps
        ]
        return pd.DataFrame(rows, columns=["point", "repeat", *self.factors, "error", "reason"])


def _flat(row: Measured) -> dict[str, Any]:
    flat = row.trial.as_json()
    head: dict[str, Any] = {"point": row.point, "repeat": row.repeat}
    for name, asked in row.levels.items():
        head[name] = asked
        if name in SETTING_NAMES:
            head[f"{name}_accepted"] = row.trial.settings_accepted.get(name)
            head[f"{name}_effective"] = row.trial.settings_effective.get(name)
        elif name in flat:
            head[f"{name}_effective"] = flat.pop(name)
    return head | flat
