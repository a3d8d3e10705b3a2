"""Tables of the store. A change here raises `STORE_VERSION` and teaches the store the older form."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import JSON, ForeignKey, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

STORE_VERSION: Final = 1

State: TypeAlias = Literal["running", "finished", "cancelled", "failed"]


class Base(DeclarativeBase):
    """All tables of the store."""

    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012 - SQLAlchemy's own protocol


class VersionRow(Base):
    """The one row that says by which schema the store was written."""

    __tablename__ = "schema_version"

    version: Mapped[int] = mapped_column(primary_key=True)


class SweepRow(Base):
    """One sweep: what was planned, where, by what software, and how it ended."""

    __tablename__ = "sweeps"

    id: Mapped[int] = mapped_column(primary_key=True)
    created_at: Mapped[str]
    rig: Mapped[str]
    identity: Mapped[str] = mapped_column(index=True)
    plan: Mapped[dict[str, Any]]
    workload: Mapped[dict[str, Any]]
    environment: Mapped[dict[str, Any]]
    state: Mapped[str]


class PlaceInPlan:
    """Columns of what took a place of the plan; nothing takes one twice."""

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"))
    point: Mapped[int]
    repeat: Mapped[int]
    levels: Mapped[dict[str, Any]]

    @declared_attr.directive
    def __table_args__(cls) -> tuple[UniqueConstraint, ...]:  # noqa: N805 - a class, says SQLAlchemy
        return (UniqueConstraint("sweep_id", "point", "repeat"),)


class TrialRow(PlaceInPlan, Base):
    """One finished trial; the columns beside the record serve queries."""

    __tablename__ = "trials"

    engine: Mapped[str]
    pps: Mapped[float | None]
    ns_per_packet: Mapped[float | None]
    record: Mapped[dict[str, Any]]
    samples: Mapped[list[Any]]


class GapRow(PlaceInPlan, Base):
    """One trial that could not be measured, and why."""

    __tablename__ = "gaps"

    error: Mapped[str]
    reason: Mapped[str]
