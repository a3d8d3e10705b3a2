"""What every bench script is: options for the number of pairs, results as a JSON list on standard output."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from labkit.analysis.pairs import Ratio

RUNS = 10
"""Runs behind the median of an absolute figure."""


@dataclass(frozen=True)
class Absolute:
    """Median of some runs against a bound that it must not exceed; ``absent`` says in `value` why."""

    name: str
    value: str
    goal: str
    verdict: Literal["met", "missed", "undecided", "absent"]


def at_most(name: str, run: Callable[[], float], bound: float, unit: str, *, runs: int = RUNS) -> Absolute:
    """Median of `runs` calls of `run`, held against `bound`; both in `unit`."""
    values = [run() for _ in range(runs)]
    median = statistics.median(values)
    value = (
        f"{median:.3g} {unit} [{min(values):.3g}, {max(values):.3g}]" if runs > 1 else f"{median:.3g} {unit}"
    )
    return Absolute(name, value, f"<= {bound:g} {unit}", "met" if median <= bound else "missed")


def main(description: str | None, measure: Callable[[int, int], Iterable[Ratio | Absolute]]) -> int:
    """Run `measure` with the asked pairs and their limit; exit code 3 when a goal is missed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pairs", type=int, default=30, help="alternated pairs behind a ratio")
    parser.add_argument("--limit", type=int, default=120, help="most pairs while the verdict is undecided")
    asked = parser.parse_args()
    found = list(measure(asked.pairs, asked.limit))
    sys.stdout.write(json.dumps([dataclasses.asdict(each) for each in found], indent=2) + "\n")
    return 3 if any(each.verdict == "missed" for each in found) else 0
