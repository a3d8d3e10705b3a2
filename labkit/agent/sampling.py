"""Samples of the senders' CPUs during a run, taken by perf: started before the run, cut to it afterwards."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from labkit.agent.readings import Worker
from labkit.errors import LabError
from labkit.linux import perf_script
from labkit.linux.perf_limits import PerfLimits, no_perf, no_sampling, no_symbols, perf_limits
from labkit.linux.perf_program import SEARCHED, find_perf
from labkit.linux.perf_script import CpuSamples

CYCLES, TIMER = "cycles", "cpu-clock"
RATE_HZ: Final = 1999
"""Samples a second; no multiple of the kernel's tick (100 to 1000 Hz), whose work would be met too often.

In a virtual machine each takes some 20 us, for its timer is the hypervisor's: on two vCPUs of an EPYC 4999 Hz
made packets of sendmmsg 11 % dearer, 1999 Hz 4 %.
"""
MOST_SAMPLES: Final = 100_000
"""Of one CPU: a longer run is sampled less often, so that what perf writes stays small."""
STARTS_WITHIN_S, ENDS_WITHIN_S, TELLS_WITHIN_S = 5.0, 5.0, 40.0
PROFILING_S = 2 * STARTS_WITHIN_S + ENDS_WITHIN_S + TELLS_WITHIN_S
"""The most that a profile adds to a run, by the clock of who waits for it.

