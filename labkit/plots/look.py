"""One look for all figures, readable on light and dark pages and without red-green vision."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

# contrast 4.5:1 on white and 4.1:1 on #111, so that one grey serves both kinds of page
INK: Final = "#767676"
GRID: Final = "rgba(128,128,128,0.25)"

# M. Okabe, K. Ito, Color Universal Design (2008); its yellow is too pale on white, its black lost on dark
PALETTE: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "x", "star")
DASHES: Final = ("solid", "dash", "dot", "dashdot")

# J. Nuñez and others, PLoS ONE 13(7) e0199239 (2018): the same order for every kind of colour vision
SEQUENTIAL: Final = "Cividis"
DIVERGING: Final = "PuOr"


def figure(heading: str, **layout: Any) -> go.Figure:
    """Empty figure in the house's look."""
    fig = go.Figure()
    fig.update_layout(
        title={"text": heading, "x": 0.01, "font": {"size": 16}},
        font={"color": INK, "size": 13},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 80, "r": 20, "t": 60, "b": 60},
        hoverlabel={"align": "left"},
        modebar={"color": INK, "activecolor": PALETTE[0], "bgcolor": "rgba(0,0,0,0)"},
        **layout,
    )
    return fig


def tall(*, top: int, right: int) -> dict[str, Any]:
    """Layout of a figure whose height follows its rows: heading and legend keep to the edges."""
    return {
        "title": {"yref": "container", "y": 1, "yanchor": "top", "pad": {"t": 14}},
        "legend": {
            "orientation": "h",
            "x": 0,
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "margin": {"l": 80, "r": right, "t": top, "b": 110},
    }


def axis(heading: str, **more: Any) -> dict[str, Any]:
    """Axis with its title and a quiet grid."""
    return {"title": {"text": heading}, "gridcolor": GRID, "zeroline": False, "automargin": True, **more}


def categories(heading: str, texts: list[str], **more: Any) -> dict[str, Any]:
    """Axis with one even step a level, whatever the levels' distance."""
    order = {"type": "category", "categoryorder": "array", "categoryarray": texts}
    return axis(heading, **order, showgrid=False, **more)


def gap_note(x: Any, y: Any, reason: str, **where: Any) -> dict[str, Any]:
    """Small word where a point is missing, with the reason on hover.

    On a category axis the place is the category's number: plotly reads the text of one, such as
    "512", as a number too.
    """
    return {
        "x": x,
        "y": y,
        "text": "gap",
        "hovertext": reason,
        "showarrow": False,
        "font": {"size": 11, "color": INK},
        **where,
    }
