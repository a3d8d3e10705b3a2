"""A veth pair in private network namespaces: real packets, no root, nothing of the host touched."""

from __future__ import annotations

import os
from typing import Any, Final

from labkit.agent.client import AgentClient
from labkit.agent.launch import start_agent
from labkit.agent.peer_mode import check_peer
from labkit.agent.protocol import Measured, Opened
from labkit.agent.sinks import NEEDS_ROOT as PROGRAM_NEEDS_ROOT
from labkit.drivers.facts import DriverFacts
from labkit.drivers.virtual import VETH as VETH_FACTS
from labkit.drivers.virtual import VETH_PUSHES_BACK_SINCE
from labkit.engines.xdp_live import NEEDS_ROOT
from labkit.errors import CapabilityMissingError, SettingRefusedError, WorkloadError
from labkit.factors import Scalar, Settings, typed
from labkit.linux.links import QDISC_KINDS
from labkit.linux.machine import kernel_at_least
from labkit.records import Frames, Workload
from labkit.rigs import catalog
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.peer_counter import PeerRule, peer_rule
from labkit.rigs.veth_view import peer_mode_of

LIVE_ENGINES: Final = ("xdp_live", "bare_xdp_live")
"""Engines whose frames only a peer with a NAPI takes in."""

WHOLE_NUMBERS: Final = {
    "mtu": (68, 65535),
    "txqueuelen": (0, 1_000_000),
    "qdisc_limit": (1, 2**31 - 1),
    "qdisc_rate_bps": (8, 2**35 - 8),
    "rx_channels": (1, 65535),
    "tx_channels": (1, 65535),
    "napi_defer_hard_irqs": (0, 2**31 - 1),
    "gro_flush_timeout_ns": (0, 2**63 - 1),
    "tcp_limit_output_bytes": (1, 2**31 - 1),
}
"""Settings that are whole numbers, with the range the kernel takes."""


