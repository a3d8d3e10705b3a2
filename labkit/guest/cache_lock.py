"""One builder at a time: a lock that ends with its process, waited for no longer than a build may take."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from labkit.errors import RigBusyError

WAIT_S: Final = 1500
"""A build's own limits together, and some."""
STEP_S: Final = 0.1


@contextlib.contextmanager
def building(cache: Path, tell: Callable[[str], None], wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the cache for building in it.

    Raises
    ------
    RigBusyError
        Another process builds there and is not done in `wait_s` seconds; the message names it.
    """
    # the file stays when it is let go: removing it would race with the next holder
    descriptor = os.open(cache / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _take(descriptor, cache, tell, wait_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)  # the pid may soon be somebody else's
    finally:
        os.close(descriptor)


def _take(descriptor: int, cache: Path, tell: Callable[[str], None], wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    told = False
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        holder = os.pread(descriptor, 32, 0).decode(errors="replace") or "not yet known"
        if time.monotonic() >= deadline:
            raise RigBusyError(
                f"{cache}: another labkit (pid {holder}) builds the guest's kernel there and was not done in "
                f"{wait_s:.0f} s; wait for it, or end it"
            )
        if not told:
            tell(f"another labkit (pid {holder}) builds the guest's kernel; waiting for it")
            told = True
        time.sleep(STEP_S)
