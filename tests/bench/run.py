"""Run every bench here, one after the other: a table for people, ``out/bench.json`` for programs.

A bench is a module ``bench_*.py`` that prints a JSON list of results and runs in a process of its own, since
one that enters a network of its own must have one thread. A result has a `name`, a `goal`, a `verdict`, and
either `median`, `low` and `high` of a ratio (`labkit.analysis.pairs.Ratio`) or a plain `value`. Verdicts are
``met``, ``missed``, ``undecided``, ``report`` without a goal, and ``absent`` where something lacks.
``python tests/bench/run.py [WORD ...]`` runs those whose name holds one of the words. Exit: 0 when no goal is
missed, 1 when a bench failed, 3 when one is slower than allowed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = Path("out/bench.json")
LIMIT_S = 5_400
"""Longest time that one bench may take."""

Row = dict[str, Any]


def main(words: Sequence[str]) -> int:
    """Run the benches that `words` choose and return the exit code."""
    rows: list[Row] = []
    for name in chosen(words):
        for row in measure(name):
            rows.append(row)
            sys.stdout.write(as_line(row) + "\n")
            sys.stdout.flush()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=2) + "\n")
    sys.stdout.write(f"written to {OUT}\n")
    return exit_code({row["verdict"] for row in rows})


def chosen(words: Sequence[str]) -> list[str]:
    """Names of the benches that hold one of `words`, or of all of them."""
    found = sorted(path.stem for path in HERE.glob("bench_*.py"))
    return [name for name in found if not words or any(word in name for word in words)]


def measure(name: str) -> list[Row]:
    """Results of one bench; one that fails gives a row that says so, and the next one still runs."""
    bench = name.removeprefix("bench_")
    command = [sys.executable, "-m", f"tests.bench.{name}"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return [failed(bench, f"not done after {LIMIT_S} s")]
    try:
        return [{"bench": bench} | result for result in json.loads(done.stdout)]
    except ValueError:
        return [failed(bench, f"printed no JSON list, exit {done.returncode}")]


def failed(bench: str, reason: str) -> Row:
    """Row of a bench that has no results, and why."""
    return {"bench": bench, "name": reason, "goal": None, "value": None, "verdict": "failed"}


def as_line(row: Row) -> str:
    """Lay one result out as a line of the table."""
    if "median" in row:
        figure = f"{row['median']:.4g} [{row['low']:.4g}, {row['high']:.4g}]"
    else:
        figure = str(row["value"])
    return f"{row['bench']:<10} {row['name']:<44} {figure:>26}   goal {row['goal']!s:<8} {row['verdict']}"


def exit_code(verdicts: set[str]) -> int:
    """Worst of the verdicts as an exit code; no bench at all is a failure."""
    if not verdicts or "failed" in verdicts:
        return 1
    return 3 if "missed" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
