"""A notebook kernel of this very interpreter, and its end: none outlives the run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, Final

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync

KERNEL_NAME: Final = "python3"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cancelled(KeyboardInterrupt):
    """The user, or whoever manages this process, wants the run to end.

    A KeyboardInterrupt, because asyncio lets only that and SystemExit out of its loop at once.
    """


class OwnInterpreter(KernelSpecManager):
    """Answers every kernel name with the interpreter at hand.

    A notebook without a kernel name, with one that is not installed here, or a `python3` in the user's home
    that belongs to another environment must all run where labkit is.
    """

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Kernel specification of `sys.executable`, whatever is asked."""
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name=kernel_name,
            language="python",
        )


class Manager(AsyncKernelManager):
    """Kernel manager that remembers the client that papermill asks of it, so that it can be closed."""

    asked_client: Any = None

    def client(self, **options: Any) -> Any:
        """Client for the kernel."""
        self.asked_client = super().client(**options)
        return self.asked_client


@contextlib.contextmanager
def running(environment: Mapping[str, str]) -> Iterator[Manager]:
    """Kernel manager with a started kernel; at the end the kernel and its process group are gone."""
    history = ["--HistoryManager.hist_file=:memory:"]
    with tempfile.TemporaryDirectory(prefix="labkit-kernel-") as folder:
        manager = Manager(
            kernel_name=KERNEL_NAME,
            kernel_spec_manager=OwnInterpreter(),
            transport="ipc",  # no port that others on this machine could reach
            connection_file=os.path.join(folder, "kernel.json"),
        )
        try:
            run_sync(manager.start_kernel)(env={**os.environ, **environment}, extra_arguments=history)
            yield manager
        except KeyboardInterrupt:
            with deaf():
                _interrupt(manager)
            raise
        finally:
            with deaf():
                _stop(manager)


@contextlib.contextmanager
def cancellable() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise `Cancelled` inside; outside the main thread nothing changes."""

    def cancel(number: int, _frame: FrameType | None) -> None:
        raise Cancelled(signal.Signals(number).name)

    with _handling(cancel):
        yield


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """No signal of ours interrupts what runs inside: clean-up, which is bounded in time."""
    with _handling(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handling(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _interrupt(manager: Manager) -> None:
    """Let the running cell clean up, as Ctrl-C in a terminal would; nobody waits for its reply any more."""
    with contextlib.suppress(RuntimeError, OSError):
        run_sync(_abandon_tasks)()
        run_sync(manager.interrupt_kernel)()


async def _abandon_tasks() -> None:
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _stop(manager: Manager) -> None:
    """Ask the kernel to end, kill it after the manager's 5 s, and sweep up what it started in its group."""
    group = getattr(manager.provisioner, "pgid", None)
    try:
        with contextlib.suppress(RuntimeError, OSError):
            if run_sync(manager.is_alive)():
                run_sync(manager.shutdown_kernel)(now=False)
        run_sync(manager.cleanup_resources)()
        if manager.asked_client is not None:
            manager.asked_client.stop_channels()
    finally:
        if group and group != os.getpgrp():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
