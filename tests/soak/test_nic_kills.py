"""Full repeat counts: 200 kills of a `nic:` rig's agent, notebook or both, each step and random moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network import nic_kills
from tests.network.nic_host import in_private_host, needs_root
from tests.network.nic_kills import STEPS_OF_A_ROUND, VICTIMS

pytestmark = [pytest.mark.soak, pytest.mark.network, pytest.mark.user, needs_root]
KILLS = 200


@pytest.mark.parametrize("step", range(1, STEPS_OF_A_ROUND + 1))
@in_private_host
def test_agent_killed_at_every_step_everything_comes_back(tmp_path: Path, step: int) -> None:
    nic_kills.killed_at_step(tmp_path, step)


@pytest.mark.parametrize("seed", range(KILLS - STEPS_OF_A_ROUND))
@in_private_host
def test_killed_at_many_random_moments_everything_comes_back(tmp_path: Path, seed: int) -> None:
    nic_kills.killed_at_random(tmp_path, VICTIMS[seed % len(VICTIMS)], 1000 + seed)
