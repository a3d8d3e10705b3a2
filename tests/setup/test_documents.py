"""The documents name commands, options, folders and files that exist."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.rigs.catalog import known_rigs

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
LABKIT = Path(sys.executable).with_name("labkit")


def commands(program: str) -> list[str]:
    """Lines of the documents' console blocks that start `program`."""
    blocks = [
        block
        for name in DOCUMENTS
        for block in re.findall(
            r"^```console\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE
        )
    ]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.split()[:1] == [program]]


@functools.cache
def help_of(command: str) -> str:
    return subprocess.run(
        [LABKIT, command, "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout


@pytest.mark.parametrize("line", commands("labkit"))
def test_labkit_command_takes_the_options_that_are_shown(line: str) -> None:
    _, command, *words = shlex.split(line, comments=True)
    known = set(re.findall(r"--[a-z][a-z-]*", help_of(command)))
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_that_are_named_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = (ROOT / document).read_text()
    named = set(re.findall(r"(?:`|^\$ )make (?:[A-Z]+=\S+ )?([a-z-]+)", text, re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_linked_files_exist(document: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / document).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_prerequisites_are_the_same_everywhere() -> None:
    readme = re.search(r"apt-get install -y (.+)", (ROOT / "README.md").read_text())
    ci = re.search(r"for package in (.+); do", (ROOT / ".ci/run").read_text())
    assert readme is not None
    assert ci is not None
    assert readme[1] == ci[1]


def test_engines_stand_in_the_table_as_the_rigs_have_them() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| engine | what it does |"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in table)
    engines = {info.name: set(info.engines) for info in known_rigs()}
    for column, rig in enumerate(head[2:], 2):
        told = {name for row in rows if row[column] == "yes" for name in re.findall(r"`(\w+)`", row[0])}
        assert told == engines[rig.split("`")[1]], rig


def test_each_test_folder_is_described() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("*/*.py")}
    assert [name for name in sorted(folders) if f"`tests/{name}`" not in text] == []


def test_each_room_stands_in_the_picture() -> None:
    picture = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.parent.name for path in (ROOT / "labkit").glob("*/__init__.py")}
    assert [room for room in sorted(rooms) if not re.search(rf"^  .*\b{room}\b", picture, re.MULTILINE)] == []
