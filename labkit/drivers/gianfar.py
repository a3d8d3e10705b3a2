"""gianfar (Freescale eTSEC, 1 Gbit/s) as of 2012, for the simulation; today's facts are in `others`."""

from __future__ import annotations

from typing import Final

import msgspec

from labkit.drivers.facts import TransmitFacts
from labkit.drivers.interrupt_names import GIANFAR as INTERRUPT_NAMES
from labkit.drivers.others import GIANFAR
from labkit.drivers.values import ValueFacts

_RX_OFF: Final = "gianfar.h: DEFAULT_RX_COALESCE 0, DEFAULT_RXCOUNT 0; "
_TX_ON: Final = "gianfar.h: DEFAULT_TXCOUNT 16, DEFAULT_TXTIME 21 ticks of 512 ns, which reads as 10 us; "


def _default(setting: str, value: int, source: str) -> ValueFacts:
    rule = GIANFAR.values[setting]
    return msgspec.structs.replace(rule, default=value, source=source + rule.source)


_RX_USECS: Final = _default("rx_usecs", 0, _RX_OFF)
_TX_RING: Final = msgspec.structs.replace(
    GIANFAR.values["tx_ring"],
    minimum=2,
    source="gianfar.h: DEFAULT_TX_RING_SIZE 256; gfar_sringparam; 1 is left out: "
    "the simulation keeps one free",
)

GIANFAR_2012: Final = TransmitFacts(
    name=GIANFAR.name,
    kernel="3.5",
    rings=GIANFAR.rings,
    coalesce=GIANFAR.coalesce,
    per_queue_coalesce=False,
    values={
        **GIANFAR.values,
        "tx_ring": _TX_RING,
        "rx_usecs": _RX_USECS,
        "rx_frames": _default("rx_frames", 0, _RX_OFF),
        "tx_usecs": _default("tx_usecs", 10, _TX_ON),
        "tx_frames": _default("tx_frames", 16, _TX_ON),
    },
    resets_link=GIANFAR.resets_link,
    counters=GIANFAR.counters,
    counters_source=GIANFAR.counters_source,
    interrupt_names=INTERRUPT_NAMES,
    tx_ring=_TX_RING,
    rx_usecs=_RX_USECS,
    moderation="hold-off",
    shared_vector=True,
    stop_descriptors=1,
    wake_descriptors=1,
    clean_limit=256,
    write_back=1,
    source="gianfar.c (3.6): gfar_start_xmit stops a queue without a free descriptor; gfar_clean_tx_ring "
    "wakes it at the first one and has no limit but the ring; "
    "gfar_poll cleans both rings whatever interrupt came",
)
"""Sending and receiving share a poll."""

GIANFAR_TX_NAPI: Final = msgspec.structs.replace(
    GIANFAR_2012,
    kernel="3.5 with 'gianfar: Use separate NAPI for Tx confirmation processing', netdev, August 2012",
    shared_vector=False,
)
"""A poll for each direction, after its own interrupt."""
