"""Engine `iperf3_tcp`: its TCP client, what engine `tcp` is held against."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import msgspec

from labkit import _native
from labkit.engines import peer_commands as commands
from labkit.engines.base import EngineConfig
from labkit.engines.iperf3 import THERE, Iperf3, addressed, needed
from labkit.engines.peer_process import PROGRAMS, Course
from labkit.engines.peers import Job, Peer
from labkit.engines.stream_records import StreamReport
from labkit.engines.tcp import MESSAGE_BYTES, check_message
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.linux.link_stats import LinkStats
from labkit.records import Frames


class Iperf3Tcp(Iperf3):
    """iperf3's TCP stream, in writes of the workload's length, to its server at the receiving end.

    What it sent is told by the device's byte counter alone, from behind its greeting to its end: of both
    engines of streams the one figure that neither makes itself.
    """

    name = "iperf3_tcp"

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for a count, and for writes of no bytes or too many."""
        Peer.check(self, frames, config)
        if config.count is not None:
            raise WorkloadError(f"{self.name}: its greeting would be counted too; give a duration")
        check_message(self.name, config)

    def _program(self) -> str:
        found = shutil.which("iperf3", path=PROGRAMS)
        if found is None:
            raise CapabilityMissingError(
                f"{self.name}: not installed here: sudo apt-get install {self.package}"
            )
        return found

    def _command(self, job: Job) -> list[str]:
        return commands.iperf3_stream(job.program, THERE, job.config.message_bytes or MESSAGE_BYTES)

    def _course(self, job: Job, counted: Callable[[], int], stop: _native.StopFlag) -> Course:
        far, stats = needed(self._far, self.name), LinkStats()
        looks: list[tuple[int, int]] = []

        def look() -> None:
            looks.append((time.monotonic_ns(), stats.read(job.config.ifindex)["tx_bytes"]))

        try:
            with addressed(job.config.ifindex, far), self._server(job, far):
                course = self._followed(job, counted, stop, look)
                look()
        finally:
            stats.close()
        return msgspec.structs.replace(course, stream=_seen(looks, course, job.config))


def _seen(looks: list[tuple[int, int]], course: Course, config: EngineConfig) -> StreamReport:
    """What the device counted from the first look to the stream's end, and nothing that iperf3 says."""
    (begun_ns, before), (_, after) = looks[0], looks[-1]
    begun = len(looks) > 1
    return StreamReport(
        message_bytes=config.message_bytes or MESSAGE_BYTES,
        send_cpu=config.cpu,
        device_bytes=after - before if begun else None,
        device_ns=course.end_ns - begun_ns if begun else None,
    )
