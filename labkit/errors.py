"""What can go wrong, as one tree; each error says what, where, and what to do now.

::

    LabError                      exit 1: the work failed
    ├── WorkloadError             exit 2: the request makes no sense (unknown name, impossible frame)
    ├── CapabilityMissingError    exit 4: this rig, kernel or user cannot do it, and which can
    ├── SettingRefusedError       the driver or kernel refused a value
    ├── RigBusyError              somebody else holds the rig
    ├── JournalError              the way back could not be written or read
    ├── ResultIncompatibleError   a store or record of another schema
    ├── ResultUnsavedError        the store took no more; carries everything measured so far
    └── AgentLostError            the agent died; carries what it had measured
"""

from __future__ import annotations

import errno as errno_names
import os
from collections.abc import Sequence
from typing import Any


class LabError(Exception):
    """Base of every error that labkit raises on purpose.

    Parameters
    ----------
    message : str
        What went wrong, where, and what to do now.
    errno : int or None
        The kernel's error number, where one was given.
    kernel_text : str or None
        The kernel's own words (extended acknowledgement), where it said any.
    """

    exit_code = 1

    def __init__(self, message: str, *, errno: int | None = None, kernel_text: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.errno = errno
        self.kernel_text = kernel_text

    def __str__(self) -> str:
        parts = [self.message]
        if self.errno is not None:
            parts.append(f"[{errno_name(self.errno)}: {os.strerror(self.errno)}]")
        # netlink's answers without words of the kernel's own carry the errno's again
        if self.kernel_text and (self.errno is None or self.kernel_text != os.strerror(self.errno)):
            parts.append(f"[kernel: {self.kernel_text}]")
        return " ".join(parts)


class WorkloadError(LabError):
    """A request that makes no sense: an unknown name, a frame that cannot be sent."""

    exit_code = 2


class CapabilityMissingError(LabError):
    """The rig, the kernel or the user lacks what was asked; the message names who has it."""

    exit_code = 4


class SettingRefusedError(LabError):
    """The driver or the kernel refused a setting; the device is as it was."""


class RigBusyError(LabError):
    """Another process or notebook holds the rig."""


class JournalError(LabError):
    """The original settings could not be kept safe, so nothing was changed, or not put back."""


class ResultIncompatibleError(LabError):
    """A store or record was written by another schema."""


class ResultUnsavedError(LabError):
    """The store took no more; nothing measured is lost while this error is held.

    Parameters
    ----------
    message : str
        Which store, why, and what to do now.
    results : labkit.results.results.Results
        Every row of the sweep, the unsaved one last.
    """

    def __init__(self, message: str, *, results: Any) -> None:
        super().__init__(message)
        self.results = results


class AgentLostError(LabError):
    """The agent ended while it was needed.

    Parameters
    ----------
    message : str
        What was lost and what to do now.
    samples : sequence
        Live samples (`labkit.records.Sample`) received before it died, oldest first.
    stderr_tail : str
        The last words of the agent on its standard error.
    """

    def __init__(self, message: str, *, samples: Sequence[Any] = (), stderr_tail: str = "") -> None:
        super().__init__(message)
        self.samples = tuple(samples)
        self.stderr_tail = stderr_tail

    def __str__(self) -> str:
        tail = f"\nagent's last words:\n{self.stderr_tail.rstrip()}" if self.stderr_tail.strip() else ""
        return super().__str__() + tail


class LabWarning(UserWarning):
    """Something that went on differently from what one would expect; nothing failed."""


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names one behind the other; of many the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def errno_name(number: int) -> str:
    """Symbol of an error number (``EMSGSIZE``), or ``errno 524`` for one that libc does not know."""
    return errno_names.errorcode.get(number, f"errno {number}")
