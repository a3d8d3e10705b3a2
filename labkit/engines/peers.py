"""Other packet generators as engines: run by the agent, counted at device and sink alone."""

from __future__ import annotations

import abc
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from labkit import _native
from labkit.engines import peer_commands as commands
from labkit.engines.base import MAX_BATCH, EngineConfig, EngineReport, check
from labkit.engines.peer_child import FOLDER_PREFIX
from labkit.engines.peer_process import PROGRAMS, Child, Course, follow
from labkit.engines.super_packets import MAX_SEGMENTS, check_gso
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.linux.link_stats import LinkStats
from labkit.linux.machine import kept_off
from labkit.linux.processes import Times
from labkit.records import Frames
from labkit.traffic.pcap import pcap_bytes
from labkit.traffic.table import FrameTable

MOST_FRAMES: Final = 10_000
"""Distinct frames that a peer is given: trafgen reads each byte as text."""


class Job(NamedTuple):
    """What a command line is made of."""

    program: str
    interface: str
    cpu: int
    folder: Path
    frames: Frames
    config: EngineConfig


class Peer(abc.ABC):
    """Another program that sends; a subclass names itself, its Debian package and its command.

    It sends as fast as it can, from one CPU, and its own count is not asked. `sent` is None in its report,
    and its time is that of its frames: from the last look at the device's counter before the first of them
    to the look that saw the last.
    """

    name: str
    package: str
    default_batch = 1
    max_batch = 1
    bypasses_qdisc = False

    def usual_batch(self, frames: Frames) -> int:  # noqa: ARG002 - frames matter to bare_gso alone
        """Frames a call when the workload names none; 1 stands for the program's own way."""
        return self.default_batch

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what this program is not asked here."""
        for asked, what in (
            (self.max_batch == 1 and config.batch != 1, "batch"),
            (config.rate_pps is not None, "rate"),
            (config.qdisc_bypass and not self.bypasses_qdisc, "qdisc_bypass"),
            (config.ring_frames is not None, "ring_frames"),
            (config.stamp, "stamp"),
            (config.realtime_priority is not None, "realtime_priority"),
        ):
            if asked:
                raise WorkloadError(
                    f"{self.name}: {what}: this program runs here in its own way, as fast as it can; leave "
                    "it out, or take an engine of labkit's own"
                )
        check(self.name, self.max_batch, frames, config)
        if len(frames) > MOST_FRAMES:
            raise WorkloadError(f"{self.name}: {len(frames)} frames; give it {MOST_FRAMES} at the most")

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Let the program send for the asked duration, counted from its first frame, or the asked count.

        Raises
        ------
        CapabilityMissingError
            It is not installed; names the Debian package.
        LabError
            It ended early or sent nothing; carries its last words.
        """
        del progress  # it tells none
        self.check(frames, config)
        if config.count == 0:
            now_ns = time.monotonic_ns()  # to a program 0 is no number, or no limit
            return self._report(Course(now_ns, now_ns, Times(0, 0, 0), "count"), config)
        allowed = os.sched_getaffinity(0)
        cpu = max(allowed) if config.cpu is None else config.cpu
        if cpu not in allowed:
            told = ", ".join(map(str, sorted(allowed)))
            raise WorkloadError(f"{self.name}: CPU {cpu} is not allowed here; allowed: {told}")
        program, interface = self._program(), socket.if_indextoname(config.ifindex)
        with _private_folder() as folder, _counted(config.ifindex) as counted, kept_off([cpu]):
            job = Job(program, interface, cpu, folder, frames, config)
            course = self._course(job, counted, stop)
        return self._report(course, config)

    @abc.abstractmethod
    def _command(self, job: Job) -> list[str]:
        """The command line, its files written to the job's folder."""

    def _course(self, job: Job, counted: Callable[[], int], stop: _native.StopFlag) -> Course:
        """How the program's run went."""
        with Child(self.name, self._command(job), [job.cpu], job.folder) as child:
            return follow(child, counted, job.config, stop)

    def _program(self) -> str:
        found = shutil.which(self.name, path=PROGRAMS)
        if found is None:
            raise CapabilityMissingError(
                f"{self.name}: not installed here: sudo apt-get install {self.package}"
            )
        return found

    def _report(self, course: Course, config: EngineConfig) -> EngineReport:
        return EngineReport(
            sent=None,
            attempted=config.count if course.ended_by == "count" else None,
            refused=0,
            refused_by_errno={},
            super_packets=None,
            partial_returns=0,
            calls=0,
            start_ns=course.start_ns,
            end_ns=course.end_ns,
            cpu_ns=course.times.cpu_ns,
            waited_ns=course.times.waited_ns,
            involuntary_switches=course.times.involuntary_switches,
            qdisc_bypass=self.bypasses_qdisc,
            fatal_errno=None,
            ended_by=course.ended_by,
            stream=course.stream,
        )


