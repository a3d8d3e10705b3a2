"""A question to the event loop in the form that the native code takes: picoseconds, and one number a cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from labkit import _native
from labkit.simnic.profile import Profile
from labkit.simnic.run import Run
from labkit.simnic.sender import Sender, doorbell_frames, doorbell_ns, terms
from labkit.units import NS_PER_S, NS_PER_US, wire_bytes

PS_PER_NS: Final = 1000
DYNAMIC: Final = 1
"""rx-usecs of a driver that has a dynamic mode: this value asks for it."""
NEVER_FULL_BYTES: Final = 1_879_048_192
"""BQL's largest limit: DQL_MAX_LIMIT of include/linux/dynamic_queue_limits.h."""


def config_of(profile: Profile, settings: Mapping[str, Any], sender: Sender, run: Run) -> _native.SimConfig:
    """The same question as the native loop takes it, in picoseconds."""
    config = _native.SimConfig()
    _set_run(config, run, sender)
    _set_card(config, profile, settings, sender)
    _set_moderation(config, profile, settings)
    _set_costs(config, profile, sender)
    _set_sender(config, profile, settings, sender)
    return config


def keeps_limits(profile: Profile, sender: Sender) -> bool:
    """Whether byte queue limits are kept in such a run.

    They stop the stack's queue alone: pktgen's ``start_xmit`` and a socket that goes around the qdisc look at
    the driver's own stop signal (netif_xmit_frozen_or_drv_stopped), so that nothing is kept for them here.
    """
    return profile.bql and sender.through_qdisc and sender.engine != "receive"


def _set_run(config: _native.SimConfig, run: Run, sender: Sender) -> None:
    config.duration, config.warmup = _ps(run.duration_s * NS_PER_S), _ps(run.warmup_s * NS_PER_S)
    config.count = 0 if run.count is None else run.count
    config.samples, config.seed = run.samples, run.seed
    config.lanes = sender.cpus
    config.drop_interrupt_every = run.faults.drop_interrupt_every
    if run.faults.carrier_lost_after_s is not None:
        config.carrier_lost_at = _ps(run.faults.carrier_lost_after_s * NS_PER_S) + config.warmup


def _set_card(
    config: _native.SimConfig, profile: Profile, settings: Mapping[str, Any], sender: Sender
) -> None:
    driver = profile.driver
    defaults = driver.defaults
    config.tx_ring = settings.get("tx_ring", defaults["tx_ring"])
    rx_ring = driver.values["rx_ring"].default if "rx_ring" in driver.values else None
    config.rx_ring = settings.get("rx_ring", config.rx_ring if rx_ring is None else rx_ring)
    config.frame_bytes = sender.frame_bytes
    bits = 8 * wire_bytes(sender.frame_bytes)
    config.wire = _ps(bits / profile.value("link_bits_per_s") * NS_PER_S)
    fetch_ns = profile.constants.fetch_ns
    config.fetch = 0 if fetch_ns is None else _ps(fetch_ns.value)
    config.write_back = driver.write_back
    config.stop_descriptors, config.wake_descriptors = driver.stop_descriptors, driver.wake_descriptors
    config.clean_limit = driver.clean_limit


def _set_moderation(config: _native.SimConfig, profile: Profile, settings: Mapping[str, Any]) -> None:
    driver = profile.driver
    defaults = {name: rule.default for name, rule in driver.values.items() if rule.default is not None}
    values = {**defaults, **driver.defaults, **settings}
    config.shared_vector = driver.shared_vector
    for direction, moderation in (("rx", config.rx_moderation), ("tx", config.tx_moderation)):
        if driver.moderation == "hold-off":
            usecs, frames = values.get(f"{direction}_usecs", 0), values.get(f"{direction}_frames", 0)
            moderation.kind = _native.SimModeration.HOLD_OFF
            on = usecs > 0 and frames > 0
            moderation.period, moderation.frames = (_ps(usecs * NS_PER_US), frames) if on else (0, 0)
            continue
        usecs = values["rx_usecs"]
        dynamic = usecs == DYNAMIC and DYNAMIC in driver.rx_usecs.codes
        kinds = _native.SimModeration
        moderation.kind = kinds.DYNAMIC if dynamic else kinds.INTERVAL
        moderation.period = 0 if dynamic else _ps(driver.rx_usecs.period_ns(usecs) or 0)


def _set_costs(config: _native.SimConfig, profile: Profile, sender: Sender) -> None:
    costs = {"frame": 0.0, "burst": 0.0, "call": 0.0}
    for term in terms(profile, sender):
        if term.name != "doorbell":
            costs[term.per] += term.ns
    config.packet, config.burst_ps, config.call_ps = (_ps(costs[per]) for per in ("frame", "burst", "call"))
    at_card = sender.engine != "receive" and not sender.injects
    config.doorbell = _ps(doorbell_ns(profile, sender)) if at_card else 0
    config.burst = doorbell_frames(profile, sender)
    config.batch = sender.batch if sender.engine != "pktgen" else 1
    for name in ("clean", "interrupt", "repoll", "cache_miss"):
        setattr(config, name, _ps(profile.value(f"{name}_ns")))
    config.cached = int(profile.value("cached_descriptors"))
    if "shared-line" in sender.hypotheses:
        config.shared_line = _ps(profile.value("shared_line_ns"))
    config.locked_stall = config.doorbell if "locked-stall" in sender.hypotheses else 0


def _set_sender(
    config: _native.SimConfig, profile: Profile, settings: Mapping[str, Any], sender: Sender
) -> None:
    config.sends = sender.engine != "receive"
    config.injects = sender.injects
    fills = _native.SimWhenFull
    if sender.engine != "pktgen":
        config.when_full = fills.QUEUE if sender.through_qdisc else fills.REFUSE
    config.queue_limit = settings.get("txqueuelen", 1000)
    config.bql = config.bql_stops = keeps_limits(profile, sender)
    config.bql_min = settings.get("bql_limit_min", 0)
    config.bql_max = settings.get("bql_limit_max", NEVER_FULL_BYTES)
    if sender.engine == "receive":
        config.arrival_gap, config.poisson = _ps(sender.gap_ns), sender.poisson
    else:
        config.gap = _ps(sender.gap_ns)
    if sender.engine in {"receive", "tcp"}:
        config.receive = _ps(profile.value("receive_ns" if sender.engine == "receive" else "ack_ns"))
    if sender.engine == "tcp":
        config.window = int(profile.value("window_segments"))
        config.ack_delay = _ps(profile.value("ack_delay_ns"))
        config.ack_jitter = _ps(profile.value("ack_jitter_ns"))
        limit = settings.get("tcp_limit_output_bytes")
        config.small_queue = 0 if limit is None else max(2, limit // sender.frame_bytes)


def _ps(nanoseconds: float) -> int:
    return round(nanoseconds * PS_PER_NS)
