"""Engine `tx_ring`: frames in a ring that is shared with the kernel, a batch a kick."""

from __future__ import annotations

import errno

from labkit import _native
from labkit.engines.base import MAX_BATCH, EngineConfig, EngineReport
from labkit.engines.native import NativeEngine, run_native
from labkit.engines.ring_geometry import no_memory, ring_geometry
from labkit.records import Frames


class TxRing(NativeEngine):
    """TPACKET_V2: frames are written where the kernel reads them, and their slots say what became of them."""

    name = "tx_ring"
    default_batch = 256
    max_batch = MAX_BATCH

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what is wrong with a request, its ring included."""
        super().check(frames, config)
        ring_geometry(frames, config)

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says; `CapabilityMissingError` without memory."""
        super().check(frames, config)
        ring = ring_geometry(frames, config)
        reasons = {errno.ENOMEM: no_memory(ring, config.batch)}
        return run_native(self.name, _native.tx_ring, frames, config, stop, progress, reasons, ring)
