"""Runs QEMU for as long as somebody wants it.

``python -I -m labkit.guest.keeper DESCRIPTOR QEMU ARGUMENT ...``; QEMU is given the descriptor, its monitor.
Standard input and output are the guest agent's, standard error is its console. The input says whether the
guest is still wanted: it ends with who holds the other end, a killed notebook included. QEMU ends with this
process, however that ends (PR_SET_PDEATHSIG). Exit: QEMU's own, or 128 and the signal that ended it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from labkit.errors import CapabilityMissingError
from labkit.linux.namespaces import enter_private_network

PR_SET_PDEATHSIG: Final = 1
"""<linux/prctl.h>"""
NOT_STARTED: Final = 127
LEAVE_WITHIN_S: Final = 2.0
"""Time that QEMU has to end by itself: nothing in the guest is to be kept."""


def main(command: Sequence[str], monitor_fd: int) -> int:
    """Run QEMU until it ends or is not wanted any more; the exit code."""
    with_client = _pidfd(os.getppid())
    # its cards are on a hub that leads nowhere: the namespace is a second wall, not the first
    with contextlib.suppress(CapabilityMissingError):
        enter_private_network(force_user_namespace=False)
    try:
        qemu = subprocess.Popen(
            command,
            pass_fds=(monitor_fd,),
            preexec_fn=functools.partial(_end_with, os.getpid()),  # noqa: PLW1509 - this process has one thread
        )
    except OSError as refused:
        sys.stderr.write(f"{command[0]}: {refused.strerror}\n")
        return NOT_STARTED
    os.close(monitor_fd)
    ended = os.pidfd_open(qemu.pid)
    wait = select.poll()
    wait.register(0, 0)  # the other end's closing is told without being asked for
    wait.register(ended, select.POLLIN)
    if with_client is not None:
        wait.register(with_client, select.POLLIN)
    wait.poll()
    qemu.terminate()
    if not select.select([ended], [], [], LEAVE_WITHIN_S)[0]:
        qemu.kill()
    code = qemu.wait()
    return code if code >= 0 else 128 - code


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; asked between fork and exec."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it was asked
        os._exit(NOT_STARTED)


def _pidfd(pid: int) -> int | None:
    """Descriptor that tells when `pid` ends; None where it cannot be had."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], int(sys.argv[1])))
