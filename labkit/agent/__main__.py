"""Entry of the agent process: ``python -I -m labkit.agent``, messages on descriptors 0 and 1."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from labkit.agent.channel import Channel
from labkit.agent.device import StateFolders
from labkit.agent.protocol import Request
from labkit.agent.server import Server
from labkit.agent.trust import loaded_code, refuse_open_code
from labkit.errors import CapabilityMissingError, LabError
from labkit.linux.kernel_log import KernelLog


def main() -> None:
    """Serve one client over descriptors 0 and 1."""
    if "SUDO_UID" in os.environ:
        try:
            refuse_open_code(loaded_code())
        except CapabilityMissingError as refused:
            sys.exit(str(refused))  # the client shows the last words
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_input)
    # a stray print must not enter the stream: move it away, and let 1 be another name of stderr
    private_out = os.dup(1)
    os.dup2(2, 1)
    log = KernelLog()
    try:
        channel = Channel(0, private_out, Request, life_fd=_client_life())
        Server(channel, log, _folders(sys.argv[1:])).serve()
    except LabError as broken:
        sys.exit(str(broken))  # the client shows the last words
    finally:
        log.close()


def _end_input(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler's two
    """End the client's stream: the request in hand is finished, everything is put back, and the agent ends.

    A wait for input begins anew behind a signal (PEP 475) and finds the end there.
    """
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)


def _folders(words: list[str]) -> StateFolders:
    """Journal and locks below the folder of ``--state``, else the system's."""
    return StateFolders.below(Path(words[1])) if words[:1] == ["--state"] else StateFolders()


def _client_life() -> int | None:
    """Descriptor that tells when the client's process ends; None where the kernel or a policy has none."""
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return None


if __name__ == "__main__":
    main()
