"""Runs one notebook by papermill and judges the run by labkit's own record."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from labkit.errors import ResultIncompatibleError, WorkloadError
from labkit.report.record import RECORD_VARIABLE, RunRecord, State, read, write


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One notebook to run: where from, where to, with which parameters."""

    source: Path
    executed: Path
    record: Path
    parameters: dict[str, Any]


def run(job: Job, *, cell_limit_s: float, progress: bool) -> RunRecord:
    """Execute `job` and return its settled record; Ctrl-C and SIGTERM make it ``cancelled``.

    Whatever happens, no kernel outlives the call and the record says how it ended.
    """
    from labkit.report import kernel

    started = time.monotonic()
    opening = RunRecord(
        run_id=job.record.stem,
        notebook=str(job.source),
        executed=str(job.executed),
        state="running",
        reason=None,
        parameters=job.parameters,
        findings={},
        started_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        duration_s=None,
        pid=os.getpid(),
    )
    write(job.record, opening)
    job.executed.parent.mkdir(parents=True, exist_ok=True)
    job.executed.unlink(missing_ok=True)

    def told() -> RunRecord:
        """What the notebook has written; a record that it broke counts as not written."""
        with contextlib.suppress(ResultIncompatibleError):
            return read(job.record)
        return opening

    def settle(state: State, reason: str | None) -> RunRecord:
        duration_s = round(time.monotonic() - started, 3)
        settled = msgspec.structs.replace(told(), state=state, reason=reason, duration_s=duration_s)
        with kernel.deaf():
            write(job.record, settled)
        return settled

    try:
        reason = _execute(job, cell_limit_s, progress)
    except KeyboardInterrupt as interrupt:
        return settle("cancelled", f"{interrupt or 'SIGINT'}{_place(job.executed)}")
    except BaseException as error:
        settle("failed", f"{type(error).__name__}: {error}")
        raise
    if reason is None and told().state != "finished":
        reason = "it came to its end without lk.finish(...) in its last cell"
    return settle("failed" if reason else "finished", reason)


def _execute(job: Job, cell_limit_s: float, progress: bool) -> str | None:
    """Execute every cell; why it stopped early, or None."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    from labkit.report import kernel

    def place() -> str:
        return _place(job.executed)

    endings: dict[type[Exception], Callable[[Any], str]] = {
        PapermillExecutionError: lambda error: f"{error.ename}: {error.evalue}{place()}",
        CellTimeoutError: lambda _: f"a cell took longer than {cell_limit_s:g} s{place()}",
        DeadKernelError: lambda _: f"the kernel died{place()}",
        # what nbclient raises when a kernel says nothing at its start
        RuntimeError: lambda error: f"the kernel failed: {error}{place()}",
    }
    # plotly's other renderers write a copy of plotly.js, or its web address, into the notebook
    environment = {RECORD_VARIABLE: str(job.record.resolve()), "PLOTLY_RENDERER": "plotly_mimetype"}
    with kernel.cancellable(), kernel.running(environment) as manager:
        try:
            papermill.execute_notebook(
                _literal(job.source),
                _literal(job.executed),
                parameters=job.parameters,
                kernel_name=kernel.KERNEL_NAME,
                language="python",
                progress_bar={"desc": job.source.stem, "leave": True} if progress else False,
                execution_timeout=cell_limit_s,
                store_widget_state=False,
                km=manager,
            )
        except tuple(endings) as error:
            return next(say(error) for kind, say in endings.items() if isinstance(error, kind))
    return None


def _literal(path: Path) -> str:
    """`path` for papermill, which formats braces in paths with the parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _place(executed: Path) -> str:
    """Name the last cell that was started, by its number and its first line of code, where it is known."""
    from labkit.report import notebook

    with contextlib.suppress(OSError, ValueError):
        cells = notebook.cells(executed)
        begun = [number for number, cell in enumerate(cells) if cell.metadata.papermill.get("start_time")]
        if begun:
            source = cells[begun[-1]].source.strip()
            first_line = source.splitlines()[0] if source else ""
            return f" (cell {begun[-1] + 1} of {len(cells)}: {first_line})"
    return ""


def check_target(source: Path, executed: Path) -> None:
    """Refuse to write the executed copy over the notebook itself."""
    if executed.resolve() == source.resolve():
        raise WorkloadError(
            f"{source}: the executed copy would overwrite it; choose another folder with --out"
        )
