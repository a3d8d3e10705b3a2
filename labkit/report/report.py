"""Several notebooks, one report: check everything, run each, write one offline page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from labkit import paths
from labkit.errors import WorkloadError
from labkit.report import parameters as notebook_parameters
from labkit.report.record import RunRecord
from labkit.report.runner import Job, check_target, run

CELL_LIMIT_S = 900.0
"""Longest time that one cell may take unless told otherwise; a sweep cell of a full run takes minutes."""


class ReportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a report run left behind.

    Attributes
    ----------
    html : Path
        The report.
    runs : tuple of RunRecord
        One record a notebook that was started, in order.
    records : tuple of Path
        Files of these records.
    """

    html: Path
    runs: tuple[RunRecord, ...]
    records: tuple[Path, ...]

    @property
    def states(self) -> dict[str, str]:
        """State of each started notebook, by the notebook's name without its suffix."""
        return {Path(record.notebook).stem: record.state for record in self.runs}

    @property
    def cancelled(self) -> bool:
        """Whether Ctrl-C or SIGTERM ended it."""
        return any(record.state == "cancelled" for record in self.runs)

    @property
    def finished(self) -> bool:
        """Whether every notebook finished."""
        return all(record.state == "finished" for record in self.runs)


def run_report(
    notebooks: Sequence[Path],
    out_dir: Path,
    *,
    parameters: Mapping[str, object] | None = None,
    texts: Mapping[str, str] | None = None,
    records_dir: Path | None = None,
    cell_limit_s: float = CELL_LIMIT_S,
    progress: bool = True,
) -> ReportResult:
    """Run `notebooks` one after the other and write ``report.html`` and the executed copies to `out_dir`.

    Each notebook takes those parameters that its `parameters` cell declares; a name that none declares is
    an error. Everything is checked before the first kernel starts. A notebook that fails doesn't keep the
    others from running; a cancelled one does, and the report shows what was done so far. Kernels run in
    the caller's working directory.

    Parameters
    ----------
    notebooks : sequence of Path
        Notebooks to run, in this order.
    out_dir : Path
        Folder to write to; made when it is missing.
    parameters : mapping
        Values by parameter name, as Python values.
    texts : mapping
        Values by parameter name, as text from a command line, converted by the parameter's type.
    records_dir : Path or None
        Folder of the run records; `labkit.paths.run_records()` when None.
    cell_limit_s : float
        Seconds that one cell may take.
    progress : bool
        Show progress on stderr.

    Raises
    ------
    WorkloadError
        No notebook, an unreadable one, no single `parameters` cell, an unknown parameter, a wrong type.
    """
    jobs = _jobs(notebooks, out_dir, parameters or {}, texts or {}, records_dir or paths.run_records())
    out_dir.mkdir(parents=True, exist_ok=True)
    runs: list[RunRecord] = []
    for job in jobs:
        runs.append(run(job, cell_limit_s=cell_limit_s, progress=progress))
        if runs[-1].state == "cancelled":
            break

    from labkit.report.html import write_report  # plotly and nbconvert are for whoever got this far

    page = out_dir / "report.html"
    write_report(page, runs)
    return ReportResult(html=page, runs=tuple(runs), records=tuple(job.record for job in jobs[: len(runs)]))


def _jobs(
    notebooks: Sequence[Path],
    out_dir: Path,
    values: Mapping[str, object],
    texts: Mapping[str, str],
    records_dir: Path,
) -> list[Job]:
    stems = [path.stem for path in notebooks]
    if not notebooks:
        raise WorkloadError("no notebook to run; name one, or run in a checkout that has notebooks/")
    if twice := sorted({stem for stem in stems if stems.count(stem) > 1}):
        raise WorkloadError(
            f"two notebooks are named {twice[0]}: one executed copy would overwrite the other"
        )
    declarations = {path: notebook_parameters.declared(path) for path in notebooks}
    given = notebook_parameters.assign(declarations, values, texts)
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    jobs = []
    for path in notebooks:
        executed = out_dir / path.name
        check_target(path, executed)
        record = records_dir / f"{stamp}-{path.stem}.json"
        jobs.append(Job(source=path, executed=executed, record=record, parameters=given[path]))
    return jobs
