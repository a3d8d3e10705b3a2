"""The run record: labkit's own word on how a notebook's run ended.

Cell statuses don't tell: papermill marks cells of a killed kernel as completed. So a run counts as
finished only when the notebook's last cell said so through `finish`.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from labkit.errors import ResultIncompatibleError
from labkit.report.values import plain

RECORD_VARIABLE: Final = "LABKIT_RUN_RECORD"
"""Environment variable that tells a notebook's kernel where its run record is."""

RECORD_VERSION: Final = 1

State: TypeAlias = Literal["running", "finished", "failed", "cancelled"]


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one notebook.

    Attributes
    ----------
    run_id, notebook, executed : str
        Name of the run, path of the notebook, path of its executed copy.
    state : str
        ``running``, ``finished``, ``failed`` or ``cancelled``.
    reason : str or None
        Why it failed or was cancelled.
    parameters, findings : dict
        What was given, and what the notebook's last cell found; plain JSON values.
    started_at : str
        UTC, ISO 8601.
    duration_s : float or None
        None while it runs.
    pid : int
        The process that runs the notebook: a record still ``running`` whose process is gone was cut off.
    """

    run_id: str
    notebook: str
    executed: str
    state: State
    reason: str | None
    parameters: dict[str, Any]
    findings: dict[str, Any]
    started_at: str
    duration_s: float | None
    pid: int
    record_version: int = RECORD_VERSION


class Findings:
    """What a notebook found, shown as a table in Jupyter and as lines elsewhere.

    Parameters
    ----------
    values : dict
        Plain values by name.
    recorded : bool
        Whether a run record took them; outside a report run there is none.
    """

    def __init__(self, values: Mapping[str, Any], recorded: bool) -> None:
        self.values = dict(values)
        self.recorded = recorded

    def __repr__(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.values.items()]
        return "\n".join(["finished", *lines])

    def _repr_html_(self) -> str:
        return findings_table(self.values)


def findings_table(values: Mapping[str, Any]) -> str:
    """HTML table of findings, escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name.replace('_', ' '))}</th>"
        f"<td style='text-align:left'>{html.escape(_shown(value))}</td></tr>"
        for name, value in values.items()
    )
    return f"<table class='lk-findings'>{rows}</table>" if rows else "<em>finished</em>"


def finish(**findings: object) -> Findings:
    """Say in a notebook's last cell that it came to its end, and what it found.

    In a report run the record becomes ``finished`` and takes the findings; elsewhere this only displays.

    Raises
    ------
    WorkloadError
        A finding that is no plain value.
    """
    values = {name: plain(value, name) for name, value in findings.items()}
    path = os.environ.get(RECORD_VARIABLE)
    if not path:
        return Findings(values, recorded=False)
    record = read(Path(path))
    if record.state not in {"running", "finished"}:  # the runner has given this run up
        return Findings(values, recorded=False)
    write(Path(path), msgspec.structs.replace(record, state="finished", findings=values))
    return Findings(values, recorded=True)


def write(path: Path, record: RunRecord) -> None:
    """Put `record` at `path`, whole or not at all; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read(path: Path) -> RunRecord:
    """Record at `path`.

    Raises
    ------
    ResultIncompatibleError
        No run record, or one of a newer labkit.
    """
    try:
        record = msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise ResultIncompatibleError(f"{path}: not a run record that can be read: {error}") from error
    if record.record_version > RECORD_VERSION:
        raise ResultIncompatibleError(
            f"{path}: run record version {record.record_version} is newer than this labkit's "
            f"{RECORD_VERSION}; update labkit"
        )
    return record


def _shown(value: object) -> str:
    if isinstance(value, float) and math.isnan(value):
        return _shown(None)  # as the record itself has it, for JSON knows no nan
    if isinstance(value, float):
        return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_shown(entry) for entry in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_shown(entry)}" for name, entry in value.items())
    return "not known" if value is None else str(value)
