"""ixgbe (Intel 82599 and relatives, 10 Gbit/s), of 2014 for the simulation and of today.

The published tables were measured on kernels of 2014. Newer ones differ: rings up to 8192 on the 82599
(6.12), another dynamic mode since 3.18 (12K class) and again since 4.16, and an ethtool core that refuses a
ring above the maximum, where the kernels of 2014 let the driver clamp it.
"""

from __future__ import annotations

from typing import Final

from labkit.drivers.facts import DriverFacts, TransmitFacts
from labkit.drivers.interrupt_names import INTEL
from labkit.drivers.values import U32_MAX, Code, Refusal, ValueFacts

MAX_SKB_FRAGS: Final = 17
"""Fragments of one packet with pages of 4 KiB: 65536 / 4096 + 1 (include/linux/skbuff.h)."""

EITR_MASK: Final = 0xFF8
"""``IXGBE_MAX_EITR``: the interval's bits in the EITR register; its lowest three bits are reserved."""

BULK_ITR: Final = 500
"""``IXGBE_8K_ITR`` of 2014: where the dynamic mode moves under bulk traffic, as the EITR register has it."""


def smoothed_itr(itr: int, target: int = BULK_ITR) -> int:
    """EITR value where the dynamic mode's integer smoothing comes to rest, from `itr` on.

    ``ixgbe_set_itr`` takes new = 10·target·itr / (9·target + itr) after each poll. Integer division makes it
    stop short of the target: from below at 490, which the register holds as 61 steps.
    """
    while (smoothed := 10 * target * itr // (9 * target + itr)) != itr:
        itr = smoothed
    return itr


START_ITR: Final = 200
"""``IXGBE_20K_ITR``: where ``ixgbe_set_coalesce`` starts the dynamic mode."""

STEP_NS: Final = 2048
"""82599: EITR bits 11:3 count 2.048 us at 10 Gbit/s."""

RING_SETTINGS: Final = frozenset({"rx_ring", "tx_ring"})
COALESCE_SETTINGS: Final = frozenset({"rx_usecs", "tx_usecs"})

TIED_TX_USECS: Final = ValueFacts(
    default=0,
    minimum=0,
    refused=(
        Refusal(
            low=1, high=U32_MAX, why="TX moderation is tied to rx-usecs on this NIC; leave 0 and set rx_usecs"
        ),
    ),
    source="ixgbe_set_coalesce: any tx-usecs is EINVAL where RX and TX share an interrupt, as by default; "
    "ixgbe_get_coalesce: only rx-usecs is reported then",
)

COUNTERS: Final = {
    "push_back": ("tx_restart_queue", "tx_busy"),
    "tx_dropped": ("tx_dropped",),
    "rx_dropped": ("rx_dropped",),
    "missed": ("rx_missed_errors",),
    "tx_packets": ("tx_packets",),
    "tx_bytes": ("tx_bytes",),
    "tx_packets_nic": ("tx_pkts_nic",),
    "tx_bytes_nic": ("tx_bytes_nic",),
}

_RING_2014: Final = ValueFacts(
    default=512,
    minimum=64,
    maximum=4096,
    below="clamp",
    above="clamp",
    multiple=8,
    source="ixgbe.h: IXGBE_DEFAULT_TXD, IXGBE_MIN_TXD, IXGBE_MAX_TXD (they stand in the patch 'ixgbe: "
    "increase default TX ring buffer to 1024', netdev, 2014-05-14), and the same for RXD; "
    "ixgbe_set_ringparam: clamp_t, then ALIGN to IXGBE_REQ_TX_DESCRIPTOR_MULTIPLE = 8",
)

_INTERVAL_2014: Final = ValueFacts(
    default=1,
    minimum=0,
    maximum=EITR_MASK >> 2,
    codes={
        0: Code(meaning="no throttling"),
        1: Code(meaning="dynamic mode", period_ns=((smoothed_itr(START_ITR) & EITR_MASK) >> 3) * STEP_NS),
    },
    step_ns=STEP_NS,
    usecs_per_step=2,
    source="ixgbe_set_coalesce: above IXGBE_MAX_EITR >> 2 is EINVAL, above 1 the register gets "
    "usecs << 2, 0 and 1 are codes; ixgbe_set_itr: the smoothing; "
    "82599: EITR bits 11:3 count 2.048 us at 10 Gbit/s",
)

_CHANNELS_2014: Final = ValueFacts(
    default=12,
    minimum=1,
    maximum=63,
    source="ixgbe_set_channels: 0 and more than ixgbe_max_channels are EINVAL, IXGBE_MAX_FDIR_INDICES = 63; "
    "ixgbe_sw_init: as many as CPUs are online, taken to be the 12 threads of an E5-2630",
)

_MTU_2014: Final = ValueFacts(
    default=1500,
    minimum=68,
    maximum=9710,
    source="ixgbe_change_mtu: below 68, or with header and FCS above IXGBE_MAX_JUMBO_FRAME_SIZE = 9728, "
    "EINVAL",
)

IXGBE_2014: Final = TransmitFacts(
    name="ixgbe",
    kernel="3.15 (net-next of May and June 2014)",
    rings=RING_SETTINGS,
    coalesce=COALESCE_SETTINGS,
    values={
        "tx_ring": _RING_2014,
        "rx_ring": _RING_2014,
        "rx_usecs": _INTERVAL_2014,
        "tx_usecs": TIED_TX_USECS,
        "channels": _CHANNELS_2014,
        "mtu": _MTU_2014,
    },
    resets_link=frozenset({"rx_ring", "tx_ring", "rx_usecs"}),
    counters=COUNTERS,
    counters_source="ixgbe_ethtool.c: ixgbe_gstrings_stats",
    interrupt_names=INTEL,
    tx_ring=_RING_2014,
    rx_usecs=_INTERVAL_2014,
    moderation="interval",
    shared_vector=True,
    stop_descriptors=MAX_SKB_FRAGS + 4,
    wake_descriptors=2 * (MAX_SKB_FRAGS + 4),
    clean_limit=256,
    write_back=8,
    source="ixgbe.h: DESC_NEEDED = MAX_SKB_FRAGS + 4, IXGBE_DEFAULT_TX_WORK = 256; ixgbe_main.c: "
    "TX_WAKE_THRESHOLD = 2 * DESC_NEEDED, TXDCTL.WTHRESH = 8 where interrupts are moderated; "
    "ixgbe_ethtool.c: ixgbe_set_ringparam, ixgbe_set_coalesce",
)
"""The driver of the simulated NIC."""

_RING: Final = ValueFacts(
    default=512,
    minimum=64,
    below="clamp",
    multiple=8,
    source="ixgbe_set_ringparam (6.12): clamp_t, then ALIGN to 8; the largest ring depends on the chip (4096 "
    "on 82598, 8192 on 82599 and X540, 32768 on X550) and ethtool's core refuses more",
)

IXGBE: Final = DriverFacts(
    name="ixgbe",
    kernel="6.12",
    rings=RING_SETTINGS,
    coalesce=COALESCE_SETTINGS,
    per_queue_coalesce=False,
    values={
        "tx_ring": _RING,
        "rx_ring": _RING,
        "rx_usecs": ValueFacts(
            default=1,
            minimum=0,
            maximum=EITR_MASK >> 2,
            codes={0: Code(meaning="no throttling"), 1: Code(meaning="dynamic mode")},
            step_ns=STEP_NS,
            usecs_per_step=2,
            source="ixgbe_set_coalesce (6.12): 0 and 1 are codes, above 1022 is EINVAL; 82599 at 10 Gbit/s",
        ),
        "tx_usecs": TIED_TX_USECS,
    },
    resets_link=frozenset({"rx_ring", "tx_ring", "rx_usecs"}),
    counters=COUNTERS,
    counters_source="ixgbe_ethtool.c: ixgbe_gstrings_stats",
    interrupt_names=INTEL,
    source="ixgbe_ethtool.c (6.12): a ring change takes the adapter down and up, and so does an interval "
    "that crosses 10 us, where receive coalescing in hardware goes on or off",
)
"""The driver of today."""
