"""Engine `gso`: UDP frames as super-packets, which the kernel or the device cuts into segments."""

from __future__ import annotations

import errno

from labkit import _native
from labkit.engines.base import EngineConfig, EngineReport
from labkit.engines.native import NativeEngine, run_native
from labkit.engines.super_packets import MAX_SEGMENTS, check_gso, no_super_packet, usual_segments
from labkit.records import Frames


class Gso(NativeEngine):
    """A batch of segments crosses the stack as one packet.

    They share their headers: each frame of the flow leaves a batch long in a row, its IPv4 identification
    counting up and its checksums filled in by the kernel.
    """

    name = "gso"
    default_batch = 64
    max_batch = MAX_SEGMENTS

    def usual_batch(self, frames: Frames) -> int:
        """As many segments as an IP packet holds of these frames, up to the default."""
        return usual_segments(self.default_batch, frames)

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what super-packets cannot do."""
        check_gso(frames, config)

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says.

        The first super-packet tells whether the kernel takes so many segments: if not, nothing has been sent
        and the error is a `CapabilityMissingError`.
        """
        self.check(frames, config)
        reasons = {errno.EINVAL: no_super_packet(config.batch)}
        return run_native(self.name, _native.gso, frames, config, stop, progress, reasons)