In an emulated machine perf takes some 4 s of the host's in all: 2 to 3 the first time, when it is read.
"""
ENABLE, ENABLED = b"enable\n", b"ack\n"
QUIET: Final = {"PATH": SEARCHED, "LC_ALL": "C", "HOME": "/nonexistent", "PERF_CONFIG": "/dev/null"}
"""perf's environment: no configuration of the user's, no folder to keep things in, no server to ask."""
LAST_WORDS = 300


class Sampler:
    """perf on some CPUs, for one run.

    Parameters
    ----------
    cpus : sequence of int
        Those that are sampled.
    longest_s : float
        The most that the run may take.
    limited : bool
        Whether perf is given up after a while by this machine's clock; False where that runs on while perf
        is read from a disk, so that somebody else has to keep the time.
    searched : str
        Folders where perf is looked for.
    limits : callable
        Tells what the kernel allows.

    Raises
    ------
    CapabilityMissingError
        No perf, no right to sample a CPU, or no kernel symbols; the message names what to turn.
    LabError
        perf did not start.
    """

    def __init__(
        self,
        cpus: Sequence[int],
        longest_s: float,
        *,
        limited: bool = True,
        searched: str = SEARCHED,
        limits: Callable[[], PerfLimits] = perf_limits,
    ) -> None:
        found = find_perf(searched)
        if found is None:
            raise no_perf()
        self._limited = limited
        self._perf, self._cpus = found, tuple(cpus)
        self._listed = ",".join(map(str, cpus))
        self._event = self._find_event(limits())
        self._rate_hz = min(RATE_HZ, max(1, int(MOST_SAMPLES / longest_s)))
        # in memory and without a name: nothing stays behind, however this process ends
        self._data_fd: int | None = os.memfd_create("samples")
        self._control, self._acknowledged = _Pipe(), _Pipe()
        try:
            self._record = self._start(self._data_fd)
        except BaseException:
            self._forget()
            raise

    def samples(self, workers: Sequence[Worker], own_pids: Collection[int]) -> CpuSamples:
        """End the sampling and give what it saw between the first worker's start and the last one's end.

        `own_pids` are the processes, or kernel threads, that send.

        Raises
        ------
        LabError
            perf ended early, or did not tell its samples in time.
        """
        if self._data_fd is None or self._record.poll() is not None:
            raise _failed("perf ended in the middle of the run", self._ended(self._record))
        words = self._ended(self._record)
        if self._record.returncode:
            raise _failed(f"perf ended with status {self._record.returncode}", words)
        told = self._ask(
            *("script", "-i", _path(self._data_fd), "--ns", "--no-inline", "--show-lost-events"),
            *("-F", perf_script.FIELDS),
            fds=(self._data_fd,),
            within_s=TELLS_WITHIN_S,
        )
        if told.returncode:
            raise _failed("perf does not tell its samples", told.stderr)
        return perf_script.counted(
            told.stdout,
            event=self._event,
            rate_hz=self._rate_hz,
            cpus=self._cpus,
            start_ns=min(worker.report.start_ns for worker in workers),
            end_ns=max(worker.report.end_ns for worker in workers),
            own_pids=own_pids,
        )

    def close(self) -> None:
        """End perf and forget its samples; harmless twice."""
        if self._data_fd is not None:
            self._ended(self._record)
            self._forget()

    def _forget(self) -> None:
        self._control.close()
        self._acknowledged.close()
        if self._data_fd is not None:
            os.close(self._data_fd)
            self._data_fd = None

    def _find_event(self, limits: PerfLimits) -> str:
        """The CPU's own count of cycles, else the timer; asks the kernel for both."""
        words = ("stat", "-x", ",", "-e", f"{CYCLES},{TIMER}", "-C", self._listed, "--", "true")
        told = self._ask(*words, within_s=STARTS_WITHIN_S)
        if told.returncode:
            raise no_sampling(limits, told.stderr.strip().partition("\n")[2].partition("\n")[0])
        if not limits.symbols:
            raise no_symbols(limits)
        counts = {fields[2]: fields[0] for fields in _rows(told.stderr)}
        return CYCLES if counts.get(CYCLES, "").isdigit() else TIMER

    def _start(self, data_fd: int) -> subprocess.Popen[str]:
        """Start perf and wait until it samples.

        It samples for as long as its own child lives, which reads what this process holds the other end of:
        both end with this process, even with a killed one.
        """
        control, acknowledged = self._control, self._acknowledged
        record = subprocess.Popen(
            [
                *(self._perf, "record", "-a", "-C", self._listed, "-e", self._event),
                *("-F", str(self._rate_hz), "-g", "-k", "CLOCK_MONOTONIC"),
                # no build ids: the kernel that wrote the samples reads them, and nothing is kept
                *("--no-buildid", "--no-buildid-cache", "--delay=-1"),
                # the thread that follows BPF programs looks for its end once a second only
                "--no-bpf-event",
                f"--control=fd:{control.read_fd},{acknowledged.write_fd}",
                *("-o", _path(data_fd), "--", "cat"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(data_fd, control.read_fd, acknowledged.write_fd),
            env=QUIET,
            cwd="/",
            text=True,
            errors="replace",
        )
        acknowledged.close_write()  # perf alone holds it now: its end is an end of file here
        self._keep_away(record.pid)
        try:
            # never closed before perf's end: perf 6.1 fails when it is
            os.write(control.write_fd, ENABLE)
            ready, _, _ = select.select([acknowledged.read_fd], [], [], self._at_most_s(STARTS_WITHIN_S))
            samples = bool(ready) and os.read(acknowledged.read_fd, 64).startswith(ENABLED)
        except BaseException:
            self._ended(record)
            raise
        if not samples:
            raise _failed(f"perf did not start within {STARTS_WITHIN_S:g} s", self._ended(record))
        return record

    def _keep_away(self, pid: int) -> None:
        """Let perf write its samples on another CPU, where there is one."""
        others = os.sched_getaffinity(0).difference(self._cpus)
        with contextlib.suppress(OSError):
            if others:
                os.sched_setaffinity(pid, others)

    def _ask(self, *words: str, within_s: float, fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self._perf, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=tuple(fds),
                env=QUIET,
                cwd="/",
                text=True,
                errors="replace",
                timeout=self._at_most_s(within_s),
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise LabError(
                f"profile: `perf {words[0]}` did not end within {within_s:g} s and was killed; "
                "take a shorter run, or look what holds perf up"
            ) from late
        except OSError as refused:
            raise LabError(f"profile: {self._perf} cannot be run", errno=refused.errno) from refused

    def _ended(self, record: subprocess.Popen[str]) -> str:
        """End perf by ending its child's input; its last words, once."""
        if record.stdin is not None:
            with contextlib.suppress(OSError):
                record.stdin.close()
        try:
            record.wait(self._at_most_s(ENDS_WITHIN_S))
        except subprocess.TimeoutExpired:
            record.kill()
            record.wait()
        if record.stderr is None or record.stderr.closed:
            return ""
        with record.stderr:
            return record.stderr.read()

    def _at_most_s(self, longest_s: float) -> float | None:
        """A limit by this machine's clock, where that is one."""
        return longest_s if self._limited else None


@contextlib.contextmanager
def sampling(
    cpus: Sequence[int], longest_s: float, *, wanted: bool, limited: bool = True
) -> Iterator[Sampler | None]:
    """Sample `cpus` within the block, where that is `wanted`; see `Sampler`."""
    if not wanted:
        yield None
        return
    sampler = Sampler(cpus, longest_s, limited=limited)
    try:
        yield sampler
    finally:
        sampler.close()


def _rows(text: str) -> list[list[str]]:
    """Lines of `perf stat -x,` that hold a count, its unit and its event."""
    rows = [line.split(",") for line in text.splitlines()]
    return [row for row in rows if len(row) > 2]


def _path(data_fd: int) -> str:
    return f"/dev/fd/{data_fd}"


def _failed(what: str, words: str) -> LabError:
    said = " ".join(words.split())[-LAST_WORDS:]
    return LabError(f"profile: {what}; try again, or run without a profile", kernel_text=said or None)


class _Pipe:
    """A pipe; closing it twice is harmless."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self._open = {self.read_fd, self.write_fd}

    def close_write(self) -> None:
        """Close the end that is written to."""
        self._close(self.write_fd)

    def close(self) -> None:
        """Close both ends."""
        self._close(self.read_fd)
        self._close(self.write_fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)
