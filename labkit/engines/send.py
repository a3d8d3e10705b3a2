"""Engine `send`: one send() a frame."""

from __future__ import annotations

from typing import Final

from labkit import _native
from labkit.engines.base import EngineConfig, EngineReport
from labkit.engines.native import run_native
from labkit.records import Frames


class Send:
    """The plainest way out: what a system call a frame costs."""

    name: Final = "send"
    default_batch: Final = 1
    max_batch: Final = 1

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says."""
        return run_native(self.name, _native.send, self.max_batch, frames, config, stop, progress)
