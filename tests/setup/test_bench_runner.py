"""`make bench` runs every bench, says what was missed, and is never green by having run nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parents[1] / "bench/run.py"
MEASURES = """
from typing import NamedTuple
class Result(NamedTuple):
    name: str
    value: str
    goal: str
    verdict: str
def measure():
    yield Result("a ratio", "1.01", "<= 1.03", {verdict!r})
"""
BREAKS = "def measure():\n    raise OSError('no such device')\n"


@pytest.mark.parametrize(
    ("benches", "code", "verdicts"),
    [
        ({"one": MEASURES.format(verdict="met")}, 0, ["met"]),
        ({"one": MEASURES.format(verdict="missed")}, 3, ["missed"]),
        ({"broken": BREAKS, "one": MEASURES.format(verdict="met")}, 1, ["failed", "met"]),
        ({}, 1, []),
    ],
    ids=["met", "missed", "one breaks", "none"],
)
def test_exit_code_and_file_say_what_was_measured(
    tmp_path: Path, benches: dict[str, str], code: int, verdicts: list[str]
) -> None:
    shutil.copy(RUNNER, tmp_path / "run.py")
    for name, source in benches.items():
        (tmp_path / f"bench_{name}.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    rows = json.loads((tmp_path / "out/bench.json").read_text())
    assert [row["verdict"] for row in rows] == verdicts
    assert all(f"{row['bench']} " in done.stdout and row["verdict"] in done.stdout for row in rows)
