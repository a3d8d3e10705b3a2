"""Sweeps on disk: each finished trial is durable before the next one begins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from labkit.errors import LabError, ResultIncompatibleError, WorkloadError
from labkit.records import SCHEMA_VERSION, Gap, Trial
from labkit.results.database import ELSEWHERE, Database
from labkit.results.results import Measured, Missed, Results
from labkit.results.schema import GapRow, State, SweepRow, TrialRow


def utc_now() -> datetime:
    """Time of day in UTC."""
    return datetime.now(UTC)


class SweepEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the store's list of sweeps."""

    sweep_id: int
    created_at: str
    rig: str
    state: State
    planned: int


class Store:
    """Results on disk.

    Parameters
    ----------
    address : str or Path
        A file, or an SQLAlchemy address (`labkit.paths.store_url`). Nothing is made before `begin`.
    now : callable
        Clock that dates a sweep.
    """

    def __init__(self, address: str | Path, *, now: Callable[[], datetime] = utc_now) -> None:
        self._database = Database(address)
        self._now = now

    @property
    def place(self) -> str:
        """File or address, for messages."""
        return self._database.place

    def begin(
        self,
        *,
        rig: str,
        plan: Mapping[str, Any],
        workload: Mapping[str, Any],
        made_with: Mapping[str, Any],
        environment: Mapping[str, Any],
    ) -> int:
        """Enter a new sweep in state ``running`` and return its number.

        Raises
        ------
        ResultIncompatibleError
            The store is of a newer schema, or no store; it stays as it is.
        LabError
            Its folder or file cannot be made or written.
        """
        self._database.prepare()
        with self._database.writing() as session:
            row = SweepRow(
                created_at=self._now().isoformat(timespec="seconds"),
                rig=rig,
                identity=_identity(rig, plan, workload, made_with),
                plan=dict(plan),
                workload=dict(workload),
                environment=dict(environment),
                state="running",
            )
            session.add(row)
            session.flush()
            return row.id

    def unfinished(
        self, *, rig: str, plan: Mapping[str, Any], workload: Mapping[str, Any], made_with: Mapping[str, Any]
    ) -> int | None:
        """Newest unfinished sweep of the same plan, workload and record schema, on a rig made alike."""
        if not self._database.exists:
            return None
        self._database.prepare()
        same = SweepRow.identity == _identity(rig, plan, workload, made_with)
        query = select(SweepRow.id).where(same, SweepRow.state != "finished").order_by(SweepRow.id.desc())
        with self._database.reading() as session:
            return session.scalars(query).first()

    def keep(self, sweep_id: int, row: Measured | Missed) -> None:
        """Write one row durably; it is on the disk when this returns.

        Raises
        ------
        LabError
            It could not be written; the caller still holds the row.
        """
        entry = _trial_row(sweep_id, row) if isinstance(row, Measured) else _gap_row(sweep_id, row)
        try:
            with self._database.writing() as session:
                session.add(entry)
                session.flush()
        except IntegrityError as error:
            raise LabError(
                f"{self.place}: sweep {sweep_id} already holds repeat {row.repeat} of point {row.point}, or "
                "is gone: another process writes the same sweep; let one of the two run"
            ) from error

    def mark(self, sweep_id: int, state: State) -> None:
        """Write how the sweep stands."""
        with self._database.writing() as session:
            self._sweep(session, sweep_id).state = state

    def sweeps(self) -> tuple[SweepEntry, ...]:
        """Every sweep, oldest first; none when there is no store yet."""
        if not self._database.exists:
            return ()
        with self._database.reading() as session:
            return tuple(
                SweepEntry(
                    sweep_id=row.id,
                    created_at=row.created_at,
                    rig=row.rig,
                    state=cast("State", row.state),
                    planned=len(row.plan["points"]),
                )
                for row in session.scalars(select(SweepRow).order_by(SweepRow.id))
            )

    def load(self, sweep_id: int) -> Results:
        """Results of one sweep, finished or not.

        Raises
        ------
        WorkloadError
            No such sweep.
        ResultIncompatibleError
            Written by a newer labkit.
        """
        if not self._database.exists:
            raise WorkloadError(f"{self.place}: no results yet; run a sweep first")
        with self._database.reading() as session:
            sweep = self._sweep(session, sweep_id)
            trials = session.scalars(select(TrialRow).filter_by(sweep_id=sweep_id).order_by(TrialRow.id))
            gaps = session.scalars(select(GapRow).filter_by(sweep_id=sweep_id).order_by(GapRow.id))
            return Results(
                sweep_id=sweep_id,
                rig=sweep.rig,
                state=cast("State", sweep.state),
                factors={entry["name"]: tuple(entry["levels"]) for entry in sweep.plan["factors"]},
                rows=tuple(_measured(row) for row in trials),
                gaps=tuple(_missed(row) for row in gaps),
                environment=sweep.environment,
            )

    def _sweep(self, session: Session, sweep_id: int) -> SweepRow:
        row = session.get(SweepRow, sweep_id)
        if row is None:
            held = session.scalars(select(SweepRow.id).order_by(SweepRow.id)).all()
            raise WorkloadError(f"{self.place}: no sweep {sweep_id}; it holds {list(held)}")
        return row


def _identity(
    rig: str, plan: Mapping[str, Any], workload: Mapping[str, Any], made_with: Mapping[str, Any]
) -> str:
    parts = {"rig": rig, "made_with": made_with, "plan": plan, "workload": workload, "schema": SCHEMA_VERSION}
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def _trial_row(sweep_id: int, row: Measured) -> TrialRow:
    trial = row.trial
    return TrialRow(
        **_place(sweep_id, row),
        engine=trial.engine,
        pps=trial.pps,
        ns_per_packet=trial.ns_per_packet,
        record=trial.as_json(),
        samples=msgspec.to_builtins(trial.samples),
    )


def _gap_row(sweep_id: int, miss: Missed) -> GapRow:
    return GapRow(**_place(sweep_id, miss), error=miss.gap.error, reason=miss.gap.reason)


def _place(sweep_id: int, row: Measured | Missed) -> dict[str, Any]:
    return {"sweep_id": sweep_id, "point": row.point, "repeat": row.repeat, "levels": row.levels}


def _measured(row: TrialRow) -> Measured:
    where = f"sweep {row.sweep_id}, point {row.point}, repeat {row.repeat}"
    version = row.record.get("schema_version") if isinstance(row.record, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ResultIncompatibleError(
            f"{where}: the trial's record has schema {version}, this labkit reads up to "
            f"{SCHEMA_VERSION}: read it with the newer labkit"
        )
    try:
        trial = msgspec.convert({**row.record, "samples": row.samples}, Trial)
    except (msgspec.MsgspecError, TypeError) as odd:
        raise ResultIncompatibleError(f"{where}: the trial's record is damaged ({odd}); {ELSEWHERE}") from odd
    return Measured(point=row.point, repeat=row.repeat, levels=row.levels, trial=trial)


def _missed(row: GapRow) -> Missed:
    gap = Gap(error=row.error, reason=row.reason)
    return Missed(point=row.point, repeat=row.repeat, levels=row.levels, gap=gap)
