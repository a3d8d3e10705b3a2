"""What engine, queue, device and peer counted of each run, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import plotly.graph_objects as go

from labkit.plots import look
from labkit.records import Trial

PLACES: Final = {
    "engine sent": "engine_sent",
    "refused by the kernel": "engine_refused",
    "dropped by the qdisc": "qdisc_dropped",
    "device sent": "device_sent",
    "dropped at the device": "device_dropped",
    "peer received": "peer_received",
}
"""Where frames are counted, on their way from the engine to the peer, and the trial's name for it."""


def count_bars(trials: Mapping[str, Trial]) -> go.Figure:
    """Draw a group of bars a trial, one a place; a place that does not count says so instead of a bar.

    Parameters
    ----------
    trials : mapping of str to Trial
        Trials by what is tried in them.
    """
    fig = look.figure("Frames by the place that counted them", barmode="group", hovermode="closest")
    cases = list(trials)
    notes: list[dict[str, Any]] = []
    for place, (name, field) in enumerate(PLACES.items()):
        counts = [getattr(trial, field) for trial in trials.values()]
        fig.add_trace(
            go.Bar(
                x=cases,
                y=counts,
                name=name,
                marker={"color": look.PALETTE[place % len(look.PALETTE)], "line": {"width": 0}},
                customdata=[trial.difference_reason or "all agree" for trial in trials.values()],
                hovertemplate="%{x}: %{y:,} " + name + "<br>%{customdata}<extra></extra>",
            )
        )
        shift = (place - (len(PLACES) - 1) / 2) * 0.8 / len(PLACES)
        notes += [
            look.gap_note(at + shift, 0, f"{name}: not counted here", yref="y domain", yanchor="bottom")
            for at, count in enumerate(counts)
            if count is None
        ]
    fig.update_layout(
        xaxis=look.categories("", cases),
        yaxis=look.axis("frames", rangemode="tozero"),
        annotations=notes,
        legend={"orientation": "h", "y": -0.15, "traceorder": "normal"},
    )
    return fig
