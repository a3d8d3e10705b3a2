"""A terminated process leaves through its context managers, as an interrupted one does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit` inside the block, so that settings go back and rows stay marked.

    Does nothing outside the main thread, where Python takes no signals, and nothing where the
    program has a handler of its own.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)  # what a shell reports for a process that the signal ended
