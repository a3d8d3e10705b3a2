"""Which counter at the veth peer proves that frames arrived, and is not written by the sender's side.

A veth peer's rx_packets *is* the other end's tx_packets, so it proves nothing. Frames to a foreign MAC are
dropped by the peer's IP stack, which counts them in rx_otherhost_dropped (Linux 6.0 and later); frames of a
protocol that nobody handles end in rx_dropped, together with what full queues dropped before.
"""

from __future__ import annotations

import msgspec

from labkit.records import Frames

ETHERTYPES_WITH_COUNTER = (0x0800, 0x86DD)
VLAN_ETHERTYPES = (0x8100, 0x88A8)


class PeerRule(msgspec.Struct, frozen=True, kw_only=True):
    """How to count frames at the peer: counters to add up, or why none can be trusted."""

    counters: tuple[str, ...]
    note: str | None


def peer_rule(frames: Frames, peer_mac: str, available: frozenset[str]) -> PeerRule:
    """The rule for these frames; `available` names the counters that the peer has."""
    import numpy as np

    block = np.frombuffer(frames.block, np.uint8)
    starts = np.frombuffer(frames.offsets, np.uint64).astype(np.int64)
    lengths = np.frombuffer(frames.lengths, np.uint32)

    def word(at: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        inside = lengths > at + 1
        places = np.where(inside, starts + at, 0)
        high, low = block[places].astype(np.int64), block[np.where(inside, places + 1, 0)]
        return np.where(inside, (high << 8) | low, -1)

    destination = (word(0) << 32) | (word(2) << 16) | word(4)
    if bool(((destination >> 40) & 1).any()) or bool(
        (destination == int(peer_mac.replace(":", ""), 16)).any()
    ):
        why = "frames to the peer's own MAC or to a group are taken in by its stack; choose a foreign MAC"
        return PeerRule(counters=(), note=why)
    # the stack takes one tag off, and a second one behind VLAN 0 (net/core/dev.c, __netif_receive_skb_core)
    outer = word(12)
    inner = np.where(np.isin(outer, VLAN_ETHERTYPES), word(16), outer)
    second = np.isin(outer, VLAN_ETHERTYPES) & np.isin(inner, VLAN_ETHERTYPES) & (word(14) & 0xFFF == 0)
    counted = np.isin(np.where(second, word(20), inner), ETHERTYPES_WITH_COUNTER)
    wanted = []
    if bool(counted.any()):
        wanted.append("rx_otherhost_dropped")
    if not bool(counted.all()):
        wanted.append("rx_dropped")
    missing = [name for name in wanted if name not in available]
    if missing:
        return PeerRule(counters=(), note=f"this kernel has no {missing[0]} (Linux 6.0 brought it)")
    return PeerRule(counters=tuple(wanted), note=None)
