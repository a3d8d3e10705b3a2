"""Intel's igb, e1000e and igc (1 and 2.5 Gbit/s), i40e and ice (10 to 100 Gbit/s)."""

from __future__ import annotations

from typing import Final

from labkit.drivers.facts import DriverFacts
from labkit.drivers.interrupt_names import INTEL
from labkit.drivers.values import Code, Refusal, ValueFacts

RINGS: Final = frozenset({"rx_ring", "tx_ring"})
USECS: Final = frozenset({"rx_usecs", "tx_usecs"})

OFF: Final = Code(meaning="no throttling")
DYNAMIC: Final = Code(meaning="dynamic mode")
CONSERVATIVE: Final = Code(meaning="dynamic mode, conservative")
BALANCED: Final = Code(meaning="interrupts balanced between RX and TX")


def _gigabit_ring(source: str) -> ValueFacts:
    return ValueFacts(default=256, minimum=64, maximum=4096, below="clamp", multiple=8, source=source)


def _gigabit_interval(codes: dict[int, Code], source: str) -> ValueFacts:
    first = max(codes) + 1
    why = f"the driver takes the codes {', '.join(map(str, codes))} or 10 to 10000; ask for 10 or more"
    return ValueFacts(
        default=3,
        minimum=0,
        maximum=10_000,
        codes=codes,
        refused=(Refusal(low=2, high=2, why=why), Refusal(low=first, high=9, why=why)),
        source=source,
    )


_CAPTURED: Final = "ethtool 6.1 on kernel 6.1: 300 is read back as 304, 1 as 64, 65536 is refused by the core"
_IGB_CODES: Final = {0: OFF, 1: DYNAMIC, 3: CONSERVATIVE}

_IGB_RING: Final = _gigabit_ring(f"igb_set_ringparam; {_CAPTURED}")
IGB: Final = DriverFacts(
    name="igb",
    kernel="6.12",
    rings=RINGS,
    coalesce=USECS,
    per_queue_coalesce=False,
    values={
        "rx_ring": _IGB_RING,
        "tx_ring": _IGB_RING,
        "rx_usecs": _gigabit_interval(_IGB_CODES, "igb_set_coalesce: 2 and 4 to 9 are EINVAL"),
        "tx_usecs": _gigabit_interval(
            _IGB_CODES, "igb_set_coalesce: as rx-usecs, but with queue pairs only 0 is taken"
        ),
    },
    resets_link=RINGS,
    counters={
        "push_back": ("tx_queue_{q}_restart",),
        "tx_dropped": ("tx_dropped",),
        "rx_dropped": ("rx_queue_{q}_drops",),
        "missed": ("rx_missed_errors",),
        "tx_packets": ("tx_queue_{q}_packets",),
        "tx_bytes": ("tx_queue_{q}_bytes",),
        "tx_packets_nic": ("tx_packets",),
        "tx_bytes_nic": ("tx_bytes",),
    },
    counters_source="ethtool -S on kernel 6.1; igb_ethtool.c: the plain totals are the hardware's",
    interrupt_names=INTEL,
    source="igb_ethtool.c (6.12): igb_set_ringparam takes the adapter down and up",
)

_E1000E_RING: Final = _gigabit_ring(f"e1000_set_ringparam; {_CAPTURED}")
E1000E: Final = DriverFacts(
    name="e1000e",
    kernel="6.12",
    rings=RINGS,
    coalesce=frozenset({"rx_usecs"}),
    per_queue_coalesce=False,
    values={
        "rx_ring": _E1000E_RING,
        "tx_ring": _E1000E_RING,
        "rx_usecs": _gigabit_interval(
            {0: OFF, 1: DYNAMIC, 3: CONSERVATIVE, 4: BALANCED},
            "e1000_set_coalesce: 2 and 5 to 9 are EINVAL; captured: so is 1000000, tx-usecs is unsupported",
        ),
    },
    resets_link=RINGS,
    counters={
        "push_back": ("tx_restart_queue",),
        "tx_dropped": ("tx_dropped",),
        "missed": ("rx_missed_errors",),
        "tx_packets_nic": ("tx_packets",),
        "tx_bytes_nic": ("tx_bytes",),
    },
    counters_source="ethtool -S on kernel 6.1; e1000e ethtool.c: the totals are the hardware's",
    interrupt_names=INTEL,
    source="e1000e ethtool.c (6.12): e1000_set_ringparam takes the adapter down and up",
)

