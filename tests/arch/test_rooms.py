"""The house keeps its own plan: who may import what, how large a file may grow, who touches the world."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "labkit"
MODULES = sorted(PACKAGE.rglob("*.py"))
NATIVE = sorted(path for path in (PACKAGE / "native").iterdir() if path.suffix in {".c", ".cpp", ".h"})
ABOVE_PLOTS = {"plots", "panels", "report", "cli"}
WORLD = {
    "time",
    "socket",
    "os",
    "subprocess",
    "pathlib",
    "datetime",
    "random",
    "tempfile",
    "shutil",
    "io",
    "sqlite3",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(path: Path) -> str:
    return name_of(path).partition(".")[0]


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def importers(prefix: str) -> set[str]:
    return {
        name_of(path)
        for path in MODULES
        if any(name == prefix or name.startswith(prefix + ".") for name in imports_of(path))
    }


def test_native_module_is_imported_by_the_rooms_that_drive_it_only() -> None:
    rooms = {name.partition(".")[0] for name in importers("labkit._native")}
    assert rooms <= {"engines", "simnic", "agent"}


def test_scapy_has_one_importer_beside_a_layer_of_our_own() -> None:
    assert importers("scapy") <= {"traffic.frames", "traffic.pktgen_header"}
    assert importers("labkit.traffic.pktgen_header") <= {"traffic.frames"}


@pytest.mark.parametrize("library", ["plotly", "ipywidgets", "anywidget", "IPython"])
def test_display_libraries_stay_above_plots(library: str) -> None:
    rooms = {name.partition(".")[0] for name in importers(library)}
    assert rooms <= ABOVE_PLOTS


@pytest.mark.parametrize("pure", ["analysis", "simnic", "records", "factors", "units", "experiment.plan"])
def test_pure_rooms_touch_no_clock_file_or_socket(pure: str) -> None:
    for path in MODULES:
        if name_of(path) == pure or name_of(path).startswith(pure + "."):
            touched = {name.partition(".")[0] for name in imports_of(path)} & WORLD
            assert not touched, f"{path}: imports {touched}"
            opened = [
                node.lineno
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
            ]
            assert not opened, f"{path}: opens a file in line {opened}"


def test_only_the_linux_room_names_proc_and_sys() -> None:
    for path in MODULES:
        if room_of(path) == "linux":
            continue
        tree = ast.parse(path.read_text())
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        named = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith(("/proc", "/sys"))
            and id(node) not in docs
        ]
        assert not named, f"{path}: {named}"


def test_python_modules_and_functions_stay_small() -> None:
    for path in MODULES:
        text = path.read_text()
        assert text.count("\n") <= 300, f"{path}: over 300 lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                statements = sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) - 1
                assert statements <= 40, f"{path}:{node.lineno} {node.name}: {statements} statements"


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_native_files_stay_small(path: Path) -> None:
    assert path.read_text().count("\n") <= 250


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_python_headers_stay_in_the_bindings(path: Path) -> None:
    if path.name != "module.cpp" and not path.name.startswith("bind_"):
        assert "Python.h" not in path.read_text()
        assert "nanobind" not in path.read_text()


def test_rooms_are_one_level_deep_and_lived_in() -> None:
    for folder in [entry for entry in PACKAGE.rglob("*") if entry.is_dir() and entry.name != "__pycache__"]:
        assert folder.parent == PACKAGE, f"{folder}: a room within a room"
        if folder.name != "native":
            assert (folder / "__init__.py").exists(), f"{folder}: not a package"
            assert len(list(folder.glob("*.py"))) > 1, f"{folder}: nothing lives here"


def test_no_exception_is_built_and_dropped() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                name = node.value.func.id if isinstance(node.value.func, ast.Name) else ""
                assert not name.endswith(("Error", "Exception")), (
                    f"{path}:{node.lineno} builds {name}, raises nothing"
                )


def test_every_test_file_has_a_name_of_its_own() -> None:
    names = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, group in itertools.groupby(names) if len(list(group)) > 1] == []
