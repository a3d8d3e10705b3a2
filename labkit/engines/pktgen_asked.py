"""What pktgen is asked of one worker: its settings, its commands, and what is refused before any is sent."""

from __future__ import annotations

from typing import Final

import msgspec

from labkit.engines.base import EngineConfig
from labkit.engines.pktgen_flow import flow_commands, is_mix
from labkit.engines.pktgen_words import parse
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import XMIT_MODES
from labkit.linux.pktgen_commands import COMMANDS, SHORTEST_SIZE, Asked, ask
from labkit.records import Frames
from labkit.units import NS_PER_S

START_XMIT, QUEUE_XMIT, NETIF_RECEIVE = XMIT_MODES
CLONE_SKB: Final = 100_000
"""As the published tables have it."""
NEVER_NS: Final = 2**31 - 1
"""A delay of so much means that nothing is ever sent."""
FASTEST_PPS: Final = 1e9
"""A gap is whole nanoseconds."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a device sends, apart from what.

    Attributes
    ----------
    delay_ns : int
        Time from one burst to the next, for which pktgen waits once (pktgen_xmit, spin); 0 is none.
    own : list of Asked
        The workload's own commands.
    """

    xmit_mode: str
    clone_skb: int
    burst: int
    delay_ns: int
    own: list[Asked]


def settings_of(frames: Frames, config: EngineConfig) -> Settings:
    """How a device sends what `config` asks.

    Raises
    ------
    WorkloadError
        Numbers or words that make no sense, or contradict each other.
    CapabilityMissingError
        What pktgen never does together.
    """
    _check_left_out(config)
    own, asked = parse(config.pktgen.commands), config.pktgen
    mode = START_XMIT if asked.xmit_mode is None else asked.xmit_mode
    if mode not in XMIT_MODES:
        raise WorkloadError(f"unknown xmit_mode '{mode}'; known: {', '.join(XMIT_MODES)}")
    mixed = is_mix(frames) or any(each.command.kind == "imix" for each in own)
    clone_skb = asked.clone_skb
    if clone_skb is None:
        clone_skb = CLONE_SKB if mode == START_XMIT and not mixed else 0
    if not 0 <= clone_skb <= COMMANDS["clone_skb"].high:
        raise WorkloadError(f"clone_skb {clone_skb}: give 0 for a buffer of each frame's own, or more")
    settings = Settings(
        xmit_mode=mode, clone_skb=clone_skb, burst=config.batch, delay_ns=_delay_ns(config), own=own
    )
    _check_together(settings, mixed=mixed)
    _check_own_sizes(own, frames.longest_bytes)
    if config.count is not None and config.count > COMMANDS["count"].high:
        raise WorkloadError(f"pktgen: count {config.count}: it reads ten digits of a number")
    return settings


def commands_of(frames: Frames, config: EngineConfig, settings: Settings) -> list[Asked]:
    """Everything that a device is told, in order; the workload's own commands come last and win."""
    flow = flow_commands(frames)
    # a device without a source address shows its interface's, and a kernel that is taking the interface away
    # follows a null pointer for it (pktgen_if_show beside pktgen_remove_device, Linux 6.1)
    first = [asked for asked in flow if asked.command.name == "src_mac"]
    return [
        *first,
        ask("count", config.count or 0),
        ask("xmit_mode", settings.xmit_mode),
        ask("clone_skb", settings.clone_skb),
        ask("burst", settings.burst),
        *(asked for asked in flow if asked not in first),
        *_gap(config, settings),
        *(ask(name, config.queue) for name in ("queue_map_min", "queue_map_max")),
        *settings.own,
    ]


def _check_left_out(config: EngineConfig) -> None:
    for asked, what, why in (
        (
            config.qdisc_bypass,
            "qdisc_bypass",
            "xmit_mode start_xmit passes the qdisc by, queue_xmit does not",
        ),
        (config.ring_frames is not None, "ring_frames", "it has no ring of its own"),
        (config.stamp, "stamp", "it numbers and times each frame that it builds by itself"),
        (config.realtime_priority is not None, "realtime_priority", "its threads are the kernel's"),
        (config.message_bytes is not None, "message_bytes", "it sends frames"),
    ):
        if asked:
            raise WorkloadError(f"pktgen: {what}: {why}; leave it out")


