"""Runs one other program on given CPUs until it ends or nobody wants it any more.

``python -I -m labkit.engines.peer_child CPUS COMMAND ...``, in a session of its own: what the program forks
is in its group. Standard input says whether it is still wanted: it ends with who holds the other end, a
killed agent included. Then the group gets SIGTERM, and what does not end of it SIGKILL. A killed agent cannot
remove the folder that it made for the program, so that this is done here. Exit: the program's own, or 128 and
the signal that ended it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

END_WITHIN_MS: Final = 500
"""Time that a program has to end by itself."""
NOT_STARTED: Final = 127
ENOUGH: Final = b"."
"""What an agent writes before it closes the input."""
FOLDER: Final = "LABKIT_PEER_FOLDER"
"""Names the program's own folder in the environment."""
FOLDER_PREFIX: Final = "labkit-peer-"


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    cpus, *command = arguments
    signal.signal(signal.SIGTERM, lambda *_: None)  # the group's is meant for the program
    try:
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except OSError as refused:
        sys.stderr.write(f"{refused.filename or 'CPUs ' + cpus}: {refused.strerror}\n")
        return NOT_STARTED
    ended = os.pidfd_open(program.pid)
    either = select.poll()
    either.register(0, 0)  # the other end's closing is told without being asked for
    either.register(ended, select.POLLIN)
    either.poll()
    os.killpg(0, signal.SIGTERM)
    in_time = bool(select.select([ended], [], [], END_WITHIN_MS / 1000)[0])
    folder = Path(os.environ.get(FOLDER, ""))
    if _agent_is_gone(either) and folder.name.startswith(FOLDER_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    if not in_time:
        os.killpg(0, signal.SIGKILL)
    code = program.wait()
    return code if code >= 0 else 128 - code


def _agent_is_gone(either: select.poll) -> bool:
    """Whether the input ended without a word; one that is being killed is still the parent for a while."""
    closed = any(descriptor == 0 for descriptor, _ in either.poll(0))
    return closed and os.read(0, 1) != ENOUGH


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
