"""The senders of one run: a thread each with its CPU, queue and share of the work, and one report of all."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from labkit._native import Progress, StopFlag
from labkit.agent.protocol import Run
from labkit.agent.readings import Worker
from labkit.engines.base import EndedBy, Engine, EngineConfig, EngineReport, Together
from labkit.engines.pktgen import PktgenEngine
from labkit.engines.pktgen_told import together
from labkit.errors import WorkloadError
from labkit.linux.machine import runqueue_wait_ns
from labkit.linux.pktgen import THREAD
from labkit.linux.processes import named
from labkit.records import Frames

ENDINGS: tuple[EndedBy, ...] = ("error", "stop", "duration", "count")
"""How a run of several senders ended: the first of these that one of them ended by."""


def shares(request: Run, ifindex: int, allowed: set[int]) -> list[EngineConfig]:
    """What each worker is asked: its part of the count, an equal part of the rate, a CPU of its own.

    The first worker has the CPU asked for, or the highest allowed one, and the others those below it.

    Raises
    ------
    WorkloadError
        More workers than CPUs, or none.
    """
    workers, config = request.workers, request.config
    if workers < 1:
        raise WorkloadError(f"cpus {workers}: give 1 or more")
    first = max(allowed) if config.cpu is None else config.cpu
    cpus = [first, *sorted(allowed - {first}, reverse=True)]
    if workers > len(cpus):
        raise WorkloadError(
            f"cpus {workers}: this process may use {len(allowed)} CPUs; ask for so many, or allow more "
            "(taskset, cpuset)"
        )
    counts: list[int | None] = [None] * workers
    if config.count is not None:
        each, more = divmod(config.count, workers)
        counts = [each + (worker < more) for worker in range(workers)]
    rate_pps = None if config.rate_pps is None else config.rate_pps / workers
    return [
        msgspec.structs.replace(
            config, ifindex=ifindex, queue=worker, cpu=cpus[worker], count=counts[worker], rate_pps=rate_pps
        )
        for worker in range(workers)
    ]


def sending_pids(engine: str, cpus: Iterable[int]) -> set[int]:
    """Who works for the packets: this process, or the kernel's own threads on these CPUs.

    Beside pktgen's threads this process only looks on.
    """
    if engine != PktgenEngine.name:
        return {os.getpid()}
    return {pid for cpu in cpus for pid in named(f"{THREAD}{cpu}")}


class Senders:
    """Threads that run one engine, each once; of an engine whose workers run together a single one.

    Parameters
    ----------
    engine : Engine
        What every worker runs.
    frames : Frames
        What every worker sends, from the first frame on.
    configs : sequence of EngineConfig
        One a worker, as `shares` gives them.
    ended : callable
        Called on a worker's thread when it has ended, however it ended.
    """

    def __init__(
        self, engine: Engine, frames: Frames, configs: Sequence[EngineConfig], ended: Callable[[], None]
    ) -> None:
        self._stop = StopFlag()
        self._progress = [Progress() for _ in configs]
        self._configs = list(configs)
        self._threads = [
            _Sender(name, run, ended)
            for name, run in _calls(engine, frames, configs, self._stop, self._progress)
        ]

    @property
    def progress(self) -> Progress:
        """The first worker's counts so far."""
        return self._progress[0]

    @property
    def sent(self) -> int:
        """Frames sent so far."""
        return sum(progress.sent for progress in self._progress)

    @property
    def refused(self) -> int:
        """Frames refused so far."""
        return sum(progress.refused for progress in self._progress)

    def start(self) -> None:
        """Start every worker."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End every worker within 10 ms of its next batch."""
        self._stop.set()

    @property
    def ended(self) -> bool:
        """Whether every worker has ended, or one has failed: then the others are not worth waiting for."""
        return any(thread.failure for thread in self._threads) or not any(
            thread.is_alive() and not thread.done for thread in self._threads
        )

    def join(self) -> None:
        """Wait for the threads that were started."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def reports(self) -> list[Worker]:
        """What each worker did; raises what one of them raised."""
        found: list[EngineReport] = []
        for thread in self._threads:
            if thread.failure is not None:
                raise thread.failure
            found += thread.reports
        cpus = [config.cpu for config in self._configs if config.cpu is not None]
        if not len(found) == len(cpus) == len(self._configs):
            raise RuntimeError("an engine's thread ended without a report")
        return [Worker(cpu=cpu, report=report) for cpu, report in zip(cpus, found, strict=True)]

    @property
    def runqueue_wait_ns(self) -> int | None:
        """Time that the workers together waited for a CPU though ready; None where it is not told."""
        waits = [thread.runqueue_wait_ns for thread in self._threads]
        known = [wait for wait in waits if wait is not None]
        return sum(known) if len(known) == len(waits) else None


def _calls(
    engine: Engine,
    frames: Frames,
    configs: Sequence[EngineConfig],
    stop: StopFlag,
    progresses: Sequence[Progress],
) -> list[tuple[str, Callable[[], list[EngineReport]]]]:
    """What each thread is called and does."""
    if isinstance(engine, Together):
        run_all = engine.run_all
        return [("engine", lambda: run_all(frames, configs, stop, progresses))]

    def one(config: EngineConfig, progress: Progress) -> Callable[[], list[EngineReport]]:
        return lambda: [engine.run(frames, config, stop, progress)]

    return [
        (f"engine-{config.queue}", one(config, progress))
        for config, progress in zip(configs, progresses, strict=True)
    ]


class _Sender(threading.Thread):
    def __init__(self, name: str, run: Callable[[], list[EngineReport]], ended: Callable[[], None]) -> None:
        super().__init__(name=name)
        self._run_engine, self._tell_end = run, ended
        self.done = False
        self.reports: list[EngineReport] = []
        self.failure: BaseException | None = None
        self.runqueue_wait_ns: int | None = None

    def run(self) -> None:
        try:
            waited_before = runqueue_wait_ns()
            self.reports = self._run_engine()
            waited_after = runqueue_wait_ns()
            # a sender that is no thread of this process tells its own wait
            told = _sum([report.waited_ns for report in self.reports])
            if told is not None:
                self.runqueue_wait_ns = told
            elif waited_before is not None and waited_after is not None:
                self.runqueue_wait_ns = waited_after - waited_before
        except BaseException as failure:  # noqa: BLE001 - carried to the main thread, raised there
            self.failure = failure
        finally:
            self.done = True
            self._tell_end()


def merged(reports: Sequence[EngineReport]) -> EngineReport:
    """All workers as one: counts and CPU time added up, from the first start to the last end."""
    refused: Counter[str] = Counter()
    gaps: Counter[int] = Counter()
    for report in reports:
        refused.update(report.refused_by_errno)
        gaps.update(dict(report.gaps or []))
    return EngineReport(
        sent=_sum([report.sent for report in reports]),
        attempted=_sum([report.attempted for report in reports]),
        refused=sum(report.refused for report in reports),
        refused_by_errno=dict(refused),
        super_packets=_sum([report.super_packets for report in reports]),
        partial_returns=sum(report.partial_returns for report in reports),
        calls=sum(report.calls for report in reports),
        start_ns=min(report.start_ns for report in reports),
        end_ns=max(report.end_ns for report in reports),
        cpu_ns=sum(report.cpu_ns for report in reports),
        waited_ns=_sum([report.waited_ns for report in reports]),
        involuntary_switches=sum(report.involuntary_switches for report in reports),
        qdisc_bypass=all(report.qdisc_bypass for report in reports),
        fatal_errno=next((report.fatal_errno for report in reports if report.fatal_errno), None),
        ended_by=next(ending for ending in ENDINGS if any(report.ended_by == ending for report in reports)),
        gaps=sorted(gaps.items()) if all(report.gaps is not None for report in reports) else None,
        burst_frames=max((report.burst_frames or 0 for report in reports), default=0) or None,
        zero_copy=_all([report.zero_copy for report in reports]),
        stream=next((report.stream for report in reports), None),  # nobody sends two
        pktgen=together([report.pktgen for report in reports]),
    )


def _all(answers: Sequence[bool | None]) -> bool | None:
    known = [answer for answer in answers if answer is not None]
    return all(known) if known else None


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