def _delay_ns(config: EngineConfig) -> int:
    """Time from one burst to the next: as many gaps between frames as a burst has frames."""
    rate_pps, delay_ns, burst = config.rate_pps, config.pktgen.delay_ns or 0, config.batch
    if rate_pps is not None and delay_ns:
        raise WorkloadError("rate_pps and delay_ns are one number of pktgen; give one of both")
    if not 0 <= delay_ns * burst < NEVER_NS:
        raise WorkloadError(
            f"delay_ns {delay_ns}: give 0 to {(NEVER_NS - 1) // burst}; pktgen waits once a burst, and "
            f"{NEVER_NS} is 'never send' to it"
        )
    if rate_pps is None:
        return delay_ns * burst
    if not burst * NS_PER_S / (NEVER_NS - 1) <= rate_pps <= FASTEST_PPS:
        raise WorkloadError(
            f"pktgen: rate {rate_pps:g} pps of each worker: it waits whole nanoseconds, up to "
            f"{NEVER_NS - 1}; give {burst / 2:g} to {FASTEST_PPS:g}"
        )
    return round(burst * NS_PER_S / rate_pps)


def _gap(config: EngineConfig, settings: Settings) -> list[Asked]:
    """A rate as ratep where the kernel, which rounds down, makes the nearest gap of it; else the gap."""
    if config.rate_pps is not None:
        bursts_per_s = config.rate_pps / settings.burst
        if bursts_per_s.is_integer() and NS_PER_S // int(bursts_per_s) == settings.delay_ns:
            return [ask("ratep", int(bursts_per_s))]
    return [ask("delay", settings.delay_ns)] if settings.delay_ns else []


def _check_together(settings: Settings, *, mixed: bool) -> None:
    if settings.clone_skb and settings.xmit_mode == NETIF_RECEIVE:
        raise CapabilityMissingError(
            f"pktgen: clone_skb {settings.clone_skb} with xmit_mode netif_receive: the receive path frees "
            "the buffer, so it cannot be sent again; leave clone_skb out"
        )
    if settings.clone_skb > 1 and settings.xmit_mode == QUEUE_XMIT:
        # the kernel takes it: each qdisc links a buffer into its list, and one that is linked twice breaks
        # the list (__qdisc_run follows a null pointer, Linux 6.1 with e1000e and two CPUs)
        raise CapabilityMissingError(
            f"pktgen: clone_skb {settings.clone_skb} with xmit_mode queue_xmit: a buffer that waits in a "
            "qdisc cannot be queued again, and kernels that are asked to crash; leave clone_skb out"
        )
    if settings.clone_skb and mixed:
        raise WorkloadError(
            f"pktgen: clone_skb {settings.clone_skb} with frames of several lengths: a buffer that is sent "
            "again has one length; leave clone_skb out"
        )
    if settings.burst > 1 and settings.xmit_mode == QUEUE_XMIT:
        raise CapabilityMissingError(
            f"pktgen: batch {settings.burst}, its burst, with xmit_mode queue_xmit: a qdisc takes frames one "
            "by one; leave the batch out"
        )


def _check_own_sizes(own: list[Asked], longest_bytes: int) -> None:
    """A trial tells the flow's length as the longest that was sent."""
    sizes = [
        int(pair.partition(",")[0])
        for each in own
        if each.command.kind == "imix" or each.command.name == "min_pkt_size"
        for pair in each.value.split(" ")
    ]
    if sizes and max(*sizes, SHORTEST_SIZE) > longest_bytes:
        raise WorkloadError(
            f"pktgen: frames of {max(sizes)} bytes are longer than the flow's of {longest_bytes}: give the "
            "longest as frame_bytes"
        )
