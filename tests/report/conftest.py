"""Tiny notebooks, really executed; records and outputs in the test's own folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from labkit.report import ReportResult, run_report

Make = Callable[..., Path]
Run = Callable[..., ReportResult]


@pytest.fixture
def notebook(tmp_path: Path) -> Make:
    def make(
        *cells: str, parameters: str | None = "quick: bool = True", name: str = "sample", **metadata: Any
    ) -> Path:
        made = new_notebook(metadata=metadata)
        made.cells.append(new_markdown_cell("# A sample\n\nCost is $t = a + b/n$ a packet."))
        if parameters is not None:
            made.cells.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
        made.cells += [new_code_cell(source) for source in cells]
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(made, path)
        return path

    return make


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(notebooks: Path | Sequence[Path], **options: Any) -> ReportResult:
        listed = [notebooks] if isinstance(notebooks, Path) else notebooks
        options = {"records_dir": tmp_path / "runs", "progress": False, "cell_limit_s": 60.0} | options
        return run_report(listed, tmp_path / "deep" / "out", **options)

    return start
