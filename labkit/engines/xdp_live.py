"""Engine `xdp_live`: frames that an XDP program redirects to the device, a batch a bpf() call."""

from __future__ import annotations

import errno
from typing import Final

import msgspec

from labkit import _native
from labkit.engines.base import EngineConfig, EngineReport
from labkit.engines.native import NativeEngine, run_native
from labkit.errors import WorkloadError
from labkit.records import Frames

INSTEAD: Final = "take engine 'af_xdp', 'gso' or 'sendmmsg'"
NEEDS_ROOT: Final = (
    "live frames need CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN in the machine's own user namespace, which a "
    f"private one does not give; run it as root, or {INSTEAD}"
)
REASONS: Final = {
    errno.EPERM: NEEDS_ROOT,
    errno.EINVAL: f"this kernel sends no live frames, they came with Linux 5.18; {INSTEAD}",
    errno.ENOSYS: f"this kernel has no bpf(2); {INSTEAD}",
}


class XdpLive(NativeEngine):
    """Frames without a socket, buffer or queue of the stack: what a device's XDP transmit takes.

    Nobody says what becomes of them, so the report has `attempted` and no `sent`. A device without room drops
    them instead of pushing back, and a veth drops all while its peer has no NAPI.
    """

    name = "xdp_live"
    # a call cannot be stopped: 1.2 ms into an XDP program, 4 ms into a stack. It costs 15 us of its own
    default_batch = 8192
    max_batch = 16384

    def check(self, frames: Frames, config: EngineConfig) -> None:
        """Raise `WorkloadError` for what live frames cannot do; the program has them all of one length."""
        super().check(frames, config)
        if frames.shortest_bytes != frames.longest_bytes:
            raise WorkloadError(
                f"{self.name}: frames of {frames.shortest_bytes} to {frames.longest_bytes} bytes; live "
                "frames are all of one length, take engine 'af_xdp' for others"
            )

    def run(
        self, frames: Frames, config: EngineConfig, stop: _native.StopFlag, progress: _native.Progress
    ) -> EngineReport:
        """Send `frames` as `labkit.engines.base.Engine.run` says; `CapabilityMissingError` unless root."""
        self.check(frames, config)
        report = run_native(self.name, _native.xdp_live, frames, config, stop, progress, REASONS)
        return msgspec.structs.replace(report, sent=None, attempted=report.sent)
