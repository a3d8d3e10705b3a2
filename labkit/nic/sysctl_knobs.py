"""Sysctls of the network stack that move packet rates."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from labkit.linux import queues
from labkit.nic.knob import Knob
from labkit.nic.queue_knobs import FilesKnob

SYSCTLS: Final = {
    "tcp_limit_output_bytes": "net.ipv4.tcp_limit_output_bytes",
    "netdev_max_backlog": "net.core.netdev_max_backlog",
}
"""Setting to sysctl; the second belongs to the whole machine and is absent in other network namespaces."""


def sysctl_knobs(*, proc: Path = queues.PROC) -> dict[str, Knob]:
    """Knob of each sysctl that this network namespace has."""
    files = {setting: queues.sysctl_file(sysctl, proc) for setting, sysctl in SYSCTLS.items()}
    return {
        setting: FilesKnob(setting, paths, "number", SYSCTLS[setting])
        for setting, paths in files.items()
        if paths
    }
