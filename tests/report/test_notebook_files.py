"""The committed notebooks: short cells, typed parameters, compared text in each, and nothing else stored."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labkit import paths
from labkit.report.parameters import declared

NOTEBOOKS = sorted(paths.notebooks_dir().glob("*.ipynb"))
COMPARED = "nbval-check-output"
LONGEST_CELL_LINES = 15

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


@every_notebook
def test_at_least_one_cell_is_compared_and_no_other_output_is_stored(path: Path) -> None:
    compared = [cell for cell in code_cells(path) if COMPARED in tags(cell)]
    assert compared
    for cell in code_cells(path):
        kinds = {output.output_type for output in cell.outputs}
        assert kinds == ({"stream"} if cell in compared else set()), cell.source
        assert cell.execution_count is None


@every_notebook
def test_cells_are_short_and_define_nothing(path: Path) -> None:
    for cell in code_cells(path):
        assert len(cell.source.splitlines()) <= LONGEST_CELL_LINES, cell.source
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, defined)]


@every_notebook
def test_parameters_are_typed_and_quick_is_the_default(path: Path) -> None:
    known = declared(path)
    assert None not in {parameter.kind for parameter in known.values()}
    assert known["quick"].kind == "bool"
    (cell,) = (cell for cell in code_cells(path) if "parameters" in tags(cell))
    assert "quick: bool = True" in cell.source


@every_notebook
def test_last_cell_finishes_the_run(path: Path) -> None:
    assert "lk.finish(" in code_cells(path)[-1].source


@pytest.mark.parametrize(("stored", "code"), [("speed 7", 0), ("speed 8", 1)], ids=["same", "changed"])
def test_changed_text_of_a_compared_cell_fails_the_tests(tmp_path: Path, stored: str, code: int) -> None:
    made = nbformat.v4.new_notebook()
    cell = nbformat.v4.new_code_cell("print('speed', 7)", metadata={"tags": [COMPARED]})
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=stored + "\n")]
    changing = nbformat.v4.new_code_cell("import time\nprint(time.monotonic_ns())")
    made.cells = [cell, changing]
    nbformat.write(made, tmp_path / "sample.ipynb")
    shutil.copy(paths.notebooks_dir() / "conftest.py", tmp_path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--nbval",
        "--nbval-current-env",
    ]
    ran = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", "sample.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    if code:
        assert "speed 8" in ran.stdout
        assert "speed 7" in ran.stdout
