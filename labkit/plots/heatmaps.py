"""Heat maps of two factors; a gap stays empty and says why."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from labkit.analysis.pivot import Cell, Pivot, error_percent, pivot
from labkit.analysis.summary import ResultsLike
from labkit.factors import Scalar
from labkit.plots import look
from labkit.plots.labels import drawable, level_text, of_machine, title, value_text

PAIR_GAP_FRACTION = 0.07


def heatmap(results: ResultsLike | Pivot, x: str = "", y: str = "", value: str = "pps") -> go.Figure:
    """Draw the mean of `value` at each combination of two factors.

    Parameters
    ----------
    results : Results or Pivot
        What a sweep measured; a finished table brings its own names.
    x, y : str
        Factors along the axes.
    value : str
        Number of the trial record.

    Raises
    ------
    WorkloadError
        No such factor or value, or a third factor varies.
    """
    cells = results if isinstance(results, Pivot) else pivot(results, x, y, value)
    fig = look.figure(
        of_machine(f"{title(cells.value)} over {title(cells.x)} and {title(cells.y)}", cells.caveat)
    )
    fig.add_trace(_trace(cells, colorbar={"title": {"text": title(cells.value)}}))
    fig.update_layout(
        xaxis=look.categories(title(cells.x), _texts(cells.x_levels)),
        yaxis=look.categories(title(cells.y), _texts(cells.y_levels)),
        annotations=_gap_notes(cells, "x", "y"),
    )
    return fig


def heatmap_pair(
    reference: Pivot, measured: Pivot, *, names: tuple[str, str] = ("published", "lab")
) -> go.Figure:
    """Draw two tables on one colour scale and, third, the error of each cell of the second in percent.

    Raises
    ------
    WorkloadError
        The tables hold different things.
    """
    errors = error_percent(measured, reference)
    panels = ((reference, names[0]), (measured, names[1]), (errors, f"error of {names[1]} (%)"))
    fig = look.figure(
        of_machine(
            f"{title(reference.value)}: {names[1]} beside {names[0]}",
            measured.caveat or reference.caveat,
        )
    )
    # beside its bar a title stays clear of the other bar on a narrow page
    bar = {"title": {"text": title(reference.value), "side": "right"}, "x": 1.0}
    scale = {"colorscale": look.SEQUENTIAL, "colorbar": bar}
    error_bar = {"title": {"text": title("error_percent"), "side": "right"}, "x": 1.11}
    width = (1 - 2 * PAIR_GAP_FRACTION) / 3
    layout: dict[str, Any] = {"coloraxis": scale, "annotations": []}
    for place, (cells, heading) in enumerate(panels):
        number = "" if place == 0 else str(place + 1)
        start = place * (width + PAIR_GAP_FRACTION)
        colours: dict[str, Any] = {"coloraxis": "coloraxis"} if place < 2 else {"colorbar": error_bar}
        fig.add_trace(_trace(cells, xaxis=f"x{number}", yaxis=f"y{number}", **colours))
        layout[f"xaxis{number}"] = look.categories(
            title(cells.x), _texts(cells.x_levels), domain=[start, start + width], anchor=f"y{number}"
        )
        layout[f"yaxis{number}"] = look.categories(
            title(cells.y) if place == 0 else "", _texts(cells.y_levels), anchor=f"x{number}"
        )
        layout["annotations"] += [_heading(heading, start + width / 2)]
        layout["annotations"] += _gap_notes(cells, f"x{number}", f"y{number}")
    fig.update_layout(**layout)
    return fig


def _trace(cells: Pivot, **more: Any) -> go.Heatmap:
    colours: dict[str, Any] = {}
    if cells.value == "error_percent":
        colours = {"colorscale": look.DIVERGING, "zmid": 0}
    elif "coloraxis" not in more:
        colours = {"colorscale": look.SEQUENTIAL}
    return go.Heatmap(
        x=_texts(cells.x_levels),
        y=_texts(cells.y_levels),
        z=[[drawable(cell.value) for cell in row] for row in cells.cells],
        text=[[value_text(cell.value, cells.value) for cell in row] for row in cells.cells],
        texttemplate="%{text}",
        customdata=[
            [_hover(cells, cell, x, y) for x, cell in zip(cells.x_levels, row, strict=True)]
            for y, row in zip(cells.y_levels, cells.cells, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=True,
        xgap=2,
        ygap=2,
        **colours,
        **more,
    )


def _hover(cells: Pivot, cell: Cell, x: Scalar, y: Scalar) -> str:
    asked = ((cells.x, x), (cells.y, y))
    lines = [f"{title(name)}: {level_text(level)}{_turned(cell, name)}" for name, level in asked]
    if drawable(cell.value) is not None:
        lines.append(f"{title(cells.value)}: {cell.value:,.2f}")
    if (known := cell.estimate) is not None:
        lines.append(f"{known.n} trials, median {known.median:,.2f}")
        if known.low is not None and known.high is not None:
            lines.append(f"95 % interval {known.low:,.2f} to {known.high:,.2f}")
    if cell.reason:
        lines.append(cell.reason)
    return "<br>".join(lines)


def _turned(cell: Cell, name: str) -> str:
    return f" ({cell.turned[name]})" if name in cell.turned else ""


def _gap_notes(cells: Pivot, xref: str, yref: str) -> list[dict[str, Any]]:
    return [
        look.gap_note(column, row, cell.reason or "no value", xref=xref, yref=yref)
        for row, line in enumerate(cells.cells)
        for column, cell in enumerate(line)
        if drawable(cell.value) is None
    ]


def _heading(text: str, middle: float) -> dict[str, Any]:
    place: dict[str, Any] = {"x": middle, "y": 1.0, "xref": "paper", "yref": "paper"}
    place |= {"xanchor": "center", "yanchor": "bottom"}
    return {**place, "text": text, "showarrow": False, "font": {"size": 14, "color": look.INK}}


def _texts(levels: tuple[Scalar, ...]) -> list[str]:
    return [level_text(level) for level in levels]
