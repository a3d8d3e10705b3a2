"""Starting the agent as root: what an ordinary user is told where sudo does not do it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from labkit.agent import launch
from labkit.errors import AgentLostError, CapabilityMissingError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of PATH, for a user who is not root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def write_sudo(folder: Path, body: str) -> None:
    sudo = folder / "sudo"
    sudo.write_text(f"#!/bin/sh\n{body}\n")
    sudo.chmod(0o755)


@pytest.mark.parametrize(
    "words",
    [
        "sudo: a password is required",
        "Sorry, user ann is not allowed to execute this as root on lab.",
        "agent: /home/ann can be written by its group or by anyone",
    ],
)
def test_refusal_of_sudo_is_a_missing_capability_with_its_words_and_a_way(path: Path, words: str) -> None:
    write_sudo(path, f"echo '{words}' >&2; exit 1")
    with pytest.raises(CapabilityMissingError, match="sudo did not start the agent") as refused:
        launch.connect_as_root()
    assert refused.value.exit_code == 4
    assert words in str(refused.value)
    assert f"as root, or let `sudo {Path(sys.executable).with_name('labkit')} install-agent`" in str(
        refused.value
    )


def test_no_sudo_is_a_missing_capability(path: Path) -> None:
    with pytest.raises(CapabilityMissingError, match=r"there is no sudo here.*install-agent"):
        launch.connect_as_root()


def test_sudo_is_asked_without_a_prompt_for_exactly_the_installed_words(path: Path) -> None:
    write_sudo(path, 'echo "asked: $*" >&2; exit 1')
    with pytest.raises(CapabilityMissingError, match=r"asked: -n \S+ -I -m labkit\.agent\)"):
        launch.connect_as_root()


def test_fault_of_the_agents_own_is_shown_as_it_is(path: Path) -> None:
    write_sudo(path, "echo 'Traceback (most recent call last):' >&2; exit 1")
    with pytest.raises(AgentLostError, match="Traceback"):
        launch.connect_as_root()


def test_folder_of_ones_own_does_not_go_through_sudo_unnoticed(path: Path, tmp_path: Path) -> None:
    with pytest.raises(CapabilityMissingError, match="only root itself"):
        launch.start_agent(as_root=True, state=tmp_path)
