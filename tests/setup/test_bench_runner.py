"""`make bench` runs every bench, says what was missed, and is never green by having run nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parents[1] / "bench/run.py"
FIGURE = {"name": "median error", "value": 0.1, "goal": 0.15, "verdict": "met"}
RATIO = {"name": "a / b", "median": 1.05, "low": 1.04, "high": 1.06, "pairs": 30, "goal": 1.03}
BREAKS = "raise OSError('no such device')\n"


def printing(*results: dict[str, object]) -> str:
    return f"print({json.dumps(list(results))!r})\n"


@pytest.mark.parametrize(
    ("benches", "code", "verdicts"),
    [
        ({"one": printing(FIGURE)}, 0, ["met"]),
        ({"one": printing(FIGURE), "two": printing(RATIO | {"verdict": "missed"})}, 3, ["met", "missed"]),
        ({"one": printing(RATIO | {"verdict": "undecided"})}, 0, ["undecided"]),
        ({"broken": BREAKS, "one": printing(FIGURE)}, 1, ["failed", "met"]),
        ({}, 1, []),
    ],
    ids=["met", "missed", "undecided", "one breaks", "none"],
)
def test_exit_code_and_file_say_what_was_measured(
    tmp_path: Path, benches: dict[str, str], code: int, verdicts: list[str]
) -> None:
    folder = tmp_path / "tests/bench"
    folder.mkdir(parents=True)
    shutil.copy(RUNNER, folder / "run.py")
    for name, source in benches.items():
        (folder / f"bench_{name}.py").write_text(source)
    done = subprocess.run(
        [sys.executable, folder / "run.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    rows = json.loads((tmp_path / "out/bench.json").read_text())
    assert [row["verdict"] for row in rows] == verdicts
    lines = done.stdout.splitlines()
    for row, line in zip(rows, lines, strict=False):
        assert line.startswith(row["bench"])
        assert line.endswith(row["verdict"])
