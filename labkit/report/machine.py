"""Facts of the machine that a report names at its head."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess


def facts(now: dt.datetime) -> dict[str, str]:
    """Date, versions, kernel and CPU by the words that the report shows."""
    return {
        "date": now.strftime("%Y-%m-%d %H:%M %Z").strip(),
        "labkit": importlib.metadata.version("labkit"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "CPU": f"{os.cpu_count()} x {cpu_model() or 'model not known'}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def cpu_model() -> str | None:
    """Model name as lscpu (util-linux) gives it, or None where it can't tell."""
    try:
        answer = subprocess.run(
            ["lscpu"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    models = [
        line.partition(":")[2].strip() for line in answer.splitlines() if line.startswith("Model name:")
    ]
    return models[0] if models else None
