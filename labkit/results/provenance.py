"""Which software measured: kept once a sweep, so that a number can be traced to its code."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

GIT_TIMEOUT_S = 5.0


def client_environment(checkout: Path) -> dict[str, Any]:
    """Versions of labkit, Python, numpy and the kernel; `checkout`'s git revision, None when unknown."""
    revision = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    return {
        "labkit": metadata.version("labkit"),
        "git_revision": revision,
        "git_modified": None if changes is None else bool(changes),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }


def _git(checkout: Path, *words: str) -> str | None:
    command = ["git", "-C", str(checkout), "--no-optional-locks", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git, no repository, or not ours to read
    return done.stdout.strip()
