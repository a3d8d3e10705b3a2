"""mlx5 (NVIDIA), tg3 and bnxt (Broadcom), gianfar (Freescale)."""

from __future__ import annotations

from typing import Final

from labkit.drivers.facts import DriverFacts
from labkit.drivers.interrupt_names import GIANFAR as GIANFAR_NAMES
from labkit.drivers.interrupt_names import INTEL as COMMON_NAMES
from labkit.drivers.interrupt_names import MLX5 as MLX5_NAMES
from labkit.drivers.values import ValueFacts

RINGS: Final = frozenset({"rx_ring", "tx_ring"})
USECS_AND_FRAMES: Final = frozenset({"rx_usecs", "rx_frames", "tx_usecs", "tx_frames"})

MLX5: Final = DriverFacts(
    name="mlx5_core",
    kernel="6.12",
    rings=RINGS,
    coalesce=USECS_AND_FRAMES | {"adaptive_rx", "adaptive_tx", "cqe_mode_rx", "cqe_mode_tx"},
    per_queue_coalesce=True,
    values={
        "tx_ring": ValueFacts(
            minimum=64,
            rounding="power of two up",
            source="mlx5e_ethtool_set_ringparam: below 1 << MLX5E_PARAMS_MINIMUM_LOG_SQ_SIZE EINVAL, then "
            "order_base_2; the device tells the maximum",
        ),
        "rx_ring": ValueFacts(
            minimum=2,
            rounding="power of two up",
            source="mlx5e_ethtool_set_ringparam: below 1 << MLX5E_PARAMS_MINIMUM_LOG_RQ_SIZE EINVAL, then "
            "order_base_2; the device tells the maximum",
        ),
    },
    resets_link=RINGS,
    counters={
        "push_back": ("tx_queue_stopped",),
        "tx_dropped": ("tx_queue_dropped",),
        "missed": ("rx_out_of_buffer",),
        "tx_packets": ("tx_packets",),
        "tx_bytes": ("tx_bytes",),
        "tx_packets_nic": ("tx_packets_phy",),
        "tx_bytes_nic": ("tx_bytes_phy",),
    },
    counters_source="mlx5 en_stats.c: sw_stats_desc, q_stats_desc (only with a queue counter), "
    "pport_802_3_stats_desc; the per-ring txN_stopped are parts of tx_queue_stopped",
    interrupt_names=MLX5_NAMES,
    source="mlx5 en_ethtool.c (6.12): a ring change opens new channels and drops carrier meanwhile",
)

_TG3_FRAMES: Final = ValueFacts(minimum=0, maximum=255, source="tg3_set_coalesce: MAX_RXMAX_FRAMES = 255")
_TG3_USECS: Final = ValueFacts(
    minimum=0,
    maximum=1023,
    source="tg3_set_coalesce: MAX_RXCOL_TICKS = 1023; usecs and frames both 0 are EINVAL",
)
TG3: Final = DriverFacts(
    name="tg3",
    kernel="6.12",
    rings=RINGS | {"rx_jumbo_ring"},
    coalesce=USECS_AND_FRAMES
    | {"rx_usecs_irq", "rx_frames_irq", "tx_usecs_irq", "tx_frames_irq", "stats_block_usecs"},
    per_queue_coalesce=False,
    values={
        "tx_ring": ValueFacts(
            default=511,
            minimum=18,
            maximum=511,
            source="tg3_set_ringparam: above TG3_TX_RING_SIZE - 1 or up to MAX_SKB_FRAGS EINVAL (three "
            "times that on chips with the TSO bug), no rounding",
        ),
        "rx_ring": ValueFacts(
            default=200,
            source="TG3_DEF_RX_RING_PENDING; tg3_set_ringparam: above rx_std_ring_mask EINVAL, which is 511 "
            "(TG3_RX_STD_MAX_SIZE_5700 - 1) or 2047 (_5717), by chip, and told; MAX_RXPEND_64 chips make 63 "
            "of more",
        ),
        "rx_usecs": _TG3_USECS,
        "tx_usecs": _TG3_USECS,
        "rx_frames": _TG3_FRAMES,
        "tx_frames": _TG3_FRAMES,
    },
    resets_link=RINGS | {"rx_jumbo_ring"},
    counters={
        "missed": ("rx_discards",),
        "tx_packets_nic": ("tx_ucast_packets", "tx_mcast_packets", "tx_bcast_packets"),
        "tx_bytes_nic": ("tx_octets",),
    },
    counters_source="tg3.c: ethtool_stats_keys; tg3_get_nstats makes rx_missed_errors of rx_discards (and "
    "rx_over_errors of rxbds_empty); no counter tells of a full queue",
    interrupt_names=COMMON_NAMES,
    source="tg3.c (6.12): a ring change halts and restarts the chip; systemd issue 28696: 3 s without link",
)

