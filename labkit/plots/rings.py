"""A ring's three zones side by side: what waits for the wire, what is sent but not cleaned, what is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from labkit.analysis.explain import Explanation
from labkit.analysis.ring import RingZones
from labkit.plots import look

ROW_PIXELS: Final = 52
ZONES: Final = (
    ("waiting", "waiting for the wire: delays a new packet", look.PALETTE[3]),
    ("uncleaned", "sent, not yet cleaned: delays none", look.PALETTE[0]),
    ("free", "free", "rgba(128,128,128,0.3)"),
)
"""Field, legend and colour of each zone."""


def ring_zones(rings: RingZones | Explanation | Sequence[RingZones | Explanation]) -> go.Figure:
    """Draw one bar a ring, its descriptors by zone, and behind it how long a new packet waits.

    An explanation without a ring (`Explanation.ring` is None: nobody counted descriptors) is left out.
    """
    given = [rings] if isinstance(rings, RingZones | Explanation) else list(rings)
    found = [each.ring if isinstance(each, Explanation) else each for each in given]
    rows = [ring for ring in found if ring is not None]
    places = list(range(len(rows)))
    fig = look.figure("Descriptors of the TX ring, on average", barmode="stack")
    for field, name, colour in ZONES:
        fig.add_trace(
            go.Bar(
                x=[getattr(ring, field) for ring in rows],
                y=places,
                orientation="h",
                name=name,
                marker={"color": colour, "line": {"width": 0}},
                customdata=[
                    f"{ring.label}<br>{name}: {getattr(ring, field):.1f} of {ring.tx_ring}" for ring in rows
                ],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    fig.update_layout(
        height=170 + ROW_PIXELS * len(rows),
        xaxis=look.axis("descriptors"),
        yaxis=look.axis(
            "", tickvals=places, ticktext=[ring.label for ring in rows], autorange="reversed", showgrid=False
        ),
        **look.tall(top=50, right=130),
        annotations=[
            {
                "x": 1.0,
                "xref": "paper",
                "xanchor": "left",
                "xshift": 8,
                "y": place,
                "text": f"waits {ring.delay_us:.2f} µs",
                "showarrow": False,
                "font": {"size": 12, "color": look.INK},
            }
            for place, ring in enumerate(rows)
        ],
    )
    return fig
