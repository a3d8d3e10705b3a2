"""What each kind of rig is and can do, as data: no agent or device is touched to know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from labkit.engines.choose import peers
from labkit.errors import CapabilityMissingError, WorkloadError, listed
from labkit.factors import (
    ENGINE_NAMES,
    PEER_NAMES,
    PKTGEN_FACTORS,
    RECEIVING_SINKS,
    SETTING_NAMES,
    SINK_NAMES,
    STREAM_NAMES,
    WORKLOAD_FACTORS,
)
from labkit.paths import data_dir
from labkit.records import RigInfo, Workload
from labkit.rigs.lacking import why_not
from labkit.rigs.pktgen_sink import STACK, check_pktgen_sink
from labkit.rigs.profiles import load_profiles
from labkit.rigs.sink_checks import check_sink_factors
from labkit.rigs.streams import check_stream
from labkit.simnic.profile import Profile
from labkit.simnic.sender import Sender, terms
from labkit.simnic.settings import setting_rules

SIM_PREFIX: Final = "sim:"

RING_ENGINES: Final = ("tx_ring", "af_xdp")
REAL_ENGINES: Final = ("send", "sendmmsg", "tx_ring", "gso", "af_xdp", "xdp_live")
PEERS: Final = tuple(peer.name for peer in peers())
"""Other programs, run in private namespaces only: none of them is given a device of this machine."""

VETH: Final = RigInfo(
    name="veth",
    title="two ends of a veth pair in private namespaces; real packets, no root",
    engines=(*REAL_ENGINES, "tcp", *PEERS),
    sinks=("stack", "ifb", *RECEIVING_SINKS),
    factors=(
        *("mtu", "qdisc", "qdisc_limit", "qdisc_rate_bps", "txqueuelen"),
        *("rx_channels", "tx_channels", "gro", "threaded", "napi_defer_hard_irqs", "gro_flush_timeout_ns"),
        *("peer", "tx_udp_segmentation", "tcp_limit_output_bytes"),
    ),
)

DEVICE_ENGINES: Final = (*REAL_ENGINES, "pktgen")
"""What a device of a kernel of one's own has: there is no pktgen in a namespace of an ordinary user."""
DEVICE_PREFIX: Final = "nic:"
DEVICE: Final = RigInfo(
    name=f"{DEVICE_PREFIX}INTERFACE",
    title="an interface of this machine, its settings journalled and put back; needs root",
    engines=DEVICE_ENGINES,
    sinks=("wire", "port", STACK, *RECEIVING_SINKS),
    factors=(),
)
VM_PREFIX: Final = "vm:"
VM_SETTINGS: Final = (
    *("tx_ring", "rx_ring", "rx_usecs", "bql_limit_min", "bql_limit_max", "mtu", "txqueuelen"),
    *("qdisc", "qdisc_limit", "tcp_limit_output_bytes"),
)
"""What the rig's drivers have in common, so that others can name it; the device itself says what it has."""
VM_TITLES: Final = {
    "e1000e": "Intel 82574L",
    "virtio_net": "virtio-net",
    "vmxnet3": "vmxnet3",
    "igb": "Intel 82576 (QEMU 8 or later)",
}
PRIVATE: Final = "Nothing of this outlives the rig."
SIM_SINK: Final = "wire"


def simulated(profile: Profile) -> RigInfo:
    """What the simulated machine `profile` can do."""
    return RigInfo(
        name=f"{SIM_PREFIX}{profile.name}",
        title=profile.title,
        engines=profile.engines,
        sinks=(SIM_SINK,),
        factors=tuple(setting_rules(profile)),
    )


def virtual_machine(driver: str) -> RigInfo:
    """What the emulated machine with a card of `driver` can do.

    Raises
    ------
    WorkloadError
        No such machine.
    """
    if driver not in VM_TITLES:
        known = ", ".join(f"{VM_PREFIX}{name}" for name in VM_TITLES)
        raise WorkloadError(f"unknown rig '{VM_PREFIX}{driver}'; known: {known}")
    return RigInfo(
        name=f"{VM_PREFIX}{driver}",
        title=f"{VM_TITLES[driver]} in an emulated machine: real driver, the kernel's pktgen, no root",
        engines=("pktgen", *(each for each in REAL_ENGINES if each != "xdp_live"), *STREAM_NAMES),
        sinks=("port", STACK, *RECEIVING_SINKS),
        factors=VM_SETTINGS,
    )


def known_rigs() -> list[RigInfo]:
    """Every rig of this version, the simulated ones first."""
    return [
        *(simulated(profile) for profile in _profiles().values()),
        VETH,
        *map(virtual_machine, VM_TITLES),
        DEVICE,
    ]


def check_workload(info: RigInfo, workload: Workload) -> None:
    """Raise unless rig `info` has what `workload` names, as `check_engine` does.

    Engine and sink; what only pktgen, a ring, a real sender or a receiving sink has.
    """
    check_engine(info, workload.engine)
    check_sink(info, workload.sink)
    for name in PKTGEN_FACTORS:
        if getattr(workload, name) is not None and workload.engine != "pktgen":
            having = "vm:e1000e" if name == "pktgen" else _having_engine("pktgen")[0].name
            where = "" if "pktgen" in info.engines else f" on rig '{having}'"
            raise CapabilityMissingError(
                f"rig '{info.name}': engine '{workload.engine}' has no {name}; take engine 'pktgen'{where}"
            )
    _check_own_factors(info, workload)
    cpus = 1 if workload.cpus is None else workload.cpus
    if cpus < 1:
        raise WorkloadError(f"cpus {cpus}: give 1 or more")
    if workload.cpu is not None and workload.cpu < 0:
        raise WorkloadError(f"cpu {workload.cpu}: CPUs count from 0")
    if info.name.startswith(SIM_PREFIX):
        _check_real_only(info, workload)
    else:
        check_pktgen_sink(info, workload)
    check_stream(info, workload, simulated=info.name.startswith(SIM_PREFIX))
    check_sink_factors(info, workload)
    if workload.engine in PEER_NAMES and cpus > 1:
        raise CapabilityMissingError(
            f"rig '{info.name}': engine '{workload.engine}' is a program that runs once, on one CPU, not on "
            f"{cpus}; take an engine of labkit's own"
        )


