"""A process that turns settings is killed at any moment: the next one finds the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nic_fakes import (
    ORIGINALS,
    killed_after,
    killed_at_step,
    random_seconds,
    recover_tree,
    steps_of_a_round,
    tree_values,
)

STEPS_OF_A_ROUND = 39


def assert_put_back(root: Path) -> None:
    recover_tree(root)
    assert tree_values(root) == ORIGINALS
    assert list((root / "journal").glob("*")) == []
    assert recover_tree(root) == []
    assert tree_values(root) == ORIGINALS


def test_round_has_as_many_steps_as_the_kill_tests_cover(tmp_path: Path) -> None:
    assert steps_of_a_round(tmp_path) == STEPS_OF_A_ROUND


@pytest.mark.parametrize("step", range(1, STEPS_OF_A_ROUND, 6))
def test_killed_at_a_step_everything_comes_back(tmp_path: Path, step: int) -> None:
    killed_at_step(tmp_path, step)
    assert_put_back(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_a_random_moment_everything_comes_back(tmp_path: Path, seed: int) -> None:
    killed_after(tmp_path, random_seconds(seed))
    assert_put_back(tmp_path)
