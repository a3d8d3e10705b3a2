"""One simulated machine as a frozen record: NIC, kernel, and what its CPU spends where."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from labkit.drivers.facts import TransmitFacts
from labkit.errors import CapabilityMissingError

LARGEST: Final = 1e12
"""Above every cost in nanoseconds, count, and bit rate that a profile may name."""


class Constant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of the model and why it is believed.

    Attributes
    ----------
    value : int or float
        In the unit that ends its name; 0 or more.
    kind : str
        ``sourced`` (read somewhere), ``fitted`` (to a published table) or ``assumed`` (no table tells).
    source : str
        Where it was read, which table it was fitted on, or why it is assumed.
    """

    value: int | float
    kind: Literal["sourced", "fitted", "assumed"]
    source: str

    def __post_init__(self) -> None:
        """Refuse what no cost or size can be."""
        if not 0 <= self.value <= LARGEST:
            raise ValueError(f"value {self.value} must be a number of 0 or more, {LARGEST:g} at the most")


class Constants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every number of a machine that is not its driver's; None where nothing tells it.

    Attributes
    ----------
    link_bits_per_s : Constant
        Speed of the wire.
    interrupt_ns : Constant
        CPU time of one interrupt and its poll, whatever it cleans.
    repoll_ns : Constant
        CPU time of one more poll, after the clean limit was reached.
    clean_ns : Constant
        CPU time to clean one descriptor.
    cached_descriptors : Constant
        Descriptors cleaned at once whose data are still in the first-level cache.
    cache_miss_ns : Constant
        What each descriptor beyond those costs more.
    doorbell_ns : Constant
        CPU time of the write that tells the card about new descriptors.
    background_irqs_per_s : Constant
        Interrupts of others, such as the timer tick, that published counts hold besides the card's own.
    packet_ns : Constant or None
        pktgen, one frame a burst: CPU time to send one packet and to clean its descriptor, all in all.
    lock_ns : Constant or None
        pktgen: the part of `packet_ns` that a burst pays once, the queue's lock and unlock.
    skb_ns : Constant or None
        Allocation and release of one packet buffer, which pktgen's ``clone_skb`` saves.
    inject_ns : Constant or None
        pktgen's ``netif_receive``: the receive path until it drops the frame, buffer apart.
    socket_ns : Constant or None
        AF_PACKET's ring, past the qdisc: CPU time to send one packet and to clean its descriptor, all in all.
    syscall_ns : Constant or None
        One system call.
    qdisc_ns : Constant or None
        What the qdisc path costs more than the way past it.
    shared_line_ns : Constant or None
        Moving a cache line that all sending CPUs write over to another one; paid with hypothesis
        ``shared-line`` alone.
    fetch_ns : Constant or None
        From the doorbell until an idle card sends the first bit; None is at once: no table shows it.
    flush_ns : Constant or None
        The driver's call that rings the doorbell, in kernels where it is apart from sending a frame.
    receive_ns : Constant or None
        CPU time of one received frame until the stack drops it.
    doorbell_frames : Constant or None
        Packet sockets: frames that one doorbell serves; None is one.
    segment_ns : Constant or None
        TCP: CPU time to send one segment, system call and stack included, cleaning not.
    ack_ns : Constant or None
        TCP: CPU time of one received acknowledgement.
    ack_delay_ns, ack_jitter_ns : Constant or None
        TCP: from a segment's last bit to its acknowledgement's arrival, and how much more that may be.
    window_segments : Constant or None
        TCP: segments that are on their way at most.
    lock_op_ns, rcu_ns : Constant or None
        One LOCK-prefixed operation, and one RCU read section: what a change of the code is expected to cost
        or save.
    """

    link_bits_per_s: Constant
    interrupt_ns: Constant
    repoll_ns: Constant
    clean_ns: Constant
    cached_descriptors: Constant
    cache_miss_ns: Constant
    doorbell_ns: Constant
    background_irqs_per_s: Constant
    packet_ns: Constant | None = None
    lock_ns: Constant | None = None
    skb_ns: Constant | None = None
    inject_ns: Constant | None = None
    socket_ns: Constant | None = None
    syscall_ns: Constant | None = None
    qdisc_ns: Constant | None = None
    shared_line_ns: Constant | None = None
    fetch_ns: Constant | None = None
    flush_ns: Constant | None = None
    receive_ns: Constant | None = None
    doorbell_frames: Constant | None = None
    segment_ns: Constant | None = None
    ack_ns: Constant | None = None
    ack_delay_ns: Constant | None = None
    ack_jitter_ns: Constant | None = None
    window_segments: Constant | None = None
    lock_op_ns: Constant | None = None
    rcu_ns: Constant | None = None

    def known(self) -> dict[str, Constant]:
        """Constants that this machine has, by name."""
        constants = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: constant for name, constant in constants.items() if constant is not None}

    def values(self) -> dict[str, int | float]:
        """The numbers alone, by name."""
        return {name: constant.value for name, constant in self.known().items()}

    def origins(self) -> dict[str, str]:
        """``kind: source`` of each number, by name."""
        return {name: f"{constant.kind}: {constant.source}" for name, constant in self.known().items()}


SOCKET: Final = (("socket_ns", "syscall_ns"),)
NEEDED: Final = {
    "pktgen": (("packet_ns", "lock_ns", "skb_ns"), ("inject_ns", "skb_ns")),
    "tx_ring": SOCKET,
    "send": SOCKET,
    "sendmmsg": SOCKET,
    "tcp": (("segment_ns", "ack_ns", "ack_delay_ns", "ack_jitter_ns", "window_segments"),),
    "receive": (("receive_ns",),),
}
"""What a machine must know of itself to answer an engine: all of one of these."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the simulation needs to know about one machine.

    Attributes
    ----------
    name : str
        ``ixgbe``, or ``ixgbe@kernel`` for other kernels than the profile's first.
    title : str
        One line for people.
    kernel, cpu, nic : str
        What was measured, in words.
    what_if : bool
        Nobody measured such a machine: its constants are assumptions, to be played with.
    driver : TransmitFacts
        Limits, rounding and coded values of the NIC's driver.
    constants : Constants
        Costs and sizes, each with its source.
    bql : bool
        The kernel keeps byte queue limits.
    """

    name: str
    title: str
    kernel: str
    cpu: str
    nic: str
    what_if: bool
    driver: TransmitFacts
    constants: Constants
    bql: bool = True

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines whose costs are known here."""
        known = self.constants.known()
        return tuple(
            engine
            for engine, ways in NEEDED.items()
            if any(all(name in known for name in names) for names in ways)
        )

    def value(self, name: str) -> float:
        """Number of constant `name`.

        Raises
        ------
        CapabilityMissingError
            Nothing tells it for this machine.
        """
        constant: Constant | None = getattr(self.constants, name)
        if constant is None:
            raise CapabilityMissingError(
                f"sim:{self.name} has no {name}: no table tells what this costs there; it answers "
                f"{', '.join(self.engines)}"
            )
        return constant.value
