"""`make run`: once set up, and from nothing (a fresh clone, an empty cache of packages, a clean HOME)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.script import Absolute, at_most, main

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 900
RUNS_FROM_NOTHING = 3
"""Each takes about a minute and leaves nothing to chance but the network."""


def measure(_pairs: int, _limit: int) -> Iterator[Absolute]:
    """Both times with their goals; the fresh clone of the second serves the first."""
    with tempfile.TemporaryDirectory() as folder:
        yield at_most(
            "make run from nothing", lambda: from_nothing_s(Path(folder)), 240, "s", runs=RUNS_FROM_NOTHING
        )
        yield at_most("make run once set up", lambda: make_run_s(Path(folder)), 60, "s")


def from_nothing_s(folder: Path) -> float:
    """Seconds from `git clone` to the report."""
    for name in ("clone", "home"):
        shutil.rmtree(folder / name, ignore_errors=True)
    started = time.perf_counter()
    subprocess.run(["git", "clone", "-q", ROOT, folder / "clone"], check=True, timeout=LIMIT_S)
    make_run_s(folder)
    return time.perf_counter() - started


def make_run_s(folder: Path) -> float:
    """Seconds of `make run` in the clone, which must leave a report."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "LABKIT_"))
    }
    environment = {**inherited, "HOME": str(home)}
    started = time.perf_counter()
    subprocess.run(
        ["make", "run"],
        cwd=folder / "clone",
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=LIMIT_S,
    )
    elapsed_s = time.perf_counter() - started
    if not (folder / "clone/out/report.html").stat().st_mtime > time.time() - elapsed_s - 1:
        raise RuntimeError("make run left no new report")
    return elapsed_s


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