class VethRig(AgentRig):
    """Two private network namespaces joined by a veth pair, owned by an agent process.

    Parameters
    ----------
    mtu : int or None
        Largest payload of both ends, in bytes; None leaves the kernel's 1500.
    qdisc : str or None
        Root qdisc of the sending device: ``noqueue``, ``pfifo``, ``bfifo`` or ``tbf``; None leaves the
        kernel's ``noqueue``.
    qdisc_limit : int or None
        Its limit: packets (pfifo) or bytes (bfifo, tbf).
    qdisc_rate_bps : int or None
        Rate of ``tbf`` in bits per second.
    peer : str or None
        How the receiving end takes frames in: ``backlog`` (without NAPI), ``napi`` (its GRO on, the sender's
        TSO off) or ``napi-threaded``; None leaves the kernel's backlog.
    peer_carrier : bool
        False takes the receiving end down: what does each engine say then?
    sink : str
        Where frames end unless the workload says otherwise: ``stack`` (the peer's IP stack drops them),
        ``ifb`` (a device that counts and drops; no peer), or at the peer in ``rx_ring`` or ``socket``, which
        look at each, or in ``xdp_drop``, which counts them.

    Raises
    ------
    CapabilityMissingError
        User namespaces or veth are not to be had here; the message names the sysctl or module.
    """

    def __init__(
        self,
        *,
        mtu: int | None = None,
        qdisc: str | None = None,
        qdisc_limit: int | None = None,
        qdisc_rate_bps: int | None = None,
        peer: str | None = None,
        peer_carrier: bool = True,
        sink: str = "stack",
    ) -> None:
        given = {
            "mtu": mtu,
            "qdisc": qdisc,
            "qdisc_limit": qdisc_limit,
            "qdisc_rate_bps": qdisc_rate_bps,
            "peer": peer,
        }
        asked = self._checked({name: value for name, value in given.items() if value is not None})
        catalog.check_sink(catalog.VETH, sink)
        client = AgentClient(start_agent())
        try:
            opened = client.open(
                asked,
                force_user_namespace=os.environ.get("LABKIT_USERNS") == "1",
                peer_carrier=peer_carrier,
            )
        except BaseException:
            client.close()
            raise
        super().__init__(
            catalog.VETH, client, opened, asked=asked, sink=sink, made_with={"peer_carrier": peer_carrier}
        )

    def _checked(self, settings: Settings) -> dict[str, Scalar]:
        """`settings` without names that nobody knows, settings a veth never has, and values out of range."""
        checked = {name: _value(name, value) for name, value in settings.items()}
        check_peer(checked)
        return checked

    def _observed(self, measured: Measured, sink: str) -> dict[str, Any]:
        """Push-back, and whether frames took the way into the peer that its mode says."""
        return {
            **super()._observed(measured, sink),
            "peer_mode": peer_mode_of(measured, sink=sink, asked=self._asked, accepted=self._accepted),
        }

    def _full(self, sink: str) -> str:
        """The ring between the two ends is the peer's; it is full when the peer is slower."""
        return super()._full(sink) if sink == "ifb" else "peer"

    def check(self, workload: Workload) -> None:
        """Raise what is known to be wrong before anything is sent, as `AgentRig.check` does.

        A veth takes frames of an XDP program only while its peer has a NAPI (kernel: veth_xdp_xmit), and says
        so to nobody.
        """
        super().check(workload)
        if (workload.sink or self._sink) == "xdp_drop" and self._privilege == "userns":
            raise CapabilityMissingError(f"veth: sink 'xdp_drop': {PROGRAM_NEEDS_ROOT}")
        if (workload.sink or self._sink) == "xdp_drop" and workload.engine == "iperf3":
            raise CapabilityMissingError(
                "veth: iperf3 greets its server before it sends, and sink 'xdp_drop' lets no greeting pass; "
                "take sink 'stack'"
            )
        if workload.engine not in LIVE_ENGINES:
            return
        if self._privilege == "userns":
            raise CapabilityMissingError(f"veth: {NEEDS_ROOT}")
        sink = workload.sink or self._sink
        if sink == "ifb":
            raise CapabilityMissingError(
                "veth: an ifb device takes no frames of an XDP program; take another sink, or engine 'af_xdp'"
            )
        if sink != "xdp_drop" and not self._accepted.get("gro"):
            raise CapabilityMissingError(
                f"veth: engine '{workload.engine}' would send nothing, for the peer has no NAPI; "
                "turn on setting gro, take sink 'xdp_drop', or see what the device counts (check=False, "
                "--unchecked)"
            )

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do; nothing changes."""
        return f"{super().preview(settings)}\n{catalog.PRIVATE}"

    @property
    def driver(self) -> DriverFacts:
        """Facts of veth: it has neither rings nor coalescing."""
        return VETH_FACTS

    @property
    def pushes_back(self) -> bool:
        """Whether this kernel's veth gives frames back when the peer is full, instead of losing them.

        It takes a queue to give them back to (``pfifo``, not ``noqueue``) and a peer with NAPI.
        """
        return kernel_at_least(self._machine["kernel"], VETH_PUSHES_BACK_SINCE) is True

    def _find_rule(self, frames: Frames, looked: Opened) -> PeerRule:
        """The peer's own counter; an ifb device has no peer."""
        if looked.peer is None:
            return PeerRule(counters=(), note="ifb counts and drops every frame; it has no peer")
        return peer_rule(frames, looked.peer.mac, frozenset(looked.peer_counters))


def _value(name: str, asked: Scalar) -> Scalar:
    catalog.check_setting(catalog.VETH, name)
    value = typed(name, asked)
    if name == "qdisc":
        if value not in QDISC_KINDS:
            raise WorkloadError(f"veth: unknown qdisc {value!r}; known: {', '.join(QDISC_KINDS)}")
    elif name in WHOLE_NUMBERS and isinstance(value, int):
        low, high = WHOLE_NUMBERS[name]
        if not low <= value <= high:
            raise SettingRefusedError(f"veth: {name} {value} is outside {low}..{high}")
    return value
