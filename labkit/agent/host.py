"""What the server needs of a device, whether the agent made it or found it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from labkit._native import Progress
from labkit.agent.protocol import Opened, Run
from labkit.agent.queue_limits import ByteLimits
from labkit.agent.readings import Reading
from labkit.agent.sinks import Sink
from labkit.engines.iperf3 import FarEnd
from labkit.factors import Scalar
from labkit.linux.links import LinkFacts
from labkit.records import Frames

SETTLES_WITHIN_NS: Final = 100_000_000


class Host(Protocol):
    """A device with its settings and its counters.

    Attributes
    ----------
    private : bool
        Whether it lies in namespaces that the agent made: other programs are run there alone.
    settles_within_ns : int
        Longest wait until two reads of its counters agree.
    keeps_time : bool
        Whether this machine's clock may limit other programs: not one that runs on while a CPU is idle.
    """

    @property
    def private(self) -> bool:  # noqa: D102 - see above
        ...

    @property
    def settles_within_ns(self) -> int:  # noqa: D102 - see above
        ...

    @property
    def keeps_time(self) -> bool:  # noqa: D102 - see above
        ...

    def look(self, sink: str) -> Opened:
        """State of the links that `sink` uses, read now."""
        ...

    def link(self, sink: str) -> LinkFacts:
        """State of the sending link alone: what a run looks at before and after."""
        ...

    def counter(self, sink: str) -> tuple[str, str, str | None]:
        """Device and counter that say what left, and the device that says what arrived, if any."""
        ...

    def ifindex(self, sink: str) -> int:
        """Interface number that an engine sends on."""
        ...

    def far(self, sink: str) -> FarEnd | None:
        """The end where frames arrive, where it is this host's own."""
        ...

    def read(self, sink: str) -> Reading:
        """Raw counters of one moment."""
        ...

    def read_links(self, sink: str) -> tuple[dict[str, int], dict[str, int]]:
        """Device and peer link counters alone: what a live sample can afford."""
        ...

    def byte_limits(self, sink: str) -> ByteLimits | None:
        """Byte queue limits of the sending device's first queue now; None where nobody can look."""
        ...

    def empty_queue(self, sink: str) -> bool:
        """Throw away what an earlier run left in a qdisc of ours; whether there was anything."""
        ...

    def receiver(
        self, request: Run, frames: Frames, sender: Progress, sender_cpus: Sequence[int]
    ) -> AbstractContextManager[Sink | None]:
        """The sink of `request`, receiving within the block; None for one that only counts."""
        ...

    def preview(self, settings: Mapping[str, Scalar]) -> str:
        """What applying `settings` would do, in words; nothing is changed."""
        ...

    def apply(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Turn settings and read back everything in force."""
        ...

    def restore(self, level: int) -> list[str]:
        """Put back what every `apply` beyond the first `level` changed; what is not as before, in words."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
