"""Where pktgen's frames end: on the wire, or by netif_receive in this machine's own receive path. Pure."""

from __future__ import annotations

from typing import Final

from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.records import RigInfo, Workload
from labkit.rigs.peer_counter import PeerRule

STACK: Final = "stack"
UP_OWN_PATH: Final = PeerRule(counters=(), note="the frames go up this machine's own receive path")


def sink_of(workload: Workload, usual: str) -> str:
    """The sink that the workload names, or stands for, or else the rig's `usual` one."""
    return workload.sink or (STACK if _injects(workload) else usual)


def check_pktgen_sink(info: RigInfo, workload: Workload) -> None:
    """Raise unless the receive path is the sink of netif_receive and of nothing else.

    Raises
    ------
    WorkloadError
        netif_receive and a sink behind the wire.
    CapabilityMissingError
        The receive path as the sink of an engine, or of a mode, whose frames leave.
    """
    if workload.sink is None or "pktgen" not in info.engines:
        return
    if _injects(workload) and workload.sink != STACK:
        raise WorkloadError(
            f"xmit_mode netif_receive sends nothing to sink '{workload.sink}': its frames go up this "
            f"machine's own receive path; leave the sink out, or name '{STACK}'"
        )
    if workload.sink == STACK and not _injects(workload):
        others = ", ".join(sink for sink in info.sinks if sink != STACK)
        raise CapabilityMissingError(
            f"rig '{info.name}': sink '{STACK}' is this machine's own receive path, where frames of engine "
            f"'pktgen' with xmit_mode netif_receive end; those of '{workload.engine}' leave: take one of "
            f"sinks {others}"
        )


def _injects(workload: Workload) -> bool:
    return workload.engine == "pktgen" and workload.xmit_mode == "netif_receive"
