"""Where a packet's time goes: one bar a cause, each beginning where the last one ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import plotly.graph_objects as go

from labkit.analysis.explain import UNEXPLAINED, Explanation
from labkit.plots import look
from labkit.simnic.loop import WAITS
from labkit.simnic.run import Share

SMALLEST_NS: Final = 0.005
"""A part below does not show; the hover of the whole still adds up."""
SOURCE_LETTERS: Final = 44
ROW_PIXELS: Final = 44
NEAR_SHARE: Final = 0.025
"""Of the axis: two upright labels nearer than this lie on each other."""

GROUPS: Final = (("work", look.PALETTE[0]), ("waiting", look.PALETTE[1]), (UNEXPLAINED, look.PALETTE[3]))
"""Kinds of parts and their colours."""


def waterfall(explanation: Explanation) -> go.Figure:
    """Draw the budget of a packet, with the wire's own time at 10 to 100 Gbit/s as lines.

    Each bar names its source, in full under the pointer. An explanation of a trial that sent nothing gives an
    empty figure that says so.
    """
    fig = look.figure(_heading(explanation), barmode="overlay")
    shown = [
        share
        for share in explanation.budget
        if share.name == UNEXPLAINED or abs(share.ns_per_packet) >= SMALLEST_NS
    ]
    if not shown or explanation.ns_per_packet is None:
        fig.update_layout(
            annotations=[look.gap_note(0.5, 0.5, "nothing was sent", xref="paper", yref="paper")]
        )
        return fig
    starts, end = [], 0.0
    for share in shown:
        starts.append(end)
        end += share.ns_per_packet
    for group, colour in GROUPS:
        rows = [(share, start) for share, start in zip(shown, starts, strict=True) if _group(share) == group]
        if rows:
            fig.add_trace(_bars(rows, group, colour))
    whole = Share(name="a packet", ns_per_packet=explanation.ns_per_packet, source=explanation.measured_by)
    fig.add_trace(_bars([(whole, 0.0)], "whole", look.INK))
    rows_in_order = [_row(share) for share in [*shown, whole]]
    fig.update_layout(
        height=255 + ROW_PIXELS * len(rows_in_order),
        xaxis=look.axis("ns a packet", rangemode="tozero"),
        yaxis=look.categories("", rows_in_order, autorange="reversed", tickfont={"size": 12}),
        **look.tall(top=145, right=60),
        **_wire_lines(explanation.wire_ns, explanation.ns_per_packet),
    )
    return fig


def _heading(explanation: Explanation) -> str:
    limit = explanation.limited_by or "no proven limit"
    return f"Where {explanation.ns_per_packet or 0:.1f} ns a packet go: {explanation.rig}, {limit}"


def _group(share: Share) -> str:
    if share.name == UNEXPLAINED:
        return UNEXPLAINED
    return "waiting" if share.name in WAITS.values() else "work"


def _row(share: Share) -> str:
    source = share.source
    short = source if len(source) <= SOURCE_LETTERS else source[: SOURCE_LETTERS - 1].rstrip() + "…"
    return f"{share.name}<br><span style='font-size:10px'>{short}</span>"


def _bars(rows: list[tuple[Share, float]], name: str, colour: str) -> go.Bar:
    return go.Bar(
        x=[share.ns_per_packet for share, _ in rows],
        base=[start for _, start in rows],
        y=[_row(share) for share, _ in rows],
        orientation="h",
        name=name,
        marker={"color": colour, "line": {"width": 0}},
        text=[f"{share.ns_per_packet:z.2f}" for share, _ in rows],
        textposition="outside",
        cliponaxis=False,
        customdata=[
            f"{share.name}: {share.ns_per_packet:.3f} ns<br>{_wrapped(share.source)}" for share, _ in rows
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _wrapped(text: str, width: int = 60) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "<br>".join([*lines, line])


def _wire_lines(wire_ns: Mapping[str, float], total_ns: float) -> dict[str, Any]:
    """One dotted line a speed, its name upright above the plot; lines too near to each other share one."""
    across = {"yref": "paper", "y0": 0, "y1": 1, "type": "line"}
    upright = {"y": 1.0, "yref": "paper", "yanchor": "bottom", "textangle": -90, "showarrow": False}
    return {
        "shapes": [
            {**across, "x0": ns, "x1": ns, "line": {"color": look.INK, "dash": "dot", "width": 1}}
            for ns in wire_ns.values()
        ],
        "annotations": [
            {**upright, "x": ns, "text": text, "font": {"size": 11, "color": look.INK}}
            for ns, text in _wire_labels(wire_ns, total_ns)
        ],
    }


def _wire_labels(wire_ns: Mapping[str, float], total_ns: float) -> list[tuple[float, str]]:
    groups: list[list[tuple[str, float]]] = []
    for speed, ns in sorted(wire_ns.items(), key=lambda item: -item[1]):
        if groups and groups[-1][-1][1] - ns < NEAR_SHARE * total_ns:
            groups[-1].append((speed, ns))
        else:
            groups.append([(speed, ns)])
    return [
        (ns, f"{speed}: {ns:.2f}")
        if len(group) == 1
        else (ns, f"{speed} to {group[-1][0]}: {ns:.0f} to {group[-1][1]:.0f}")
        for group in groups
        for speed, ns in group[:1]
    ]
