"""Agent, notebook or both die while they turn a device's settings: the next start finds the way back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.network import nic_kills
from tests.network.nic_host import in_private_host, needs_root
from tests.network.nic_kills import STEPS_OF_A_ROUND, VICTIMS, Victim

pytestmark = [pytest.mark.network, pytest.mark.user, needs_root]
STEPS_TRIED = (1, 3, 8, 16, 21)


@pytest.mark.parametrize("step", STEPS_TRIED)
@in_private_host
def test_agent_killed_at_a_step_of_its_journal_everything_comes_back(tmp_path: Path, step: int) -> None:
    nic_kills.killed_at_step(tmp_path, step)


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_at_a_random_moment_everything_comes_back(tmp_path: Path, victim: Victim) -> None:
    @in_private_host
    def body() -> int:
        nic_kills.killed_at_random(tmp_path, victim, VICTIMS.index(victim))
        return os.stat("/proc/self/ns/net").st_ino

    network = body()
    assert [path for path in Path("/proc").glob("[0-9]*/ns/net") if inode_of(path) == network] == []


@in_private_host
def test_round_has_as_many_steps_as_the_kill_tests_cover(tmp_path: Path) -> None:
    nic_kills.signalled(tmp_path, None)
    assert int((tmp_path / "steps").read_text()) == STEPS_OF_A_ROUND


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@in_private_host
def test_notebook_that_ends_leaves_settings_as_they_were(tmp_path: Path, number: signal.Signals) -> None:
    nic_kills.signalled(tmp_path, number)


def inode_of(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
