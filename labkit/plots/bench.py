"""Engines against other packet generators: a ratio with its interval each."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go

from labkit.experiment.bench import Absent, Bench, PeerRatio
from labkit.plots import look
from labkit.plots.labels import of_machine

ROW_PX: Final = 34
FRAME_PX: Final = 170
TICKS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def bench_plot(found: Bench) -> go.Figure:
    """Draw engine over peer on a logarithmic axis, a colour a sink; equal speed is the line at 1.

    What could not be compared keeps its row, with the reason under the pointer.
    """
    names = [*map(_row, found.ratios), *map(_row, found.absent)]
    rows = list(dict.fromkeys(names))
    heading = of_machine("packets a second: engine over peer", found.caveat)
    fig = look.figure(heading, hovermode="closest")
    for place, sink in enumerate(dict.fromkeys(each.sink for each in found.ratios)):
        fig.add_trace(_trace(sink, [each for each in found.ratios if each.sink == sink], place))
    fig.update_layout(
        height=FRAME_PX + ROW_PX * len(rows),
        xaxis=look.axis(
            "ratio, 95 % interval of the median", type="log", tickvals=TICKS, ticktext=[*map(str, TICKS)]
        ),
        yaxis=look.categories("", rows, range=[len(rows) - 0.5, -0.5]),
        showlegend=bool(found.ratios),
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        annotations=[
            look.gap_note(0, rows.index(_row(each)), each.reason, xanchor="left") for each in found.absent
        ],
    )
    fig.add_vline(x=1, line={"color": look.INK, "width": 1, "dash": "dash"})
    return fig


def _row(each: PeerRatio | Absent) -> str:
    return f"{each.engine} / {each.peer}, {each.sink}"


def _trace(sink: str, ratios: list[PeerRatio], place: int) -> go.Scatter:
    return go.Scatter(
        x=[each.ratio for each in ratios],
        y=[_row(each) for each in ratios],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [each.high - each.ratio for each in ratios],
            "arrayminus": [each.ratio - each.low for each in ratios],
        },
        customdata=[f"[{each.low:.3f}, {each.high:.3f}], {each.pairs} pairs" for each in ratios],
        hovertemplate="%{y}: %{x:.3f}<br>%{customdata}<extra></extra>",
        mode="markers",
        name=f"sink {sink}",
        marker={
            "color": look.PALETTE[place % len(look.PALETTE)],
            "symbol": look.SYMBOLS[place % len(look.SYMBOLS)],
            "size": 9,
        },
    )
