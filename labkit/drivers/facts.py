"""What is known about one driver, as one frozen record. What is not known is None, never assumed."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from labkit.drivers.interrupt_names import NamePattern
from labkit.drivers.values import ValueFacts, whole_number
from labkit.errors import CapabilityMissingError, SettingRefusedError
from labkit.factors import Scalar, Settings

RING_SETTINGS: Final = frozenset(
    "rx_ring rx_mini_ring rx_jumbo_ring tx_ring rx_buf_len cqe_size tx_push rx_push tx_push_buf_len "
    "tcp_data_split hds_thresh".split()
)
"""Settings of ``ethtool -G``."""

COALESCE_SETTINGS: Final = frozenset(
    "rx_usecs rx_frames rx_usecs_irq rx_frames_irq tx_usecs tx_frames tx_usecs_irq tx_frames_irq "
    "stats_block_usecs adaptive_rx adaptive_tx pkt_rate_low rx_usecs_low rx_frames_low tx_usecs_low "
    "tx_frames_low pkt_rate_high rx_usecs_high rx_frames_high tx_usecs_high tx_frames_high sample_interval "
    "cqe_mode_rx cqe_mode_tx tx_aggr_max_bytes tx_aggr_max_frames tx_aggr_time_usecs "
    "rx_profile tx_profile rx_cqe_frames rx_cqe_nsecs".split()
)
"""Settings of ``ethtool -C``."""

TRUTHS: Final = frozenset("tx_push rx_push adaptive_rx adaptive_tx cqe_mode_rx cqe_mode_tx".split())

STANDARD_COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "tx_packets_nic": ("eth-mac/FramesTransmittedOK",),
    "tx_lost_nic": ("eth-mac/FramesLostDueToIntMACXmitError",),
}
"""Standard statistics by meaning, for a driver whose own name of it is not known (net/ethtool/stats.c)."""

GAUGES: Final = (".*temperature.*", "peer_ifindex")
"""Statistics of any driver that are values, not counts (be2net's temperature, veth's peer)."""


class DriverFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One driver as of one kernel.

    Attributes
    ----------
    name : str
        What ``ethtool -i`` calls the driver.
    kernel : str or None
        Kernel whose source or behaviour the facts describe.
    source : str or None
        Where `rings`, `coalesce`, `resets_link` and `refused_while` were read.
    rings, coalesce : frozenset of str or None
        Settings of the ring and the coalescing command that the driver has; every other one is refused.
    per_queue_coalesce : bool or None
        Whether coalescing can be set for one queue.
    values : mapping of str to ValueFacts
        What becomes of a number, by setting.
    resets_link : frozenset of str
        Settings whose change takes the link down and up, or may.
    keeps_link : frozenset of str
        Settings other than those of ring and coalescing that leave it up.
    refused_while : mapping of str to str
        Settings that are refused while another one, their value here, is on.
    counters : mapping of str to tuple of str
        Names in ``ethtool -S`` by meaning; ``{q}`` stands for a queue's number, ``/`` goes into a section.
        All names of a meaning are added up. Meanings: ``push_back`` (the queue was full), ``tx_dropped``,
        ``rx_dropped``, ``missed`` (no descriptor was free for a received frame), ``doorbells``,
        ``tx_packets``, ``tx_bytes`` and the hardware's own ``tx_packets_nic``, ``tx_bytes_nic``,
        ``tx_lost_nic`` (lost in the MAC), ``resets`` (the device started again).
    counters_source : str or None
        Where they were read.
    gauges : tuple of str
        Patterns of statistics that are values, not counts.
    interrupt_names : tuple of NamePattern
        How its lines in ``/proc/interrupts`` are called; none for a driver that has no interrupt.
    """

    name: str
    kernel: str | None = None
    source: str | None = None
    rings: frozenset[str] | None = None
    coalesce: frozenset[str] | None = None
    per_queue_coalesce: bool | None = None
    values: Mapping[str, ValueFacts] = {}
    resets_link: frozenset[str] = frozenset()
    keeps_link: frozenset[str] = frozenset()
    refused_while: Mapping[str, str] = {}
    counters: Mapping[str, tuple[str, ...]] = {}
    counters_source: str | None = None
    gauges: tuple[str, ...] = GAUGES
    interrupt_names: tuple[NamePattern, ...] = ()

    def has(self, setting: str) -> bool | None:
        """Whether the driver has `setting`; None when that is not known."""
        for group, known in ((RING_SETTINGS, self.rings), (COALESCE_SETTINGS, self.coalesce)):
            if setting in group and known is not None:
                return setting in known
        return None

    def resets(self, setting: str) -> bool | None:
        """Whether changing `setting` takes the link down and up; None when that is not known."""
        if setting in self.resets_link:
            return True
        return False if self.has(setting) or setting in self.keeps_link else None

    def accepted(self, setting: str, asked: Scalar, current: Settings | None = None) -> Scalar:
        """Value that will be read back when `asked` is wanted; None when that is not known.

        Parameters
        ----------
        setting : str
            Name of the setting.
        asked : scalar
            Wanted value.
        current : mapping of str to scalar or None
            Other settings in force, for rules that depend on them.

        Raises
        ------
        CapabilityMissingError
            The driver does not have `setting` at all.
        SettingRefusedError
            It refuses this value, or any value while another setting is on.
        """
        if self.has(setting) is False:
            raise CapabilityMissingError(
                f"driver {self.name} has no {setting} (it has {self._having(setting)}); leave it out",
                errno=errno.EOPNOTSUPP,
            )
        blocker = self.refused_while.get(setting)
        if blocker is not None and current is not None and current.get(blocker) is True:
            raise SettingRefusedError(
                f"{setting} {asked}: driver {self.name} refuses it while {blocker.replace('_', '-')} is on; "
                f"turn {blocker} off first",
                errno=errno.EINVAL,
            )
        if setting in TRUTHS:
            return bool(asked) if self.has(setting) else None
        rule = self.values.get(setting)
        return None if rule is None else rule.accepted(whole_number(setting, asked), setting)

    def effective(self, setting: str, accepted: Scalar) -> float | None:
        """What the hardware does with `accepted`, in the setting's unit; None when that is not known."""
        rule = self.values.get(setting)
        if rule is None or (rule.step_ns is None and setting not in RING_SETTINGS):
            return None
        return rule.effective(whole_number(setting, accepted))

    def _having(self, setting: str) -> str:
        group = self.rings if setting in RING_SETTINGS else self.coalesce
        return ", ".join(sorted(group or ())) or "none of that command's"


class TransmitFacts(DriverFacts, frozen=True, kw_only=True):
    """A driver whose way of sending is known well enough to be simulated.

    Attributes
    ----------
    tx_ring, rx_usecs : ValueFacts
        Transmit ring in descriptors, and interrupt interval.
    moderation : str
        How it moderates: at most one interrupt an ``interval``, or a ``hold-off`` after the first event.
    shared_vector : bool
        Sending and receiving share an interrupt and its poll.
    stop_descriptors, wake_descriptors : int
        The queue stops when fewer descriptors than the first are free, and wakes when more than the second.
    clean_limit : int
        Descriptors cleaned in one poll before it has to poll again.
    write_back : int
        Descriptors that the card writes back at once between two interrupts.
    """

    tx_ring: ValueFacts
    rx_usecs: ValueFacts
    moderation: Literal["interval", "hold-off"]
    shared_vector: bool
    stop_descriptors: int
    wake_descriptors: int
    clean_limit: int
    write_back: int

    @property
    def defaults(self) -> dict[str, int]:
        """Settings after loading the driver, as far as they are known."""
        rules = {"tx_ring": self.tx_ring, "rx_usecs": self.rx_usecs}
        return {name: rule.default for name, rule in rules.items() if rule.default is not None}