_IGC_RING: Final = _gigabit_ring("igc_ethtool_set_ringparam (6.12): clamp, then ALIGN to 8")
IGC: Final = DriverFacts(
    name="igc",
    kernel="6.12",
    rings=RINGS,
    coalesce=USECS,
    per_queue_coalesce=False,
    values={
        "rx_ring": _IGC_RING,
        "tx_ring": _IGC_RING,
        "rx_usecs": _gigabit_interval(_IGB_CODES, "igc_ethtool_set_coalesce: 2 and 4 to 9 are EINVAL"),
        "tx_usecs": _gigabit_interval(
            _IGB_CODES, "igc_ethtool_set_coalesce: as rx-usecs, but with queue pairs it follows rx-usecs"
        ),
    },
    resets_link=RINGS,
    counters={
        "push_back": ("tx_queue_{q}_restart",),
        "tx_dropped": ("tx_dropped",),
        "rx_dropped": ("rx_queue_{q}_drops",),
        "missed": ("rx_missed_errors",),
        "tx_packets": ("tx_queue_{q}_packets",),
        "tx_bytes": ("tx_queue_{q}_bytes",),
        "tx_packets_nic": ("tx_packets",),
        "tx_bytes_nic": ("tx_bytes",),
    },
    counters_source="igc_ethtool.c: igc_ethtool_get_strings; igc_gstrings_stats: the plain totals are the "
    "hardware's (gptc, gotc), rx_missed_errors is mpc",
    interrupt_names=INTEL,
    source="igc_ethtool.c (6.12): a ring change takes the adapter down and up",
)

_FIXED_ONLY: Final = {"rx_usecs": "adaptive_rx", "tx_usecs": "adaptive_tx"}


def _wide_ring(default: int | None, maximum: int | None, source: str) -> ValueFacts:
    return ValueFacts(default=default, minimum=64, maximum=maximum, multiple=32, source=source)


_I40E_RING: Final = _wide_ring(
    512, None, "i40e_set_ringparam: outside 64 to 4096 (8160 on the XL710 class) EINVAL, then ALIGN to 32"
)
_I40E_INTERVAL: Final = ValueFacts(
    minimum=0,
    maximum=8160,
    multiple=2,
    step_ns=2000,
    usecs_per_step=2,
    source="i40e_set_itr_per_queue: above 8160 EINVAL; i40e_txrx.h: ITR_REG_ALIGN goes up to the next 2 us",
)
I40E: Final = DriverFacts(
    name="i40e",
    kernel="6.12",
    rings=RINGS,
    coalesce=USECS | {"adaptive_rx", "adaptive_tx", "rx_usecs_high", "tx_usecs_high", "tx_frames_irq"},
    per_queue_coalesce=True,
    values={
        "rx_ring": _I40E_RING,
        "tx_ring": _I40E_RING,
        "rx_usecs": _I40E_INTERVAL,
        "tx_usecs": _I40E_INTERVAL,
    },
    resets_link=RINGS,
    refused_while=_FIXED_ONLY,
    counters={
        "push_back": ("tx_busy", "tx_stopped"),
        "rx_dropped": ("rx_dropped",),
        "tx_dropped": ("tx_dropped",),
        "missed": ("port.rx_dropped",),
        "tx_packets": ("tx_packets",),
        "tx_bytes": ("tx_bytes",),
    },
    counters_source="i40e_ethtool.c (6.12); older kernels report neither tx_busy nor tx_stopped",
    interrupt_names=INTEL,
    source="i40e_ethtool.c (6.12)",
)

_ICE_SOURCE: Final = "ice_set_ringparam: outside 64 to 8160 EINVAL, then ALIGN to 32, told in the log"
_ICE_INTERVAL: Final = ValueFacts(
    minimum=0,
    maximum=8160,
    rounding="down",
    multiple=2,
    step_ns=2000,
    usecs_per_step=2,
    source="ice_set_rc_coalesce: above ICE_ITR_MAX = 8160 EINVAL; ice_txrx.h: ITR_REG_ALIGN masks to 2 us",
)
ICE: Final = DriverFacts(
    name="ice",
    kernel="6.12",
    rings=RINGS,
    coalesce=USECS | {"adaptive_rx", "adaptive_tx", "rx_usecs_high"},
    per_queue_coalesce=True,
    values={
        "rx_ring": _wide_ring(2048, 8160, _ICE_SOURCE),
        "tx_ring": _wide_ring(256, 8160, _ICE_SOURCE),
        "rx_usecs": _ICE_INTERVAL,
        "tx_usecs": _ICE_INTERVAL,
    },
    resets_link=RINGS,
    refused_while=_FIXED_ONLY,
    counters={
        "push_back": ("tx_busy", "tx_restart"),
        "rx_dropped": ("rx_dropped",),
        "missed": ("rx_dropped.nic",),
    },
    counters_source="ice_ethtool.c: ice_gstrings_vsi_stats",
    interrupt_names=INTEL,
    source="ice_ethtool.c (6.12): a ring change is EBUSY while AF_XDP is attached",
)
