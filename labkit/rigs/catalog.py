"""What each kind of rig is and can do, as data: no agent or device is touched to know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from labkit.errors import CapabilityMissingError, WorkloadError, listed
from labkit.factors import ENGINE_NAMES, SETTING_NAMES, SINK_NAMES
from labkit.paths import data_dir
from labkit.records import RigInfo
from labkit.rigs.profiles import load_profiles
from labkit.simnic.profile import Profile

VETH: Final = RigInfo(
    name="veth",
    title="two ends of a veth pair in private namespaces; real packets, no root",
    engines=("send", "sendmmsg"),
    sinks=("stack", "ifb"),
    factors=(
        *("mtu", "qdisc", "qdisc_limit", "qdisc_rate_bps", "txqueuelen"),
        *("rx_channels", "tx_channels", "gro", "threaded", "napi_defer_hard_irqs", "gro_flush_timeout_ns"),
    ),
)

DEVICE_PREFIX: Final = "nic:"
DEVICE: Final = RigInfo(
    name=f"{DEVICE_PREFIX}INTERFACE",
    title="an interface of this machine, its settings journalled and put back; needs root",
    engines=("send", "sendmmsg"),
    sinks=("wire", "port"),
    factors=(),
)
PRIVATE: Final = "Nothing of this outlives the rig."


def simulated(profile: Profile) -> RigInfo:
    """What the simulated machine `profile` can do."""
    return RigInfo(
        name=f"sim:{profile.name}",
        title=profile.title,
        engines=() if profile.constants.packet_ns is None else ("pktgen",),
        sinks=(),
        factors=("tx_ring", "rx_usecs"),
    )


def known_rigs() -> list[RigInfo]:
    """Every rig of this version, the simulated ones first."""
    profiles = load_profiles(data_dir() / "profiles")
    return [*(simulated(profile) for profile in profiles.values()), VETH, DEVICE]


def check_engine(info: RigInfo, engine: str) -> None:
    """Raise unless rig `info` answers `engine`.

    Raises
    ------
    WorkloadError
        A name that labkit does not know.
    CapabilityMissingError
        A known one that this rig never has; the message names a rig that has it.
    """
    if engine not in ENGINE_NAMES:
        raise WorkloadError(f"unknown engine '{engine}'; known: {', '.join(sorted(ENGINE_NAMES))}")
    if engine not in info.engines:
        having = [other for other in known_rigs() if engine in other.engines]
        raise _missing(info, f"engine '{engine}'", info.engines, having)


def check_setting(info: RigInfo, name: str) -> None:
    """Raise unless rig `info` has setting `name`, as `check_engine` does."""
    if name not in SETTING_NAMES:
        raise WorkloadError(f"unknown setting '{name}'; known: {', '.join(sorted(SETTING_NAMES))}")
    if name not in info.factors:
        having = [other for other in known_rigs() if name in other.factors]
        raise _missing(info, f"setting '{name}'", info.factors, having)


def check_sink(info: RigInfo, sink: str | None) -> None:
    """Raise unless rig `info` has `sink`, as `check_engine` does; None is the rig's own and always there."""
    if sink is None or sink in info.sinks:
        return
    if sink not in SINK_NAMES:
        raise WorkloadError(f"unknown sink '{sink}'; known: {', '.join(sorted(SINK_NAMES))}")
    having = [other for other in known_rigs() if sink in other.sinks]
    raise _missing(info, f"sink '{sink}'", info.sinks, having)


def _missing(
    info: RigInfo, what: str, has: Sequence[str], having: Sequence[RigInfo]
) -> CapabilityMissingError:
    instead = f"try rig '{having[0].name}'" if having else "no rig of this version has it"
    return CapabilityMissingError(f"rig '{info.name}' has no {what} (it has {listed(has)}); {instead}")
