"""Executed notebooks as one page that works offline: contents, findings, prose, figures, errors."""

from __future__ import annotations

import datetime as dt
import html
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pygments.formatters import HtmlFormatter

from labkit.report import notebook
from labkit.report.cells import CellPage
from labkit.report.machine import facts
from labkit.report.record import RunRecord, findings_table

# The browser itself refuses every request that a cell's output might try; scripts are the page's own.
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; worker-src blob:"
)


def write_report(path: Path, runs: Sequence[RunRecord]) -> None:
    """Write the report of `runs`, in their order, to `path`; whole or not at all."""
    now = dt.datetime.now().astimezone()
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(page(runs, facts(now)), encoding="utf-8")
    draft.replace(path)


def page(runs: Sequence[RunRecord], machine: Mapping[str, str]) -> str:
    """Return the whole report as text."""
    cells = CellPage()
    sections = "\n".join(_section(record, cells) for record in runs)
    contents = "".join(
        f"<li><a href='#{_anchor(record)}'>{html.escape(Path(record.notebook).stem)}</a> "
        f"{_badge(record)} {_duration(record)}</li>"
        for record in runs
    )
    machine_rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in machine.items()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta http-equiv="x-dns-prefetch-control" content="off">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>labkit report</title>
<style>{_style()}</style></head>
<body><header><h1>labkit report</h1><table class="machine">{machine_rows}</table>
<nav><h2>Contents</h2><ol>{contents}</ol></nav></header>
<main>
{sections}
</main></body></html>
"""


def _section(record: RunRecord, cells: CellPage) -> str:
    name = html.escape(Path(record.notebook).stem)
    reason = f"<p class='reason'>{html.escape(record.reason)}</p>" if record.reason else ""
    given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in record.parameters.items())
    findings = f"<h3>Findings</h3>{findings_table(record.findings)}" if record.findings else ""
    return (
        f"<section id='{_anchor(record)}'><h2>{name} {_badge(record)}</h2>{reason}"
        f"<p class='run'>started {html.escape(record.started_at)} · {_duration(record)}"
        f"{' · given: ' + html.escape(given) if given else ''}</p>"
        f"{findings}{cells.render(_executed_cells(record))}</section>"
    )


def _executed_cells(record: RunRecord) -> list[Any]:
    """Cells of the executed copy; none when the kernel never came up."""
    try:
        return notebook.cells(record.executed)
    except (OSError, ValueError):
        return []


def _anchor(record: RunRecord) -> str:
    return "run-" + html.escape(Path(record.notebook).stem.replace(" ", "-"), quote=True)


def _badge(record: RunRecord) -> str:
    return f"<span class='state {record.state}'>{record.state}</span>"


def _duration(record: RunRecord) -> str:
    return "" if record.duration_s is None else f"{record.duration_s:.1f} s"


def _style() -> str:
    sheet = (importlib.resources.files("labkit.report") / "report.css").read_text(encoding="utf-8")
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="monokai").get_style_defs(".highlight")
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n{sheet}"
