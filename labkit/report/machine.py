"""Facts of the machine that a report names at its head."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform

from labkit.linux.machine import machine_facts


def facts(now: dt.datetime) -> dict[str, str]:
    """Date, versions, kernel and CPU by the words that the report shows."""
    machine = machine_facts()
    return {
        "date": now.strftime("%Y-%m-%d %H:%M %Z").strip(),
        "labkit": importlib.metadata.version("labkit"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "CPU": f"{machine['cpus_online']} x {machine['cpu_model'] or 'model not known'}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
