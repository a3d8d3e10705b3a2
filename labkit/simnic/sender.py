"""How a simulated sender spends its CPU: one engine's costs on one machine, term by term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from labkit.errors import WorkloadError, listed
from labkit.factors import ENGINE_NAMES, XMIT_MODES
from labkit.simnic.profile import Profile
from labkit.units import NS_PER_S

Per: TypeAlias = Literal["frame", "burst", "call"]

HYPOTHESES: Final = {
    "locked-stall": (
        "locked operations wait for the doorbell's write to finish: fewer doorbells save the stall as well, "
        "so that bursts gain more than the doorbell's own cost"
    ),
    "qdisc-hides-doorbell": (
        "the doorbell's write finishes while the CPU is in the qdisc: there, fewer doorbells save only what "
        "the qdisc's time does not cover"
    ),
    "bypass-only": (
        "the patch as posted puts the doorbell off in packet_direct_xmit alone: through the qdisc every "
        "frame rings it, and pays for the new call"
    ),
    "queue-changes": (
        "the TX queue changes from packet to packet, which flushes the one before: through the qdisc every "
        "frame rings the doorbell, whatever the threshold"
    ),
    "shared-line": (
        "all sending CPUs write one cache line for each frame, as before commit d346a3fae3ff, and wait until "
        "it has come over from the CPU before: twice the CPUs send less than twice as much"
    ),
}
"""Explanations voiced in the threads for figures that no mechanism here gives; off unless asked for."""


LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "frame_bytes": (1, 65_549),
    "batch": (1, 2**31 - 1),
    "clone_skb": (0, 2**31 - 1),
    "cpus": (1, 1024),
}
"""Least and most of a sender's whole numbers: the longest IP packet in its frame, and what the loop holds."""


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that costs the sender time.

    Attributes
    ----------
    name : str
        What it is, for people.
    per : str
        What it is paid for once: a frame, a burst (one doorbell), a call.
    ns : float
        CPU time in nanoseconds.
    source : str
        The constant's kind and source.
    """

    name: str
    per: Per
    ns: float
    source: str


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and how.

    Attributes
    ----------
    engine : str
        One of the profile's engines.
    frame_bytes : int
        Frame length without FCS.
    batch : int
        pktgen: its burst, frames a doorbell. send, sendmmsg, tx_ring: frames a system call.
    clone_skb : int
        pktgen: how often one packet buffer is sent again; 0 allocates one for each frame.
    xmit_mode : str
        pktgen: one of `labkit.factors.XMIT_MODES`.
    qdisc_bypass : bool
        Packet sockets: past the qdisc.
    gap_ns : float
        Between two frames; 0 sends as fast as possible. For ``receive``, between two arrivals.
    poisson : bool
        ``receive``: arrivals at random instead of evenly spaced.
    cpus : int
        CPUs that send, each with a queue of its own.
    hypotheses : frozenset of str
        Names of `HYPOTHESES` that are taken to be true.
    """

    engine: str
    frame_bytes: int = 60
    batch: int = 1
    clone_skb: int = 100_000
    xmit_mode: str = "start_xmit"
    qdisc_bypass: bool = True
    gap_ns: float = 0.0
    poisson: bool = False
    cpus: int = 1
    hypotheses: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse with `WorkloadError` what no sender can be."""
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise WorkloadError(f"{name} {value!r}: give a whole number of {least} to {most}")
        for name in ("qdisc_bypass", "poisson"):
            if type(getattr(self, name)) is not bool:
                raise WorkloadError(f"{name} {getattr(self, name)!r}: give True or False")
        if type(self.gap_ns) not in {int, float} or not 0 <= self.gap_ns <= NS_PER_S:
            raise WorkloadError(f"gap_ns {self.gap_ns!r}: give nanoseconds from 0 to a second")
        for name, value, known in (
            ("engine", self.engine, sorted(ENGINE_NAMES)),
            ("xmit_mode", self.xmit_mode, XMIT_MODES),
            *(("hypotheses", each, HYPOTHESES) for each in self.hypotheses or ()),
        ):
            if value not in known:
                raise WorkloadError(f"{name} {value!r}: unknown; known: {listed(list(known))}")

    @property
    def through_qdisc(self) -> bool:
        """Whether its frames pass the queueing discipline."""
        if self.engine == "pktgen":
            return self.xmit_mode == "queue_xmit"
        return self.engine == "tcp" or not self.qdisc_bypass

    @property
    def injects(self) -> bool:
        """Whether its frames go up the receive path and never meet the card."""
        return self.engine == "pktgen" and self.xmit_mode == "netif_receive"


def doorbell_frames(profile: Profile, sender: Sender) -> int:
    """Frames that one doorbell serves."""
    if sender.engine == "pktgen":
        return sender.batch if sender.xmit_mode == "start_xmit" else 1
    deferred = profile.constants.doorbell_frames
    each = sender.through_qdisc and not sender.hypotheses.isdisjoint({"bypass-only", "queue-changes"})
    if deferred is None or each:
        return 1
    return int(deferred.value)


def doorbell_ns(profile: Profile, sender: Sender) -> float:
    """What one doorbell costs this sender."""
    cost = profile.value("doorbell_ns")
    if sender.through_qdisc and "qdisc-hides-doorbell" in sender.hypotheses:
        return max(0.0, cost - profile.value("qdisc_ns"))
    return cost


def terms(profile: Profile, sender: Sender) -> tuple[Term, ...]:
    """Everything that sending costs this sender, cleaning and interrupts apart."""
    if sender.engine == "pktgen":
        return _pktgen(profile, sender)
    if sender.engine == "tcp":
        return (_term(profile, "segment_ns", "TCP segment", "frame"), *_doorbell(profile, sender))
    if sender.engine == "receive":
        return ()
    return _packet_socket(profile, sender)


def _pktgen(profile: Profile, sender: Sender) -> tuple[Term, ...]:
    share = 1 / max(1, sender.batch if sender.injects else sender.clone_skb)
    skb = (_term(profile, "skb_ns", "packet buffer", "frame", times=share),)
    if sender.injects:
        return (_term(profile, "inject_ns", "receive path", "frame"), *skb)
    rest = profile.value("packet_ns") - sum(
        profile.value(name) for name in ("clean_ns", "doorbell_ns", "lock_ns")
    )
    path = (_term(profile, "qdisc_ns", "qdisc", "frame"),) if sender.through_qdisc else ()
    return (
        Term(name="pktgen and driver", per="frame", ns=rest, source=profile.constants.origins()["packet_ns"]),
        *skb,
        *path,
        _term(profile, "lock_ns", "queue lock", "burst"),
        *_doorbell(profile, sender),
    )


def _packet_socket(profile: Profile, sender: Sender) -> tuple[Term, ...]:
    rest = profile.value("socket_ns") - profile.value("clean_ns") - profile.value("doorbell_ns")
    path = (_term(profile, "qdisc_ns", "qdisc", "frame"),) if sender.through_qdisc else ()
    return (
        Term(name="socket and driver", per="frame", ns=rest, source=profile.constants.origins()["socket_ns"]),
        *path,
        _term(profile, "syscall_ns", "system call", "call"),
        *_doorbell(profile, sender),
    )


def _doorbell(profile: Profile, sender: Sender) -> tuple[Term, ...]:
    source = profile.constants.origins()["doorbell_ns"]
    doorbell = Term(name="doorbell", per="burst", ns=doorbell_ns(profile, sender), source=source)
    if profile.constants.flush_ns is None:
        return (doorbell,)
    return (_term(profile, "flush_ns", "flush call", "burst"), doorbell)


def _term(profile: Profile, constant: str, name: str, per: Per, times: float = 1.0) -> Term:
    ns = profile.value(constant) * times
    return Term(name=name, per=per, ns=ns, source=profile.constants.origins()[constant])
