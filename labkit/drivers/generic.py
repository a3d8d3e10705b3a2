"""A driver that nobody wrote: what a present-day one might do, for what-if questions at 25 and 100 Gbit/s."""

from __future__ import annotations

from typing import Final

from labkit.drivers.facts import TransmitFacts
from labkit.drivers.values import ValueFacts

_WHAT_IF: Final = "assumed for a what-if machine; no driver was read"
_RING: Final = ValueFacts(default=1024, minimum=64, maximum=8192, rounding="power of two up", source=_WHAT_IF)
_USECS: Final = ValueFacts(default=16, minimum=1, maximum=1000, step_ns=1000, source=_WHAT_IF)
_CHANNELS: Final = ValueFacts(default=16, minimum=1, maximum=64, source=_WHAT_IF)

GENERIC: Final = TransmitFacts(
    name="generic",
    rings=frozenset({"rx_ring", "tx_ring"}),
    coalesce=frozenset({"rx_usecs"}),
    values={"tx_ring": _RING, "rx_ring": _RING, "rx_usecs": _USECS, "channels": _CHANNELS},
    tx_ring=_RING,
    rx_usecs=_USECS,
    moderation="interval",
    shared_vector=True,
    stop_descriptors=20,
    wake_descriptors=40,
    clean_limit=256,
    write_back=1,
    source=_WHAT_IF,
)
