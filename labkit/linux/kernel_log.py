"""New warnings in the kernel log while something ran."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

WARNING = 4
"""Priorities up to this one are warnings or worse (<linux/kern_levels.h>)."""
RECORD_BYTES = 8192
MAX_RECORDS = 10_000
MEANT: Final = re.compile(r"pktgen: interface: \S+ is already stopped")
"""No warning of anything: `stop` is for all devices of pktgen's at once, and it says so of each that has
ended by itself before the others (pktgen_stop_device of net/core/pktgen.c)."""


class KernelLog:
    """Reads what was logged since it was made; unreadable (dmesg_restrict) is unknown, not empty."""

    def __init__(self, device: Path = Path("/dev/kmsg")) -> None:
        self._fd: int | None = None
        try:
            self._fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    def warnings(self) -> list[str] | None:
        """Warnings logged since the last call, or None when the log cannot be read."""
        if self._fd is None:
            return None
        found = []
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(self._fd, RECORD_BYTES).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # overwritten before we read them; the next read goes on behind
            except OSError:
                return None
            head, _, text = record.partition(";")
            if head.split(",")[0].isdigit() and int(head.split(",")[0]) & 7 <= WARNING:
                found += [line for line in text.splitlines()[:1] if not MEANT.match(line)]
        return found

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
