"""Real-time priority for the thread that sends, while it sends."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from labkit.errors import CapabilityMissingError, WorkloadError

MOST_PRIORITY: Final = 99


def check_priority(engine: str, priority: int | None) -> None:
    """Raise `WorkloadError` for a priority that SCHED_FIFO does not have (man 7 sched)."""
    if priority is not None and not 1 <= priority <= MOST_PRIORITY:
        raise WorkloadError(
            f"{engine}: realtime_priority {priority}: SCHED_FIFO has 1 to {MOST_PRIORITY}; leave it out for "
            "the ordinary scheduler"
        )


@contextmanager
def real_time(engine: str, priority: int | None) -> Iterator[None]:
    """Run this thread under SCHED_FIFO with `priority`; the old policy comes back at the end.

    Nothing but a higher priority takes its CPU then, with one exception: of every second the kernel keeps
    50 ms for ordinary threads that wait for that CPU (sched_rt_runtime_us of sched_rt_period_us in
    /proc/sys/kernel; since Linux 6.12 the fair server of /sys/kernel/debug/sched). A sender that never sleeps
    shows it as a gap of up to 50 ms a second. On a machine of one CPU the Stop message waits for that gap.

    Raises
    ------
    CapabilityMissingError
        This thread may not have the priority.
    """
    if priority is None:
        yield
        return
    # 0 is the calling thread, not its process (man 2 sched_setscheduler, Notes)
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError as error:
        raise CapabilityMissingError(
            f"{engine}: realtime_priority {priority} needs CAP_SYS_NICE in the initial user namespace (root, "
            f"and no user namespace) or a limit that allows it (ulimit -r {priority}); or leave it out",
            errno=errno.EPERM,
        ) from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
