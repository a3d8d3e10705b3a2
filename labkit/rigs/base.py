"""What every rig offers, so that one experiment runs unchanged on each."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, Self

import msgspec

from labkit.drivers.facts import DriverFacts
from labkit.errors import WorkloadError
from labkit.factors import Scalar, Settings
from labkit.records import RigInfo, Sample, Trial, Workload

LONGEST_S: Final = 1e7
"""Longest run, some 115 days; far below what 64 bits of nanoseconds hold."""
MOST_FRAMES: Final = 2**63 - 1


def check_length(duration_s: float, count: int | None) -> None:
    """Raise `WorkloadError` unless a run has a length: seconds above 0, and a whole number of frames or None.

    A count of 0 is a length: such a run sends nothing and says so.
    """
    timed = isinstance(duration_s, int | float) and not isinstance(duration_s, bool)
    if not (timed and 0 < duration_s <= LONGEST_S):
        raise WorkloadError(f"duration_s {duration_s!r}: give seconds above 0, {LONGEST_S:g} at the most")
    if count is None:
        return
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_FRAMES:
        raise WorkloadError(f"count {count!r}: give a whole number of frames from 0, or None for no limit")


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """Three values of each setting: what was asked, what the device read back, what the hardware does."""

    asked: dict[str, Scalar]
    accepted: dict[str, Scalar]
    effective: dict[str, Scalar]


class OpenRig(abc.ABC):
    """What every rig of this house has in common: a line for a notebook's cell, and an end."""

    @property
    @abc.abstractmethod
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give everything back; harmless twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        can = [f"engines {', '.join(self.info.engines)}", f"{len(self.info.factors)} settings"]
        can[1:1] = [f"sinks {', '.join(self.info.sinks)}"] if self.info.sinks else []
        return f"<rig {self.info.name}: {'; '.join(can)}\n {self.info.title}>"


class Rig(Protocol):
    """A place where workloads run; a context manager that leaves nothing behind."""

    @property
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""
        ...

    @property
    def made_with(self) -> Mapping[str, Any]:
        """What it was made with besides its name, as JSON; one made otherwise belongs to another sweep."""
        ...

    @property
    def driver(self) -> DriverFacts | None:
        """What is known about the sending device's driver; None where nothing is."""
        ...

    def check(self, workload: Workload) -> None:
        """Raise what is known to be wrong with `workload` here, before anything is sent."""
        ...

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do, one line a setting; nothing changes.

        Raises what is known to be wrong without asking the driver, as `applied` does.
        """
        ...

    def applied(self, settings: Settings) -> AbstractContextManager[Applied]:
        """Turn `settings`, read them back, and put the old ones back at the end.

        Raises
        ------
        WorkloadError
            A name that labkit does not know.
        CapabilityMissingError
            A setting that this rig never has.
        SettingRefusedError
            A value that the driver refuses.
        """
        ...

    def run(
        self,
        workload: Workload,
        *,
        duration_s: float = 1.0,
        count: int | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        check: bool = True,
    ) -> Trial:
        """Send once for `duration_s` seconds or `count` frames, whichever ends first, and count.

        ``check=False`` calls the engine directly: what the kernel refuses is then counted, not foreseen.
        """
        ...

    def stop(self) -> None:
        """End the run in progress within 10 ms of its next batch; callable from another thread."""
        ...

    def close(self) -> None:
        """Give everything back; harmless twice."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
