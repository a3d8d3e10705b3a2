"""Records to plotly figures, no computation. Plotly is loaded with the first name, not with the room."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_HOMES: Final = {
    "heatmap": "labkit.plots.heatmaps",
    "heatmap_pair": "labkit.plots.heatmaps",
    "lines": "labkit.plots.curves",
}

__all__ = ["heatmap", "heatmap_pair", "lines"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
