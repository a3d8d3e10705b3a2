"""Engine `sendmmsg`: a batch of frames a system call."""

from __future__ import annotations

from typing import Final

from labkit import _native
from labkit.engines.base import MAX_BATCH, EngineConfig, EngineReport
from labkit.engines.native import run_native
from labkit.records import Frames


class Sendmmsg:
    """Many frames a sendmmsg(); the kernel still hands them to the device one by one."""

    name: Final = "sendmmsg"
    default_batch: Final = 64
    max_batch: Final = MAX_BATCH

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says."""
        return run_native(self.name, _native.sendmmsg, self.max_batch, frames, config, stop, progress)
