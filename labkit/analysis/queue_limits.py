"""Byte queue limits of one run over time, ready to be drawn."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from labkit.errors import LabError
from labkit.records import Trial
from labkit.units import NS_PER_S

OUT_OF_SIGHT_BYTES: Final = 1 << 26
"""More than a ring of 4096 frames of 9000 bytes holds: a limit beyond never stops a queue."""


class BqlSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Limit and in-flight bytes of the sender's first TX queue at the instants of a run's samples.

    Attributes
    ----------
    label : str
        Rig, engine and settings in a line.
    at_ms : tuple of float
        Since the run's start; 0 is the reading before it.
    limit_bytes, inflight_bytes : tuple of int or None
        At each of these instants.
    bounds : tuple of (str, int)
        ``limit_min`` and ``limit_max``, where they are no default.
    out_of_sight : tuple of str
        Limits so large that they stop nothing, in words; they are in no other field but `limit_bytes`.
    limit_in_sight : bool
        Whether the limit itself is small enough to be drawn beside what is in flight.
    """

    label: str
    at_ms: tuple[float, ...]
    limit_bytes: tuple[int | None, ...]
    inflight_bytes: tuple[int | None, ...]
    bounds: tuple[tuple[str, int], ...]
    out_of_sight: tuple[str, ...]
    limit_in_sight: bool

    def text(self) -> str:
        """Where the limit went and how much was in flight at most, as a line."""
        limits = [limit for limit in self.limit_bytes if limit is not None]
        held = max((each for each in self.inflight_bytes if each is not None), default=None)
        most = "unknown" if held is None else f"at most {held} bytes"
        return f"limit {limits[0]} -> {limits[-1]} bytes, in flight {most} at {len(self.at_ms) - 1} samples"


def bql_series(trial: Trial) -> BqlSeries:
    """Byte queue limits of `trial` over time.

    Raises
    ------
    LabError
        They were not at work, or nobody looked: why, and where to see them instead.
    """
    told: dict[str, Any] = trial.environment.get("bql") or {}
    if told.get("state") != "at work":
        raise LabError(why_none(trial))
    seen = [each for each in trial.samples if each.bql_limit_bytes is not None]
    if not seen:
        raise LabError(f"{trial.rig}: the run ended before its first sample; let it last for 0.5 s or longer")
    bounds = {name: told[name] for name in ("limit_min", "limit_max") if told[name] is not None}
    limits = (told["limit_bytes"]["first"], *(each.bql_limit_bytes for each in seen))
    far = [f"{name} {value:,} bytes" for name, value in bounds.items() if value > OUT_OF_SIGHT_BYTES]
    near = told["limit_bytes"]["max"] <= OUT_OF_SIGHT_BYTES
    return BqlSeries(
        label=f"{trial.place}, {trial.engine}",
        at_ms=(0.0, *(each.at_ns / NS_PER_S * 1000 for each in seen)),
        limit_bytes=limits,
        inflight_bytes=(None, *(each.bql_inflight_bytes for each in seen)),
        bounds=tuple((name, value) for name, value in bounds.items() if 0 < value <= OUT_OF_SIGHT_BYTES),
        out_of_sight=tuple(far if near else [f"limit {limits[-1]:,} bytes", *far]),
        limit_in_sight=near,
    )


def why_none(trial: Trial) -> str:
    """Why `trial` shows no byte queue limits at work, and what would."""
    told: dict[str, Any] = trial.environment.get("bql") or {}
    elsewhere = "rig 'sim:gianfar' keeps them, and so does a real driver on 'vm:e1000e'"
    device = trial.environment.get("device_counter", "").partition(" ")[0] or "the device"
    if not told:
        return f"{trial.rig}: the trial says nothing of byte queue limits; run it again, or {elsewhere}"
    if told["state"] == "directory without driver support":
        return (
            f"{trial.rig}: {device} has the directory byte_queue_limits and stayed at 0 while "
            f"{trial.device_sent:,} packets left: its driver does not report completions "
            f"(netdev_tx_completed_queue); {elsewhere}"
        )
    if told["state"] is None:
        seen = "nothing was sent" if not trial.device_sent else "its files could not be looked at"
        return f"{trial.rig}: whether {device} has byte queue limits is not known, for {seen}; {elsewhere}"
    if trial.rig.startswith("sim:") and trial.environment.get("path") == "qdisc bypass":
        return (
            f"{trial.rig}: engine {trial.engine} went around the qdisc, which is all that byte queue limits "
            f"stop; take qdisc_bypass=False, of pktgen xmit_mode='queue_xmit'"
        )
    return f"{trial.rig}: {device} has no byte queue limits (BQL); {elsewhere}"
