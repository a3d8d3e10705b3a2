"""Full repeat counts: sweeps ended in the middle, stores with two writers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from labkit.results.store import Store
from tests.sweep_fakes import Meter, slow_sweep
from tests.unit.test_store import both_write
from tests.unit.test_sweep import end_after

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("calls", range(1, 21))
def test_killed_sweep_keeps_all_finished_rows(tmp_path: Path, calls: int) -> None:
    store = Store(tmp_path / "results.sqlite")
    end_after(calls, store, signal.SIGKILL)
    assert len(store.load(1).rows) == calls - 1


def test_sweep_killed_twenty_times_over_finishes_without_a_row_twice(tmp_path: Path) -> None:
    store = Store(tmp_path / "results.sqlite")
    for turn in range(1, 21):
        end_after(5, store, signal.SIGKILL, "--resume")
        assert len(store.load(1).rows) == 4 * turn
    results = slow_sweep(Meter()).run(store, progress=False, resume=True)
    assert results.sweep_id == 1
    assert len({(row.point, row.repeat) for row in results.rows}) == len(results.rows) == 100


@pytest.mark.parametrize("turn", range(20))
def test_two_processes_write_at_once_and_lose_nothing_twenty_times(tmp_path: Path, turn: int) -> None:
    both_write(tmp_path / f"{turn}.sqlite")
