"""Run every bench here, one after the other: a table for people, ``out/bench.json`` for programs.

A bench is a file ``bench_*.py`` with ``measure()``, which yields results as `Result` describes them.
``python tests/bench/run.py [WORD ...]`` runs those whose name holds one of the words. Exit: 0 when every goal
is met, 1 when a bench failed, 3 when one is slower than allowed.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

HERE = Path(__file__).resolve().parent
OUT = Path("out/bench.json")
MISSED, FAILED = "missed", "failed"


class Result(Protocol):
    """One measured figure: `verdict` is ``missed`` where the goal is not reached, else any other word."""

    name: str
    value: str
    goal: str
    verdict: str


def main(words: Sequence[str]) -> int:
    """Run the benches that `words` choose and return the exit code."""
    sys.path.insert(0, str(HERE))  # benches share modules of this folder
    rows = []
    for path in chosen(words):
        for one in rows_of(path):
            rows.append(one)
            sys.stdout.write(as_line(one) + "\n")
            sys.stdout.flush()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=2) + "\n")
    sys.stdout.write(f"written to {OUT}\n")
    return exit_code([one["verdict"] for one in rows])


def chosen(words: Sequence[str]) -> list[Path]:
    """Files of the benches whose name holds one of `words`, or all of them."""
    found = sorted(HERE.glob("bench_*.py"))
    return [path for path in found if not words or any(word in path.stem for word in words)]


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Results of one bench; a bench that fails gives one row that says so, and the next one still runs."""
    bench = path.stem.removeprefix("bench_")
    try:
        results: Iterable[Result] = load(path).measure()
        for result in results:
            yield row(bench, result.name, result.value, result.goal, result.verdict)
    except Exception as error:  # noqa: BLE001 - reported as a row, and by the exit code
        traceback.print_exc()
        yield row(bench, type(error).__name__, str(error), "", FAILED)


def row(bench: str, name: str, value: str, goal: str, verdict: str) -> dict[str, str]:
    """Name the words of one result, as the table and the file hold them."""
    return {"bench": bench, "name": name, "value": value, "goal": goal, "verdict": verdict}


def load(path: Path) -> ModuleType:
    """Import a bench by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def as_line(one: dict[str, str]) -> str:
    """Lay one result out as a line of the table."""
    return f"{one['bench']:<12} {one['name']:<44} {one['value']:>24}  {one['goal']:<16} {one['verdict']}"


def exit_code(verdicts: Sequence[str]) -> int:
    """Worst of the verdicts as an exit code; no bench at all is a failure."""
    if not verdicts or FAILED in verdicts:
        return 1
    return 3 if MISSED in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
