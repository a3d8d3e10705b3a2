"""What single operations cost: a bar each, with its interval."""

from __future__ import annotations

import plotly.graph_objects as go

from labkit.analysis.microcosts import Microcost, Microcosts
from labkit.plots import look

ROW_PIXELS = 32


def microcost_bars(found: Microcosts) -> go.Figure:
    """Draw nanoseconds an operation, what it is under the pointer; what was not measured says why."""
    model = found.machine.get("cpu_model") or "this machine"
    fig = look.figure(f"One operation on CPU {found.cpu} of {model}")
    known = [cost for cost in found.costs if cost.ns is not None]
    rows = [_row(cost) for cost in found.costs]
    fig.add_trace(
        go.Bar(
            x=[cost.ns for cost in known],
            y=[_row(cost) for cost in known],
            orientation="h",
            marker={"color": look.PALETTE[0], "line": {"width": 0}},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [_far(cost.high, cost.ns) for cost in known],
                "arrayminus": [_far(cost.low, cost.ns) for cost in known],
                "color": look.INK,
            },
            customdata=[f"{cost.name}: {cost.how} ({cost.source})" for cost in known],
            hovertemplate="%{x:.3f} ns<br>%{customdata}<extra></extra>",
        )
    )
    fig.update_layout(
        height=160 + ROW_PIXELS * len(found.costs),
        xaxis=look.axis("ns an operation"),
        yaxis=look.categories("", rows, range=[len(rows) - 0.5, -0.5]),
        annotations=[
            look.gap_note(0, row, cost.why_missing or "", xanchor="left")
            for row, cost in enumerate(found.costs)
            if cost.ns is None
        ],
    )
    return fig


def _row(cost: Microcost) -> str:
    """Name and number; beside a bar the number would lie on the interval."""
    return cost.name if cost.ns is None else f"{cost.name}: {cost.ns:.2f}"


def _far(edge: float | None, ns: float | None) -> float | None:
    """Distance of an interval's edge from the number."""
    return None if edge is None or ns is None else abs(edge - ns)