class Trafgen(Peer):
    """netsniff-ng's generator: a mapped ring, past the queueing discipline."""

    name = "trafgen"
    package = "netsniff-ng"
    bypasses_qdisc = True

    def _command(self, job: Job) -> list[str]:
        file = job.folder / "frames.cfg"
        file.write_text(commands.trafgen_config(job.frames, job.cpu))
        return commands.trafgen(job.program, job.interface, str(file), job.cpu, job.config.count)


class Tcpreplay(Peer):
    """A capture sent again, a packet socket's send() a frame."""

    name = "tcpreplay"
    package = "tcpreplay"

    def _command(self, job: Job) -> list[str]:
        file = job.folder / "frames.pcap"
        file.write_bytes(pcap_bytes(FrameTable.of(commands.replayed(job.frames))))
        return commands.tcpreplay(job.program, job.interface, str(file), job.config.count)


class Sendp(Peer):
    """scapy's sendp()."""

    name = "sendp"
    package = ""

    def _program(self) -> str:
        return ""  # scapy is labkit's own dependency

    def _command(self, job: Job) -> list[str]:
        file = job.folder / "frames.pcap"
        file.write_bytes(pcap_bytes(job.frames))
        return commands.sendp(job.interface, str(file), job.config.count)


class BareLoop(Peer):
    """A C loop without checks or counts, as near as can be to what its mechanism costs: one frame."""

    def __init__(self, mechanism: str, default_batch: int) -> None:
        self.mechanism, self.name = mechanism, f"bare_{mechanism}"
        self.default_batch = default_batch
        self.max_batch = MAX_SEGMENTS if mechanism == "gso" else max(MAX_BATCH, default_batch)

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` also for more than one frame, or a count, which it does not know."""
        super().check(frames, config)
        if len(frames) != 1:
            raise WorkloadError(f"{self.name}: sends one frame over and over; give a flow of one: flows=1")
        if config.count is not None:
            raise WorkloadError(f"{self.name}: counts nothing; give a duration instead of a count")
        if self.mechanism == "gso":
            check_gso(frames, config)

    def _program(self) -> str:
        return bare_program(self.name)

    def _command(self, job: Job) -> list[str]:
        asked = job.config
        return commands.bare(job.program, asked.ifindex, job.cpu, asked.batch, job.frames.frame(0))


BARE_BATCHES: Final[Mapping[str, int]] = {
    "sendmmsg": 64,
    "tx_ring": 256,
    "gso": 64,
    "af_xdp": 256,
    "xdp_live": 8192,
}
"""Frames a call of each bare loop; sources.cmake builds them."""


def bare_program(name: str) -> str:
    """Where the build put the bare loop `name`.

    Raises
    ------
    CapabilityMissingError
        It was not built.
    """
    program = Path(_native.__file__).parent / "bare" / name
    if not program.exists():
        raise CapabilityMissingError(f"{name}: not built here; run `make setup`")
    return str(program)


@contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder that only this user sees, and that goes at the end."""
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as folder:
        yield Path(folder)


@contextmanager
def _counted(ifindex: int) -> Iterator[Callable[[], int]]:
    """Frames that link `ifindex` of this thread's network has sent; an ifb device counts them as received."""
    stats = LinkStats()

    def counted() -> int:
        counts = stats.read(ifindex)
        return counts["tx_packets"] + counts["rx_packets"]

    try:
        yield counted
    finally:
        stats.close()
