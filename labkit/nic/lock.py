"""One laboratory a device: a lock that ends with its process, whatever ends it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from labkit.errors import JournalError, RigBusyError


class DeviceLock:
    """Holds a device of a network namespace for this process.

    Parameters
    ----------
    folder : Path
        Where locks live; made with mode 0700.
    netns_inode, ifindex : int
        Which device.
    name : str
        What it is called, for messages.

    Raises
    ------
    RigBusyError
        A living process holds it; the message names its pid.
    JournalError
        The lock cannot be made.
    """

    def __init__(self, folder: Path, netns_inode: int, ifindex: int, name: str) -> None:
        path = folder / f"{netns_inode}-{ifindex}.lock"
        self._descriptor: int | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as refused:
            raise JournalError(
                f"{path}: no lock can be made, so nothing is changed; run as root, or make room there",
                errno=refused.errno,
            ) from refused
        self._descriptor = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError as busy:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace") or "not yet known"
            self.release()
            raise RigBusyError(
                f"{name}: another laboratory holds it (pid {holder}); close that one first"
            ) from busy
        except OSError as refused:
            self.release()
            raise JournalError(
                f"{path}: the lock cannot be written, so nothing is changed; make room there",
                errno=refused.errno,
            ) from refused

    def release(self) -> None:
        """Let the device go; harmless twice. The file stays: removing it would race with the next holder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()