BNXT: Final = DriverFacts(
    name="bnxt_en",
    kernel="6.12",
    coalesce=USECS_AND_FRAMES
    | {"rx_usecs_irq", "rx_frames_irq", "tx_usecs_irq", "tx_frames_irq", "stats_block_usecs"}
    | {"adaptive_rx", "cqe_mode_rx", "cqe_mode_tx"},
    values={
        "tx_ring": ValueFacts(
            default=511,
            minimum=19,
            maximum=2047,
            source="bnxt_set_ringparam: above BNXT_MAX_TX_DESC_CNT or below BNXT_MIN_TX_DESC_CNT = "
            "MAX_SKB_FRAGS + 2 EINVAL, no rounding",
        ),
        "rx_ring": ValueFacts(
            default=511, source="bnxt_set_ringparam: no rounding; the largest depends on the chip"
        ),
    },
    resets_link=RINGS | {"rx_jumbo_ring"},
    counters={
        "missed": ("[{q}]: rx_discards",),
        "tx_dropped": ("[{q}]: tx_discards",),
        "tx_packets_nic": tuple(f"[{{q}}]: tx_{cast}_packets" for cast in ("ucast", "mcast", "bcast")),
        "tx_bytes_nic": tuple(f"[{{q}}]: tx_{cast}_bytes" for cast in ("ucast", "mcast", "bcast")),
    },
    counters_source="bnxt_ethtool.c: bnxt_ring_rx_stats_str, bnxt_ring_tx_stats_str, written by "
    "bnxt_get_strings as [ring]: name; they are the hardware's; no counter tells of a full queue",
    interrupt_names=COMMON_NAMES,
    source="bnxt_ethtool.c (6.12): a ring change closes and opens the device, carrier drops meanwhile",
)

_GIANFAR_RING: Final = ValueFacts(
    default=256,
    minimum=1,
    maximum=256,
    rounding="power of two only",
    source="gfar_sringparam: above 256 or not a power of two EINVAL",
)
_GIANFAR_FRAMES: Final = ValueFacts(
    minimum=0, maximum=255, source="gfar_scoalesce: GFAR_MAX_COAL_FRAMES = 255"
)
_GIANFAR_USECS: Final = ValueFacts(
    minimum=0,
    maximum=65535,
    source="gfar_scoalesce: GFAR_MAX_COAL_USECS = 65535; on only if usecs and frames are above 0",
)
GIANFAR: Final = DriverFacts(
    name="gfar-enet",
    kernel="6.12",
    rings=RINGS,
    coalesce=USECS_AND_FRAMES,
    per_queue_coalesce=False,
    values={
        "rx_ring": _GIANFAR_RING,
        "tx_ring": _GIANFAR_RING,
        "rx_usecs": _GIANFAR_USECS,
        "tx_usecs": _GIANFAR_USECS,
        "rx_frames": _GIANFAR_FRAMES,
        "tx_frames": _GIANFAR_FRAMES,
    },
    resets_link=RINGS | USECS_AND_FRAMES,
    counters={
        "missed": ("rx-busy-errors",),
        "tx_packets_nic": ("tx-packets",),
        "tx_bytes_nic": ("tx-byte-counter",),
    },
    counters_source="gianfar_ethtool.c: stat_gstrings; gfar_gstrings leaves out all behind tx-timeout-errors "
    "on devices without RMON; no counter tells of a full queue",
    interrupt_names=GIANFAR_NAMES,
    source="gianfar_ethtool.c (6.12): every set restarts the interface",
)
