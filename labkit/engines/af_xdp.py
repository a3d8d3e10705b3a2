"""Engine `af_xdp`: frames in memory that an AF_XDP socket shares with the kernel, a batch a wake-up."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from labkit import _native
from labkit.engines.base import MAX_BATCH, EngineConfig, EngineReport
from labkit.engines.native import NativeEngine, run_native
from labkit.engines.xsk_geometry import XskGeometry, no_locked_memory, xsk_geometry
from labkit.records import Frames


class AfXdp(NativeEngine):
    """Past the queueing discipline to one queue of the driver; without a copy where the driver has that."""

    name = "af_xdp"
    default_batch = 256
    max_batch = MAX_BATCH

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what is wrong with a request, ring and memory included."""
        super().check(frames, config)
        xsk_geometry(frames, config)

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says.

        Raises
        ------
        CapabilityMissingError
            No AF_XDP in this kernel, no such queue, another socket on it, no memory to lock.
        """
        super().check(frames, config)
        geometry = xsk_geometry(frames, config)
        reasons = cannot_run(config.queue, geometry)
        return run_native(self.name, _native.af_xdp, frames, config, stop, progress, reasons, geometry)


def cannot_run(queue: int, geometry: XskGeometry) -> Mapping[int, str]:
    """Why AF_XDP cannot run here, by what the kernel says to socket, memory and bind."""
    no_family = "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.4); take engine 'tx_ring'"
    return {
        errno.EAFNOSUPPORT: no_family,
        errno.EPROTONOSUPPORT: no_family,
        errno.EINVAL: f"the interface has no queue {queue}; ask for fewer cpus, "
        "or for more channels (settings tx_channels, rx_channels)",
        errno.EBUSY: f"another AF_XDP socket holds queue {queue} of the interface; end its program",
        errno.EOPNOTSUPP: "this interface takes no AF_XDP socket; take engine 'tx_ring'",
        errno.ENOBUFS: no_locked_memory(geometry),
        errno.ENOMEM: no_locked_memory(geometry),
    }
