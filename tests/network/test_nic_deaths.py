"""Agent, notebook or both die while they turn a device's settings: the next start finds the way back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.network import nic_kills
from tests.network.nic_host import TAP, TX, in_private_host, needs_root
from tests.network.nic_kills import DEVICES, VICTIMS, Victim

pytestmark = [pytest.mark.network, pytest.mark.user, needs_root]
STEPS_TRIED: tuple[tuple[str, int, Victim], ...] = (
    (TX, 1, "agent"),
    (TX, 3, "notebook"),
    (TX, 8, "agent"),
    (TX, 16, "both"),
    (TX, 21, "agent"),
    (TAP, 1, "both"),
    (TAP, 4, "agent"),
    (TAP, 9, "notebook"),
    (TAP, 18, "agent"),
)
"""Of each journal some steps; `make soak` tries all, with every victim."""
SEEDS = {TX: (0,), TAP: (0, 1)}


@pytest.mark.parametrize(("name", "step", "victim"), STEPS_TRIED)
@in_private_host
def test_killed_at_a_step_of_the_journal_everything_comes_back(
    tmp_path: Path, name: str, step: int, victim: Victim
) -> None:
    nic_kills.killed_at_step(tmp_path, step, victim, name)


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in SEEDS.items() for seed in seeds])
def test_killed_at_a_random_moment_everything_comes_back(
    tmp_path: Path, name: str, seed: int, victim: Victim
) -> None:
    @in_private_host
    def body() -> int:
        nic_kills.killed_at_random(tmp_path, seed * len(VICTIMS) + VICTIMS.index(victim), victim, name)
        return os.stat("/proc/self/ns/net").st_ino

    network = body()
    assert [path for path in Path("/proc").glob("[0-9]*/ns/net") if inode_of(path) == network] == []


@pytest.mark.parametrize("name", DEVICES)
@in_private_host
def test_round_has_as_many_steps_as_the_kill_tests_cover(tmp_path: Path, name: str) -> None:
    nic_kills.signalled(tmp_path, None, name)
    assert int((tmp_path / "steps").read_text()) == DEVICES[name].steps_of_a_round


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@in_private_host
def test_notebook_that_ends_leaves_settings_as_they_were(tmp_path: Path, number: signal.Signals) -> None:
    nic_kills.signalled(tmp_path, number)


def inode_of(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
