"""Lines with intervals over one factor; a gap breaks the line and says why."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from labkit.analysis.summary import PointSummary, ResultsLike, caveat, summarise
from labkit.factors import Scalar
from labkit.plots import look
from labkit.plots.labels import drawable, level_text, of_machine, title, value_text


def lines(results: ResultsLike, x: str, value: str = "pps", by: str | None = None) -> go.Figure:
    """Draw the mean of `value` with its 95 % interval over factor `x`, one line a level of `by`.

    Raises
    ------
    WorkloadError
        No such factor or value, or another factor varies: name it as `by` or choose a level.
    """
    names = (x,) if by is None else (x, by)
    points = summarise(results, names, value)
    levels = list(dict.fromkeys([*results.factors.get(x, ()), *(point.levels[x] for point in points)]))
    series: dict[Scalar, dict[Scalar, PointSummary]] = {}
    for point in points:
        series.setdefault(point.levels[by] if by else None, {})[point.levels[x]] = point
    fig = look.figure(of_machine(_heading(x, value, by), caveat(results)), hovermode="closest")
    for place, (level, line) in enumerate(series.items() or [(None, {})]):
        fig.add_trace(_trace(levels, line, value, place, level_text(level) if by else title(value)))
    spread = {"type": "linear", "tickvals": levels} if _even(levels) else None
    texts = [level_text(level) for level in levels]
    fig.update_layout(
        xaxis=look.axis(title(x), **spread) if spread else look.categories(title(x), texts),
        yaxis=look.axis(title(value), tickformat="~s" if value == "pps" else None),
        showlegend=by is not None,
        legend={"title": {"text": title(by)}} if by else None,
        annotations=_gap_notes(levels, series, by),
    )
    return fig


def _heading(x: str, value: str, by: str | None) -> str:
    return f"{title(value)} over {title(x)}" + (f", by {title(by)}" if by else "")


def _trace(
    levels: Sequence[Scalar], line: dict[Scalar, PointSummary], value: str, place: int, name: str
) -> go.Scatter:
    colour = look.PALETTE[place % len(look.PALETTE)]
    dash = look.DASHES[place // len(look.PALETTE) % len(look.DASHES)]
    means, above, below, hovers = [], [], [], []
    for level in levels:
        known = line[level].estimate if level in line else None
        means.append(drawable(known.mean) if known else None)
        above.append(known.high - known.mean if known and known.high is not None else None)
        below.append(known.mean - known.low if known and known.low is not None else None)
        hovers.append(_hover(line[level], value) if level in line else "")
    return go.Scatter(
        x=_axis_values(levels),
        y=means,
        error_y={"type": "data", "array": above, "arrayminus": below, "thickness": 1.5, "width": 4},
        customdata=hovers,
        hovertemplate="%{x}: %{customdata}",
        mode="lines+markers",
        connectgaps=False,
        name=name,
        line={"color": colour, "width": 2, "dash": dash},
        marker={"symbol": look.SYMBOLS[place % len(look.SYMBOLS)], "size": 8},
    )


def _hover(point: PointSummary, value: str) -> str:
    known = point.estimate
    told = [] if known is None else [f"{value_text(known.mean, value)} ({known.n} trials)"]
    if known and known.low is not None and known.high is not None:
        told.append(f"95 % interval {known.low:,.2f} to {known.high:,.2f}")
    told += [f"{title(name)}: {words}" for name, words in point.turned.items()]
    return "<br>".join(told + ([point.reason] if point.reason else []))


def _gap_notes(
    levels: Sequence[Scalar], series: dict[Scalar, dict[Scalar, PointSummary]], by: str | None
) -> list[dict[str, Any]]:
    """Mark the foot of the plot where a line has no point."""
    notes = []
    for place, level in enumerate(levels):
        told = []
        for name, line in series.items():
            point = line.get(level)
            if point is None or point.estimate is None:
                reason = (point.reason if point else None) or "not measured"
                told.append(f"{level_text(name)}: {reason}" if by else reason)
        if told:
            notes.append(
                look.gap_note(
                    level if _even(levels) else place, 0, "<br>".join(told), yref="y domain", yanchor="bottom"
                )
            )
    return notes


def _axis_values(levels: Sequence[Scalar]) -> list[Any]:
    return list(levels) if _even(levels) else [level_text(level) for level in levels]


def _even(levels: Sequence[Scalar]) -> bool:
    """Tell whether levels are numbers in even steps; else each gets one even step of the axis."""
    numbers = [level for level in levels if isinstance(level, int | float) and not isinstance(level, bool)]
    if len(numbers) != len(levels) or len(levels) < 2:
        return False
    steps = {after - before for before, after in itertools.pairwise(numbers)}
    return len(steps) == 1
