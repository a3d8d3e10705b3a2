"""Full repeat counts: 200 processes killed while they turn settings, each step and random moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nic_fakes import killed_after, killed_at_step, random_seconds
from tests.unit.test_journal_recovery import STEPS_OF_A_ROUND, assert_put_back

pytestmark = pytest.mark.soak
KILLS = 200


@pytest.mark.parametrize("step", range(1, STEPS_OF_A_ROUND + 1))
def test_killed_at_every_step_everything_comes_back(tmp_path: Path, step: int) -> None:
    killed_at_step(tmp_path, step)
    assert_put_back(tmp_path)


@pytest.mark.parametrize("seed", range(KILLS - STEPS_OF_A_ROUND))
def test_killed_at_many_random_moments_everything_comes_back(tmp_path: Path, seed: int) -> None:
    killed_after(tmp_path, random_seconds(1000 + seed))
    assert_put_back(tmp_path)
