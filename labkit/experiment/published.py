"""The published tables beside the lab's own figures: predicted, fitted, or not answered and why."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from labkit.analysis.turns import limit_of_answer
from labkit.experiment.published_cases import Case, cases
from labkit.factors import Scalar
from labkit.paths import data_dir
from labkit.rigs.profiles import load_profiles
from labkit.simnic.loop import simulate
from labkit.simnic.profile import Profile
from labkit.simnic.run import Simulated
from labkit.units import percent_error

DECIDES_SHARE: Final = 0.005
"""Share of a packet's time from which on a constant decides a point."""

Answer: TypeAlias = Literal["predicted", "fitted", "no answer"]
SPEAKS_FOR_ITSELF: Final = frozenset({"statement", "setting", "symbol"})
"""Columns of the published files whose text needs no name before it."""


class PublishedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure beside the lab's.

    Attributes
    ----------
    file, table : str
        CSV file of ``data/published``, and which of its tables.
    rig : str or None
        Simulated machine that answered.
    setting : dict
        What was set.
    unit : str
        Of `published` and `lab`.
    published : float or None
        The figure; None where a range was printed.
    lab : float or None
        The lab's; None where no mechanism of the lab answers.
    error : float or None
        Difference of the lab's figure from the published one, in percent.
    fitted : bool
        Whether constants that were fitted on this point's own table decide it. What the TX ring or the wire
        limits needs none.
    limited_by : str or None
        What limits the simulated sender: ``TX ring``, ``line rate`` or ``CPU``.
    reason : str or None
        Why there is no answer, or what it leaves out.
    """

    file: str
    table: str
    rig: str | None = None
    setting: dict[str, Scalar]
    unit: str
    published: float | None
    lab: float | None
    error: float | None
    fitted: bool = False
    limited_by: str | None = None
    reason: str | None = None

    @property
    def answer(self) -> Answer:
        """How the lab came to its figure, in a word."""
        return "no answer" if self.lab is None else "fitted" if self.fitted else "predicted"

    @property
    def setting_text(self) -> str:
        """What was set, for people."""
        known = {name: value for name, value in self.setting.items() if value is not None}
        return ", ".join(
            str(value) if name in SPEAKS_FOR_ITSELF else f"{name} {value}" for name, value in known.items()
        )

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


class TableErrors(msgspec.Struct, frozen=True, kw_only=True):
    """How near the lab comes to one file's points of one kind, in percent; None without such points."""

    file: str
    unit: str
    fitted: bool
    points: int
    median_percent: float
    worst_percent: float


def compare_published(folder: Path | None = None) -> list[PublishedPoint]:
    """The 36 published points of pktgen on ixgbe by ring and coalescing, each beside the event loop's answer.

    Parameters
    ----------
    folder : Path or None
        Folder of the published tables; None is the checkout's.
    """
    chosen = [case for case in cases(folder) if case.file == "ixgbe_ring_coalesce" and case.unit == "pps"]
    return list(_answers(chosen))


def published_points(folder: Path | None = None) -> list[PublishedPoint]:
    """Every row of every published table beside the lab's answer, or the reason why there is none.

    Parameters
    ----------
    folder : Path or None
        Folder of the published tables; None is the checkout's.
    """
    from labkit.experiment.published_sums import unsimulated

    simulated = list(_answers(list(cases(folder))))
    return [*simulated, *unsimulated(simulated, folder)]


def table_errors(points: Sequence[PublishedPoint]) -> list[TableErrors]:
    """Median and worst error by file and unit; predicted points before fitted ones, never together."""
    groups: dict[tuple[str, str], dict[bool, list[float]]] = {}
    for point in points:
        if point.error is not None:
            kinds = groups.setdefault((point.file, point.unit), {False: [], True: []})
            kinds[point.fitted].append(abs(point.error))
    return [
        TableErrors(
            file=file,
            unit=unit,
            fitted=fitted,
            points=len(errors),
            median_percent=statistics.median(errors),
            worst_percent=max(errors),
        )
        for (file, unit), kinds in groups.items()
        for fitted, errors in kinds.items()
        if errors
    ]


def _answers(chosen: Sequence[Case]) -> Iterator[PublishedPoint]:
    """Each case answered; those that ask the loop the same share one run of it."""
    profiles = load_profiles(data_dir() / "profiles")
    tables: dict[str, set[str]] = {}
    for case in chosen:
        tables.setdefault(case.file, set()).add(case.table)
    found: dict[str, Simulated] = {}
    for case in chosen:
        question = f"{case.profile} {sorted(case.settings.items())} {case.sender}"
        if question not in found:
            found[question] = simulate(profiles[case.profile], case.settings, case.sender, case.run)
        yield _point(case, profiles[case.profile], found[question], tables[case.file])


def _point(case: Case, profile: Profile, found: Simulated, tables: set[str]) -> PublishedPoint:
    lab = case.figure(profile, found)
    limited_by = limit_of_answer(profile, case.settings, case.sender, found) or "CPU"
    fitted = _own_source(case, tables)
    return PublishedPoint(
        file=case.file,
        table=case.table,
        rig=f"sim:{profile.name}",
        setting=case.setting,
        unit=case.unit,
        published=case.published,
        lab=lab,
        error=percent_error(lab, case.published),
        fitted=_fitted(case, profile, found, limited_by, fitted),
        limited_by=limited_by,
    )


def _fitted(
    case: Case, profile: Profile, found: Simulated, limited_by: str, own: Callable[[str], bool]
) -> bool:
    if case.unit == "irqs/s":
        return own(profile.constants.origins()["background_irqs_per_s"])
    if limited_by == "line rate":
        return False
    if limited_by == "TX ring" and case.sender.batch == 1:
        return False
    total = sum(share.ns_per_packet for share in found.budget)
    return any(own(share.source) for share in found.budget if share.ns_per_packet >= DECIDES_SHARE * total)


def _own_source(case: Case, tables: set[str]) -> Callable[[str], bool]:
    """Whether a constant's source is this case's own table.

    A source that names some of a file's tables was fitted on those alone, any other one on the whole file.
    """

    def own(source: str) -> bool:
        if f"{case.file}.csv" not in source:
            return False
        named = {table for table in tables if table in source}
        return case.table in named or not named

    return own
