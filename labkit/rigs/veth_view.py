"""Whether frames of a run took the way into the veth peer that its setting says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from labkit.agent.peer_mode import PEER, PEER_MODES
from labkit.agent.protocol import Measured
from labkit.counters.deltas import counter_delta, counter_deltas
from labkit.factors import Scalar

OWN_NAPI: Final = frozenset({"xdp_drop"})
"""Sinks that give the peer a NAPI themselves: an XDP program needs one, whatever the setting."""


def peer_mode_of(
    measured: Measured, *, sink: str, asked: Mapping[str, Scalar], accepted: Mapping[str, Scalar]
) -> dict[str, Any]:
    """Asked and accepted mode, and what proves it: frames that the peer's NAPI took in.

    ``proved`` is None where nothing was sent, where nobody counts, and where the mode is none that says how
    frames go. Where it is False, ``note`` says what was found.
    """
    mode = accepted.get(PEER)
    before, after = measured.before, measured.after
    by_napi = counter_delta(before.peer_napi_packets, after.peer_napi_packets).value
    sent = counter_deltas(before.device, after.device).get(measured.device_counter)
    told: dict[str, Any] = {"asked": asked.get(PEER), "accepted": mode, "xdp_packets": by_napi}
    if by_napi is None or not sent or mode not in PEER_MODES or sink in OWN_NAPI:
        return {**told, "proved": None}
    if by_napi >= sent if PEER_MODES[str(mode)].gro else not by_napi:
        return {**told, "proved": True}
    note = f"peer is {mode} by its settings, but its NAPI took {by_napi} of {sent} packets in"
    return {**told, "proved": False, "note": note}
