"""What single operations cost, as published, and how a change in them reaches a simulated machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError, WorkloadError, listed
from labkit.simnic.profile import NEEDED, Constant, Profile
from labkit.simnic.sender import Sender
from labkit.units import NS_PER_S

_STEPS: Final = "data/published/pktgen_patch_steps.csv"

OPERATIONS: Final[Mapping[str, Constant]] = {
    "lock": Constant(
        value=8.23,
        kind="sourced",
        source=f"one LOCK-prefixed operation, measured on the E5-2630 of {_STEPS} (v1, patch3)",
    ),
    "rcu": Constant(value=1.90, kind="sourced", source=f"RCU read side of {_STEPS} (v1, RCU cost)"),
    "skb": Constant(
        value=209,
        kind="sourced",
        source="buffer allocated and freed: burst 0 against burst, data/published/arithmetic.csv",
    ),
    "doorbell": Constant(
        value=52.7,
        kind="fitted",
        source="seven of eight save 46 ns: flush threshold 8, data/published/af_packet_flush.csv",
    ),
    "qdisc": Constant(
        value=89.24,
        kind="sourced",
        source="qdisc path against bypass with trafgen on an E5-2695v2, data/published/af_packet_flush.csv",
    ),
}
"""Nanoseconds of one operation on the machines of the published tables."""

OWN: Final = {
    "lock": "lock_op_ns",
    "rcu": "rcu_ns",
    "skb": "skb_ns",
    "doorbell": "doorbell_ns",
    "qdisc": "qdisc_ns",
}
"""Operations that a profile may know of its own machine."""


def costs(profile: Profile | None, microcosts: Mapping[str, float] | None) -> dict[str, Constant]:
    """Cost of each operation: a machine's own measurement, else its profile's, else the published one.

    Without a profile nothing published is taken over: those numbers are of another machine.
    """
    found = dict(OPERATIONS) if profile is not None else {}
    if profile is not None:
        known = profile.constants.known()
        found |= {name: known[constant] for name, constant in OWN.items() if constant in known}
    for name, ns in (microcosts or {}).items():
        nanoseconds(f"microcosts {name}", ns, least=0)
        found[name] = Constant(value=ns, kind="sourced", source="measured on this machine")
    return found


def nanoseconds(name: str, value: object, *, least: float = -NS_PER_S) -> float:
    """`value` of `name`, checked: a number of `least` to a second.

    Raises
    ------
    WorkloadError
        Something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= NS_PER_S:
        raise WorkloadError(f"{name} {value!r}: give nanoseconds from {least:g} to {NS_PER_S:g}, a second")
    return value


def per_frame_constant(sender: Sender) -> str:
    """Constant that holds what one frame costs this sender, all in all."""
    if sender.engine == "pktgen":
        return "inject_ns" if sender.injects else "packet_ns"
    return {"tcp": "segment_ns", "receive": "receive_ns"}.get(sender.engine, "socket_ns")


def changed_by(profile: Profile, sender: Sender, more_ns: float) -> Profile:
    """The same machine with a frame that costs `more_ns` more.

    Raises
    ------
    WorkloadError
        More is taken away than a frame costs.
    """
    name = per_frame_constant(sender)
    before = getattr(profile.constants, name)
    value = before.value + more_ns
    if value <= 0:
        raise WorkloadError(
            f"change: it takes {-more_ns:g} ns from a frame that costs {before.value:g} ns on "
            f"sim:{profile.name}; take away fewer operations"
        )
    nanoseconds("change: a frame's new cost", value)
    cost = Constant(value=value, kind=before.kind, source=before.source)
    return _with(profile, {name: cost})


def completed(profile: Profile, sender: Sender) -> Profile:
    """`profile` ready to answer `sender`; a qdisc path that it doesn't know costs what others published.

    Raises
    ------
    CapabilityMissingError
        A constant that the engine needs is missing.
    """
    ways = [names for names in NEEDED.get(sender.engine, ()) if ("inject_ns" in names) is sender.injects]
    missing = sorted({name for names in ways for name in names} - profile.constants.known().keys())
    if not ways or missing:
        raise CapabilityMissingError(
            f"sim:{profile.name} has no costs of engine '{sender.engine}'"
            f"{' in mode ' + sender.xmit_mode if sender.injects else ''} (missing: {listed(missing)}); "
            f"it answers {listed(profile.engines)}"
        )
    if sender.through_qdisc and sender.engine != "tcp" and profile.constants.qdisc_ns is None:
        return _with(profile, {"qdisc_ns": OPERATIONS["qdisc"]})
    return profile


def _with(profile: Profile, constants: Mapping[str, Constant]) -> Profile:
    return msgspec.structs.replace(profile, constants=msgspec.structs.replace(profile.constants, **constants))
