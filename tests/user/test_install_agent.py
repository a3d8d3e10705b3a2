"""The root-owned copy of the agent, made by root and started as it is."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.agent.client import AgentClient
from labkit.agent.install import install, installed_command
from labkit.agent.launch import AgentProcess

pytestmark = [
    pytest.mark.user,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the copy"),
]


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    before = os.umask(0o022)
    folder = Path(tempfile.mkdtemp(prefix="labkit-install-"))
    try:
        install("nobody", prefix=folder / "agent", sudoers=folder / "rule")
        yield folder
    finally:
        shutil.rmtree(folder)
        os.umask(before)


def test_copy_speaks_the_protocol(copy: Path) -> None:
    command = installed_command(copy / "agent")
    assert command is not None
    client = AgentClient(AgentProcess(command))
    client.close()


def test_copy_belongs_to_root_and_nobody_else_writes_it(copy: Path) -> None:
    for path in (copy / "agent").rglob("*"):
        if not path.is_symlink():
            status = path.stat()
            assert (status.st_uid, status.st_gid) == (0, 0)
            assert not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH), path


def test_rule_is_roots_to_read(copy: Path) -> None:
    assert stat.S_IMODE((copy / "rule").stat().st_mode) == 0o440
    assert "nobody ALL=(root) NOPASSWD:" in (copy / "rule").read_text()


def test_agent_started_by_sudo_from_an_open_folder_refuses(copy: Path) -> None:
    # the copy of this test lies below /tmp, which anyone can write
    command = installed_command(copy / "agent")
    assert command is not None
    told = subprocess.run(
        command,
        env={"SUDO_UID": "1000"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert told.returncode != 0
    assert "install-agent" in told.stderr
