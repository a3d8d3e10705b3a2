"""Engine `iperf3`: its UDP client, with a server at the receiving end to talk to first; and that end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from labkit import _native
from labkit.engines import peer_commands as commands
from labkit.engines.base import EngineConfig
from labkit.engines.peer_process import START_WITHIN_NS, Child, Course, follow
from labkit.engines.peers import Job, Peer
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.linux.namespaces import inside
from labkit.linux.sockets import listens
from labkit.records import Frames

if TYPE_CHECKING:
    from labkit.linux.addresses import Addresses

HERE, THERE, PREFIX_BITS = "192.0.2.1", "192.0.2.2", 30
HEADERS_BYTES: Final = 42
LEAST_PAYLOAD_BYTES: Final = 16
"""MIN_UDP_BLOCKSIZE of iperf 3 (src/iperf.h); 60-byte frames carry 18."""
FIRST_FRAMES: Final = 500
"""Frames that may belong to the greeting."""
LISTEN_STEP_S: Final = 0.002


class FarEnd(NamedTuple):
    """Network namespace (a descriptor) and interface number of the end where frames arrive."""

    network: int
    ifindex: int


def needed(far: FarEnd | None, engine: str) -> FarEnd:
    """`far`, or a `CapabilityMissingError` that says where there is one."""
    if far is None:
        raise CapabilityMissingError(
            f"{engine}: needs a server where frames arrive, and nothing lives there; take rig 'veth' with "
            "sink 'stack'"
        )
    return far


@contextmanager
def addressed(ifindex: int, far: FarEnd) -> Iterator[Addresses]:
    """Link `ifindex` as `HERE` and the far end as `THERE` within the block; the addresses of this end."""
    from labkit.linux.addresses import Addresses  # brings netlink's library, which few engines need

    with inside(far.network):
        there = Addresses(far.ifindex)
    with there, Addresses(ifindex) as here:
        there.add(THERE, PREFIX_BITS)
        here.add(HERE, PREFIX_BITS)
        yield here


class Iperf3(Peer):
    """iperf3 -u, in frames of the flow's length, from the stack's own UDP sockets.

    It greets its server over TCP, and its first datagrams reach it. Then the server's address is given the
    flow's destination MAC, so that the rest ends where other engines' frames end. The payload is iperf3's.

    Parameters
    ----------
    far : FarEnd or None
        Where its server runs.
    """

    name = "iperf3"
    package = "iperf3"

    def __init__(self, far: FarEnd | None = None) -> None:
        self._far = far

    def placed(self, far: FarEnd | None) -> Self:
        """The same with its server at `far`."""
        return type(self)(far)

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for several or mixed frames, a count, and lengths that it does not send."""
        super().check(frames, config)
        if len(frames) != 1 or frames.longest_bytes < HEADERS_BYTES + LEAST_PAYLOAD_BYTES:
            raise WorkloadError(
                f"iperf3: sends one flow of its own, frames of {HEADERS_BYTES + LEAST_PAYLOAD_BYTES} bytes "
                f"or more; give flows=1 (here {len(frames)} frames of {frames.longest_bytes} bytes)"
            )
        if config.count is not None:
            raise WorkloadError("iperf3: its greeting would be counted too; give a duration, not a count")

    def _command(self, job: Job) -> list[str]:
        payload_bytes = job.frames.longest_bytes - HEADERS_BYTES
        return commands.iperf3_client(job.program, THERE, payload_bytes)

    def _course(self, job: Job, counted: Callable[[], int], stop: _native.StopFlag) -> Course:
        far = needed(self._far, self.name)
        with addressed(job.config.ifindex, far) as here, self._server(job, far):
            mac = job.frames.frame(0)[:6].hex(":")
            return self._followed(job, counted, stop, lambda: here.neighbour(THERE, mac))

    def _followed(
        self, job: Job, counted: Callable[[], int], stop: _native.StopFlag, begun: Callable[[], None]
    ) -> Course:
        """The client's run; `begun` is called behind its greeting."""
        with Child(self.name, self._command(job), [job.cpu], job.folder) as child:
            return follow(child, counted, job.config, stop, first_frames=FIRST_FRAMES, begun=begun)

    def _server(self, job: Job, far: FarEnd) -> Child:
        """A server that listens, off the sender's CPU where there is another one."""
        cpus = os.sched_getaffinity(0)
        with inside(far.network):
            server = Child("iperf3-server", commands.iperf3_server(job.program, THERE), cpus, job.folder)
            try:
                _wait_for(server)
            except BaseException:
                server.close()
                raise
        return server


def _wait_for(server: Child) -> None:
    deadline_ns = time.monotonic_ns() + START_WITHIN_NS
    while not listens(commands.IPERF3_PORT):
        if server.ended_within(LISTEN_STEP_S) or time.monotonic_ns() > deadline_ns:
            raise server.failure("does not listen")
