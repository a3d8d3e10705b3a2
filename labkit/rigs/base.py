"""What every rig offers, so that one experiment runs unchanged on each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, Self

import msgspec

from labkit.records import RigInfo, Sample, Scalar, Settings, Trial, Workload


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """Three values of each setting: what was asked, what the device read back, what the hardware does."""

    asked: dict[str, Scalar]
    accepted: dict[str, Scalar]
    effective: dict[str, Scalar]


class Rig(Protocol):
    """A place where workloads run; a context manager that leaves nothing behind."""

    @property
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""
        ...

    def check(self, workload: Workload) -> None:
        """Raise what is known to be wrong with `workload` here, before anything is sent."""
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
