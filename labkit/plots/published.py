"""The lab's error at each published figure; what was predicted stands apart from what was fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from labkit.experiment.published import Answer, PublishedPoint
from labkit.plots import look

NEAREST_PERCENT: Final = 0.001
"""Left end of the axis, which has no zero: what is nearer stands here."""
TICKS: Final = {NEAREST_PERCENT: "≤ 0.001", 0.01: "0.01", 0.1: "0.1", 1: "1", 10: "10", 100: "100"}
NAME_LANE: Final = -0.33
LANES: Final[dict[Answer, float]] = {"predicted": 0.0, "fitted": 0.3}
"""Distance of a row's name and of each kind from its middle; a row is 1 high."""
SPREAD: Final = 0.22
"""Height over which points of one kind are spread, so that equal errors do not hide each other."""
GOLDEN: Final = 0.618034
"""Multiples of it, without their whole part, fill an interval evenly from the first few on."""
ROW_PX: Final = 58
FRAME_PX: Final = 150


def published_plot(points: Sequence[PublishedPoint]) -> go.Figure:
    """Draw how far the lab is from each published figure, on a logarithmic axis, one row a file.

    Points of one file alone get a row a table, those of one table a row a setting. Figures without an answer
    are counted in their row, with the reasons on hover.
    """
    rows = _rows(points)
    fig = look.figure("error of the lab at published figures", hovermode="closest")
    for colour, answer in enumerate(LANES):
        fig.add_trace(_trace(rows, answer, colour))
    ticks = {"tickvals": list(TICKS), "ticktext": list(TICKS.values())}
    # names stand in their rows: beside them they would take a narrow page's width
    names = [_note(name, place, 0, "left") for place, name in enumerate(rows)]
    fig.update_layout(
        height=FRAME_PX + ROW_PX * len(rows),
        margin={"l": 20},
        xaxis=look.axis("error, up or down (%)", type="log", **ticks),
        yaxis=look.axis("", range=[len(rows) - 0.5, -0.5], showgrid=False, showticklabels=False),
        shapes=[_rule(place - 0.5) for place in range(len(rows))],
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        annotations=names + [note for place, row in enumerate(rows.values()) for note in _open(place, row)],
    )
    return fig


def _rows(points: Sequence[PublishedPoint]) -> dict[str, list[PublishedPoint]]:
    """Points by file, table or setting, whichever is the first to tell some apart."""
    rows: dict[str, list[PublishedPoint]] = {}
    for name in ("file", "table", "setting_text"):
        rows = {}
        for point in points:
            rows.setdefault(getattr(point, name), []).append(point)
        if len(rows) > 1:
            break
    return rows


def _trace(rows: dict[str, list[PublishedPoint]], answer: Answer, colour: int) -> go.Scatter:
    x, y, hovers = [], [], []
    for place, row in enumerate(rows.values()):
        for number, point in enumerate(each for each in row if each.answer == answer):
            if point.error is not None:
                x.append(max(NEAREST_PERCENT, abs(point.error)))
                y.append(place + LANES[answer] + SPREAD * (number * GOLDEN % 1 - 0.5))
                hovers.append(_hover(point))
    return go.Scatter(
        x=x,
        y=y,
        customdata=hovers,
        hovertemplate="%{customdata}",
        mode="markers",
        name=answer,
        marker={"color": look.PALETTE[colour], "symbol": look.SYMBOLS[colour], "size": 8},
    )


def _hover(point: PublishedPoint) -> str:
    lines = [f"{point.table}: {point.setting_text}"]
    lines.append(f"published {point.published:,.7g} {point.unit}, lab {point.lab:,.7g}")
    lines.append(f"error {point.error:+.3f} %")
    lines += [f"limited by: {point.limited_by}"] if point.limited_by else []
    return "<br>".join([*lines, point.rig or "worked out", *([point.reason] if point.reason else [])])


def _open(place: int, row: Sequence[PublishedPoint]) -> list[dict[str, Any]]:
    missing = [point for point in row if point.answer == "no answer"]
    if not missing:
        return []
    reasons = "<br>".join(dict.fromkeys(point.reason or "no value" for point in missing))
    return [_note(f"{len(missing)} no answer", place, 1, "right", hovertext=reasons)]


def _note(text: str, place: int, x: int, anchor: str, **more: Any) -> dict[str, Any]:
    """Small words at one end of a row."""
    where = {"x": x, "xref": "x domain", "xanchor": anchor, "y": place + NAME_LANE}
    return {**where, "text": text, "showarrow": False, "font": {"size": 12, "color": look.INK}, **more}


def _rule(y: float) -> dict[str, Any]:
    """Quiet line between two rows."""
    return {
        "type": "line",
        "xref": "x domain",
        "x0": 0,
        "x1": 1,
        "y0": y,
        "y1": y,
        "line": {"color": look.GRID, "width": 1},
        "layer": "below",
    }
