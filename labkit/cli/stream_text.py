"""What a TCP stream's trial tells beyond packets, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from labkit.analysis.streams import oscillation
from labkit.errors import LabError
from labkit.records import Trial

DASH: Final = "\N{EN DASH}"


def stream_lines(trial: Trial) -> list[str]:
    """Throughput and what it cost, bytes at both ends, and how the rate moved; nothing of other trials."""
    told = trial.environment.get("tcp")
    if not isinstance(told, Mapping):
        return []
    return [_cost(told), *_bytes(told), *_movement(trial, told)]


def _cost(told: Mapping[str, Any]) -> str:
    speed = told.get("throughput_mbit")
    if speed is None:
        return f"  {_number(told.get('device_mbit'), 1)} Mbit/s by the sending device, headers included"
    local, remote = (told.get(f"cpu_{side}_pct") for side in ("local", "remote"))
    demands = (told.get(f"sdem_{side}_us_per_kb") for side in ("local", "remote"))
    costs = " and ".join(_number(demand, 3) for demand in demands)
    return (
        f"  {_number(speed, 1)} Mbit/s to the reader; CPU local {_number(local, 1)} %, remote "
        f"{_number(remote, 1)} %; service demand {costs} us/KB"
    )


def _bytes(told: Mapping[str, Any]) -> list[str]:
    if told.get("bytes_sent") is None:
        return []
    written, read = (_number(told.get(name)) for name in ("bytes_sent", "bytes_received"))
    again = _number(told.get("retransmits"))
    return [f"  bytes written {written}   read {read}   segments sent again {again}"]


def _movement(trial: Trial, told: Mapping[str, Any]) -> list[str]:
    if not told.get("intervals"):
        return []
    try:
        return [f"  within the run: {oscillation(trial).text()}"]
    except LabError as too_short:
        return [f"  {too_short.message}"]


def _number(value: float | None, digits: int = 0) -> str:
    return DASH if value is None else f"{value:,.{digits}f}".replace(",", " ")
