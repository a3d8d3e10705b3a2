"""Latency by percentile, a line a load."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go

from labkit.experiment.latency import PERCENTILES, LatencyAtLoad, LatencyPoint
from labkit.plots import look
from labkit.plots.labels import of_machine
from labkit.records import caveat_of

NS_PER_US: Final = 1000


def latency_curves(found: LatencyAtLoad, *, heading: str = "Latency from a frame's due time") -> go.Figure:
    """Draw microseconds over percentiles, both as an operator reads them; a load without latency says why."""
    fig = look.figure(of_machine(heading, caveat_of(found.found.environment)), hovermode="closest")
    for place, point in enumerate(found.points):
        colour = look.PALETTE[place % len(look.PALETTE)]
        known = point.latency_ns or {}
        fig.add_trace(
            go.Scatter(
                x=list(PERCENTILES),
                y=[known[name] / NS_PER_US if name in known else None for name in PERCENTILES],
                mode="lines+markers",
                name=_name(point),
                line={"color": colour, "width": 2},
                marker={"symbol": look.SYMBOLS[place % len(look.SYMBOLS)], "size": 8},
                customdata=[point.reason or "" for _ in PERCENTILES],
                hovertemplate="%{x}: %{y:,.1f} µs<br>%{customdata}",
            )
        )
    fig.update_layout(
        xaxis=look.categories("percentile of frames", list(PERCENTILES)),
        yaxis=look.axis("latency (µs)", type="log"),
        legend={"title": {"text": f"load, of {found.found_pps / 1e3:,.0f} kpps found"}},
        showlegend=True,
    )
    return fig


def _name(point: LatencyPoint) -> str:
    name = f"{point.share:.0%}: {point.asked_pps / 1e3:,.0f} kpps"
    return f"{name} (no latency)" if point.latency_ns is None else name