def _check_own_factors(info: RigInfo, workload: Workload) -> None:
    """Refuse what belongs to another engine: the size of a ring, that of a write to a socket."""
    simulated_rig = info.name.startswith(SIM_PREFIX)
    if workload.ring_frames is not None and (simulated_rig or workload.engine not in RING_ENGINES):
        raise CapabilityMissingError(
            f"rig '{info.name}': engine '{workload.engine}' has no ring_frames; take engine 'tx_ring' on rig "
            f"'{VETH.name}'"
        )
    if workload.message_bytes is not None and (simulated_rig or workload.engine not in STREAM_NAMES):
        raise CapabilityMissingError(
            f"rig '{info.name}': engine '{workload.engine}' has no message_bytes; take engine 'tcp' on rig "
            f"'{VETH.name}'"
        )


def _check_real_only(info: RigInfo, workload: Workload) -> None:
    """Refuse what only threads of a real sender have."""
    for name, asked, having in (
        ("stamp", workload.stamp or None, VETH.name),
        ("realtime_priority", workload.realtime_priority, VETH.name),
        ("commands of pktgen's own (pktgen)", workload.pktgen, "vm:e1000e"),
    ):
        if asked is not None:
            raise CapabilityMissingError(
                f"rig '{info.name}': a simulated sender has no {name}; try rig '{having}'"
            )


def check_costs(profile: Profile, sender: Sender) -> None:
    """Raise `CapabilityMissingError` where `profile` lacks a cost of `sender`; it names a rig with all."""
    try:
        terms(profile, sender)
    except CapabilityMissingError as missing:
        having = [other for other in _profiles().values() if _costs_known(other, sender)]
        instead = f"; try rig '{SIM_PREFIX}{having[0].name}'" if having else ""
        raise CapabilityMissingError(f"{missing.message}{instead}") from missing


def check_engine(info: RigInfo, engine: str) -> None:
    """Raise unless rig `info` answers `engine`.

    Raises
    ------
    WorkloadError
        A name that labkit does not know.
    CapabilityMissingError
        A known one that this rig never has; the message names a rig that has it.
    """
    check_known_engine(engine)
    if engine not in info.engines:
        raise _missing(info, f"engine '{engine}'", info.engines, _having_engine(engine))


def check_known_engine(engine: str) -> None:
    """Raise `WorkloadError` for a name that labkit does not know."""
    if engine not in ENGINE_NAMES:
        raise WorkloadError(f"unknown engine '{engine}'; known: {', '.join(sorted(ENGINE_NAMES))}")


def check_setting(info: RigInfo, name: str) -> None:
    """Raise unless rig `info` has setting `name`, as `check_engine` does."""
    if name in WORKLOAD_FACTORS:
        raise WorkloadError(
            f"'{name}' is no setting of a rig but part of the workload: give it as lk.Workload({name}=...), "
            "or as an option of its own (labkit run --help)"
        )
    if name not in SETTING_NAMES:
        raise WorkloadError(f"unknown setting '{name}'; known: {', '.join(sorted(SETTING_NAMES))}")
    if name not in info.factors:
        having = [other for other in known_rigs() if name in other.factors]
        raise _missing(info, f"setting '{name}'", info.factors, having)


def check_sink(info: RigInfo, sink: str | None) -> None:
    """Raise unless rig `info` has `sink`, as `check_engine` does; None is the rig's own and always there."""
    if sink is None or sink in info.sinks:
        return
    check_known_sink(sink)
    having = [other for other in known_rigs() if sink in other.sinks]
    raise _missing(info, f"sink '{sink}'", info.sinks, having)


def check_known_sink(sink: str) -> None:
    """Raise `WorkloadError` for a name that labkit does not know."""
    if sink not in SINK_NAMES:
        raise WorkloadError(f"unknown sink '{sink}'; known: {', '.join(sorted(SINK_NAMES))}")


def _profiles() -> dict[str, Profile]:
    return load_profiles(data_dir() / "profiles")


def _costs_known(profile: Profile, sender: Sender) -> bool:
    try:
        terms(profile, sender)
    except CapabilityMissingError:
        return False
    return sender.engine in profile.engines


def _having_engine(engine: str) -> list[RigInfo]:
    return [other for other in known_rigs() if engine in other.engines]


def _missing(
    info: RigInfo, what: str, has: Sequence[str], having: Sequence[RigInfo]
) -> CapabilityMissingError:
    why = why_not(info.name, what)
    if why is not None:
        return CapabilityMissingError(f"rig '{info.name}' has no {what}: {why}")
    instead = f"try rig '{having[0].name}'" if having else "no rig of this version has it"
    return CapabilityMissingError(f"rig '{info.name}' has no {what} (it has {listed(has)}); {instead}")
