"""Byte queue limits over time: the limit, what is in flight, and between which the limit moves."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

from labkit.analysis.queue_limits import BqlSeries, bql_series
from labkit.plots import look
from labkit.records import Trial

LINES: Final = (("limit_bytes", "limit", 0), ("inflight_bytes", "in flight", 1))
"""Field, legend and colour of each line."""


def bql_over_time(trial: Trial) -> go.Figure:
    """Draw a run's byte queue limits as steps over milliseconds; what stops nothing stands in words.

    Raises
    ------
    LabError
        The run had none at work: why, and where to see them instead.
    """
    series = bql_series(trial)
    fig = look.figure(f"Byte queue limits, {series.label}", hovermode="x unified")
    for field, name, colour in LINES:
        if field != "limit_bytes" or series.limit_in_sight:
            fig.add_trace(_steps(series, field, name, colour))
    fig.update_layout(
        xaxis=look.axis("time (ms)"),
        yaxis=look.axis("bytes", rangemode="tozero"),
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        shapes=[_bound(value) for _, value in series.bounds],
        annotations=[*(_bound_name(*each) for each in series.bounds), *_words(series)],
    )
    return fig


def _steps(series: BqlSeries, field: str, name: str, colour: int) -> go.Scatter:
    return go.Scatter(
        x=series.at_ms,
        y=getattr(series, field),
        name=name,
        mode="lines+markers",
        line={"shape": "hv", "color": look.PALETTE[colour], "dash": look.DASHES[colour]},
        marker={"symbol": look.SYMBOLS[colour], "size": 7},
        hovertemplate="%{y:,} bytes",
    )


def _bound(value: int) -> dict[str, Any]:
    """Thin line of limit_min or limit_max."""
    line = {"color": look.INK, "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}


def _bound_name(name: str, value: int) -> dict[str, Any]:
    where = {"xref": "x domain", "x": 1, "xanchor": "right", "y": value, "yanchor": "bottom"}
    return {**where, "text": name, "showarrow": False, "font": {"size": 12, "color": look.INK}}


def _words(series: BqlSeries) -> list[dict[str, Any]]:
    """What lies too far up to be drawn."""
    if not series.out_of_sight:
        return []
    where = {"xref": "x domain", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}
    text = f"far above: {', '.join(series.out_of_sight)}"
    return [{**where, "text": text, "showarrow": False, "font": {"size": 12, "color": look.INK}}]
