"""A throw-away ordinary user with a clean home, and commands run as that user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class OrdinaryUser(NamedTuple):
    """Somebody who owns a home and nothing else."""

    name: str
    home: Path
    commands: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `command`, looked up in the set-up checkout first, in the user's home."""
        clean = {
            "HOME": str(self.home),
            "USER": self.name,
            "LANG": "C.UTF-8",
            "PATH": f"{self.commands}:/usr/bin:/bin",
        }
        words = [f"{name}={value}" for name, value in (clean | environment).items()]
        return subprocess.run(
            ["runuser", "-u", self.name, "--", "env", "-i", f"--chdir={self.home}", *words, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


@pytest.fixture(scope="session")
def ordinary_user(checkout) -> Iterator[OrdinaryUser]:
    """A user of this session only; what they own is taken away with them."""
    name = f"labkit{os.getpid()}"
    home = checkout.folder.parent / "user-home"
    subprocess.run(
        ["useradd", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", name],
        check=True,
        timeout=30,
    )
    try:
        home.mkdir(mode=0o700)
        subprocess.run(["chown", f"{name}:", str(home)], check=True, timeout=30)
        yield OrdinaryUser(name, home, checkout.folder / ".venv/bin")
    finally:
        subprocess.run(["userdel", "--force", name], check=False, timeout=30, capture_output=True)
