"""The factors that a sweep may turn, by name: settings of a rig and parts of a workload, and their kinds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

from labkit.errors import WorkloadError

Scalar: TypeAlias = bool | int | float | str | None
Settings: TypeAlias = Mapping[str, Scalar]
"""Settings by ethtool's word in snake case; what is not named is not touched."""

BY_QUEUE_SUFFIX: Final = "_by_queue"
BY_QUEUE_SETTINGS: Final = tuple(
    f"{name}{BY_QUEUE_SUFFIX}"
    for name in ("adaptive_rx", "adaptive_tx", "rx_usecs", "rx_frames", "tx_usecs", "tx_frames")
)
"""Moderation of single queues as text: one value for all, or each queue's: ``30;30;8``, ``on;off``."""

SETTING_KINDS: Final[Mapping[str, type]] = {
    name: kind
    for kind, names in (
        (
            int,
            "rx_ring rx_mini_ring rx_jumbo_ring tx_ring rx_buf_len cqe_size tx_push_buf_len hds_thresh "
            "rx_usecs rx_frames rx_usecs_irq rx_frames_irq tx_usecs tx_frames tx_usecs_irq tx_frames_irq "
            "stats_block_usecs pkt_rate_low rx_usecs_low rx_frames_low tx_usecs_low tx_frames_low "
            "pkt_rate_high rx_usecs_high rx_frames_high tx_usecs_high tx_frames_high sample_interval "
            "tx_aggr_max_bytes tx_aggr_max_frames tx_aggr_time_usecs rx_cqe_frames rx_cqe_nsecs "
            "channels rx_channels tx_channels other_channels "
            "mtu txqueuelen qdisc_limit qdisc_rate_bps "
            "bql_limit_min bql_limit_max napi_defer_hard_irqs gro_flush_timeout_ns "
            "tcp_limit_output_bytes netdev_max_backlog",
        ),
        (
            bool,
            "tcp_data_split tx_push rx_push adaptive_rx adaptive_tx cqe_mode_rx cqe_mode_tx "
            "gro gso tso tx_udp_segmentation rx_checksum tx_checksum sg lro ufo rxvlan txvlan ntuple rxhash "
            "pause_autoneg pause_rx pause_tx threaded",
        ),
        (
            str,
            f"qdisc peer xps_cpus rps_cpus irq_affinity rx_profile tx_profile {' '.join(BY_QUEUE_SETTINGS)}",
        ),
    )
    for name in names.split()
}
"""Kind of each setting: ethtool's words in snake case, combined channels as ``channels``.

CPU lists are text as in ``0-3``, profiles as in ``1/256/-;8/256/-``; qdisc_rate_bps is in bits per second.
"""

SETTING_NAMES: Final = frozenset(SETTING_KINDS)
"""Factors that are settings of the rig."""

WORKLOAD_FACTORS: Final = frozenset(
    "engine sink frame_bytes batch ring_frames rate_pps qdisc_bypass cpu cpus stamp realtime_priority "
    "clone_skb xmit_mode delay_ns pktgen message_bytes "
    "sink_cpu sink_sockets sink_block_bytes sink_retire_ms".split()
)
"""Factors that belong to the workload."""

PROGRAM_NAMES: Final = ("trafgen", "tcpreplay", "iperf3", "iperf3_tcp", "sendp")
"""Packet generators that others wrote; how many frames they hand over at once is their own affair."""

PEER_NAMES: Final = (
    *PROGRAM_NAMES,
    *("bare_sendmmsg", "bare_tx_ring", "bare_gso", "bare_af_xdp", "bare_xdp_live"),
)
"""Other programs that send: they are run, and counted at device and sink alone."""

STREAM_NAMES: Final = ("tcp", "iperf3_tcp")
"""Engines that write bytes to a socket: the stack makes the frames, and the workload's flow is not sent."""

UNTOLD_NAMES: Final = frozenset({"xdp_live", "tcp", *PEER_NAMES})
"""Engines that cannot know what frames were sent."""

ENGINE_NAMES: Final = frozenset(
    {"send", "sendmmsg", "tx_ring", "gso", "af_xdp", "xdp_live", "pktgen", "tcp", "receive", *PEER_NAMES}
)
"""Engines that exist; each rig answers some of them."""

RECEIVING_SINKS: Final = ("rx_ring", "socket", "xdp_drop")
"""Sinks that take frames in and count them themselves."""

SINK_NAMES: Final = frozenset({"stack", "ifb", "wire", "port", *RECEIVING_SINKS})
"""Places where frames may end; each rig has some of them."""

SINK_FACTORS: Final = ("sink_cpu", "sink_sockets", "sink_block_bytes", "sink_retire_ms")
"""Factors that only receiving sinks have."""

XMIT_MODES: Final = ("start_xmit", "queue_xmit", "netif_receive")
"""Where pktgen hands its frames over: to the driver, to the qdisc, to the receive path."""

PKTGEN_FACTORS: Final = ("clone_skb", "xmit_mode", "delay_ns", "pktgen")
"""Factors that only pktgen has."""

NAMES_OF: Final[Mapping[str, Collection[str]]] = {
    "engine": ENGINE_NAMES,
    "sink": SINK_NAMES,
    "xmit_mode": XMIT_MODES,
}
"""Every value of the factors that are names."""

_KINDS: Final[Mapping[str, type]] = {
    **SETTING_KINDS,
    "qdisc_bypass": bool,
    "stamp": bool,
    "engine": str,
    "sink": str,
    "xmit_mode": str,
    "pktgen": str,
    "rate_pps": float,
}
_WANTED: Final[Mapping[type, str]] = {
    bool: "true or false",
    str: "a name",
    int: "a whole number",
    float: "a number",
}
_WANTED_BY_NAME: Final = {
    "pktgen": "commands of pktgen's as in 'flag UDPSRC_RND; vlan_id 5'",
    **dict.fromkeys(("xps_cpus", "rps_cpus", "irq_affinity"), "CPUs as in 0-3 or 0-0"),
    **dict.fromkeys(("rx_profile", "tx_profile"), "usecs/packets/completions a step, as in 1/256/-;8/256/-"),
    **dict.fromkeys(BY_QUEUE_SETTINGS, "one value for all queues, or one of each with ; between"),
}
_OPEN: Final = frozenset(
    {"batch", "rate_pps", "cpu", "sink", "cpus", "ring_frames", "realtime_priority", "message_bytes"}
    | {*PKTGEN_FACTORS, *SINK_FACTORS}
)
"""Factors that may be None: the engine or the rig chooses."""


def typed(name: str, value: object) -> Scalar:
    """`value` of factor `name` as Python's own bool, int, float or text; numpy's scalars become those.

    Raises
    ------
    WorkloadError
        A value of another kind than the factor's. Whether it is in range is for the rig to say.
    """
    if value is None and name in _OPEN:
        return None
    own: Any = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    switch = name.startswith("adaptive_")
    if name in BY_QUEUE_SETTINGS and type(own) is (bool if switch else int):
        own = ("off", "on")[own] if switch else str(own)
    kind = _KINDS.get(name, int)
    if type(own) not in ((int, float) if kind is float else (kind,)):
        raise WorkloadError(f"{name} {value!r}: give {_WANTED_BY_NAME.get(name, _WANTED[kind])}")
    checked: Scalar = own
    return checked
