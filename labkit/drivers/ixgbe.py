"""ixgbe (Intel 82599, 10 Gbit/s) as of the kernels that the published tables of 2014 were measured on.

Newer kernels differ: rings up to 8192 on the 82599 (6.12), another dynamic mode since 3.18 (12K class) and
again since 4.16, and an ethtool core that refuses a ring above the maximum, where the kernels of 2014 let the
driver clamp it.
"""

from __future__ import annotations

from typing import Final

from labkit.drivers.facts import DriverFacts, RingFacts, ThrottleFacts

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

IXGBE: Final = DriverFacts(
    name="ixgbe",
    kernel="3.15 (net-next of May and June 2014)",
    tx_ring=RingFacts(
        default=512,
        minimum=64,
        maximum=4096,
        multiple=8,
        source="ixgbe.h: IXGBE_DEFAULT_TXD, IXGBE_MIN_TXD, IXGBE_MAX_TXD (they stand in the patch 'ixgbe: "
        "increase default TX ring buffer to 1024', netdev, 2014-05-14); ixgbe_set_ringparam: clamp_t, "
        "then ALIGN to IXGBE_REQ_TX_DESCRIPTOR_MULTIPLE = 8",
    ),
    rx_usecs=ThrottleFacts(
        default_usecs=1,
        max_usecs=EITR_MASK >> 2,
        off_usecs=0,
        dynamic_usecs=1,
        step_ns=2048,
        usecs_per_step=2,
        dynamic_steps=(smoothed_itr(START_ITR) & EITR_MASK) >> 3,
        source="ixgbe_set_coalesce: above IXGBE_MAX_EITR >> 2 is EINVAL, above 1 the register gets "
        "usecs << 2, 0 and 1 are codes; ixgbe_set_itr: the smoothing; "
        "82599: EITR bits 11:3 count 2.048 us at 10 Gbit/s",
    ),
    stop_descriptors=MAX_SKB_FRAGS + 4,
    clean_limit=256,
    source="ixgbe.h: DESC_NEEDED = MAX_SKB_FRAGS + 4, IXGBE_DEFAULT_TX_WORK = 256",
)
"""The driver of the simulated NIC."""
