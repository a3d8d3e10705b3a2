"""Sockets of this thread's network namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LISTEN: Final = "0A"
"""TCP_LISTEN (include/net/tcp_states.h) as /proc/net/tcp writes it."""


def listens(port: int, proc: Path = Path("/proc")) -> bool:
    """Whether a TCP socket over IPv4 listens on `port` here."""
    for line in (proc / "thread-self/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
            return True
    return False
