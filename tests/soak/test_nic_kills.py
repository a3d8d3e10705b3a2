"""Full repeat counts: 200 kills on a veth and on a tap, of agent, notebook or both, at steps and moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network import nic_kills
from tests.network.nic_host import in_private_host, needs_root
from tests.network.nic_kills import DEVICES, VICTIMS, Victim

pytestmark = [pytest.mark.soak, pytest.mark.network, pytest.mark.user, needs_root]
KILLS = 200
AT_STEPS = [
    (name, step, victim)
    for name, device in DEVICES.items()
    for step in range(1, device.steps_of_a_round + 1)
    for victim in VICTIMS
]
AT_MOMENTS = [
    (name, seed)
    for name, device in DEVICES.items()
    for seed in range(KILLS - len(VICTIMS) * device.steps_of_a_round)
]


@pytest.mark.parametrize(("name", "step", "victim"), AT_STEPS)
@in_private_host
def test_killed_at_every_step_everything_comes_back(
    tmp_path: Path, name: str, step: int, victim: Victim
) -> None:
    nic_kills.killed_at_step(tmp_path, step, victim, name)


@pytest.mark.parametrize(("name", "seed"), AT_MOMENTS)
@in_private_host
def test_killed_at_many_random_moments_everything_comes_back(tmp_path: Path, name: str, seed: int) -> None:
    nic_kills.killed_at_random(tmp_path, 1000 + seed, VICTIMS[seed % len(VICTIMS)], name)
