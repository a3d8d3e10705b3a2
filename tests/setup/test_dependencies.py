"""What pyproject declares is what labkit and its notebooks import, no more and no less."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
NEVER_IMPORTED = {
    "anywidget": "plotly's FigureWidget needs it and does not declare it",
    "ipykernel": "the kernel that executes the notebooks",
    "ipywidgets": "tqdm draws its bar in a notebook with them",
    "jupyterlab": "started as a program by `labkit lab`",
}


def imported_from(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"labkit"}


def imported() -> set[str]:
    """Distributions that labkit's modules and the notebooks' cells import."""
    sources = [path.read_text() for path in (ROOT / "labkit").rglob("*.py")]
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        sources += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    owners = packages_distributions()
    modules = {module for source in sources for module in imported_from(source)}
    return {canonicalize_name(owner) for module in modules for owner in owners[module]}


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}


def test_every_import_is_declared() -> None:
    assert imported() - declared() == set()


def test_every_declared_dependency_is_imported_or_has_its_reason() -> None:
    assert declared() - imported() == set(NEVER_IMPORTED)
