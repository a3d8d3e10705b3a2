"""Where a packet's nanoseconds go: the CPU's time by group, then by function, as an icicle."""

from __future__ import annotations

from collections import Counter
from typing import Final

import plotly.graph_objects as go

from labkit.analysis.cpu_profile import NO_WORK, SHOWN_SHARE, Cost, CpuProfile, Profiled
from labkit.analysis.kernel_groups import OTHER
from labkit.plots import look

ROOT: Final = "a packet"
LINE_PIXELS: Final = 17
"""Of the text below."""


def profile_icicle(found: Profiled | CpuProfile, *, whole: bool = False) -> go.Figure:
    """Draw a packet's time: height is nanoseconds, left all of it, then groups, then their functions.

    Functions below 1 % of the work are one box a group. The pointer shows each one's interval, its samples
    and who called it. Grey is what no group names.

    Parameters
    ----------
    found : Profiled or CpuProfile
        What `labkit.profile` gives.
    whole : bool
        Also idle time and other programs, in grey at the end; else only a line below tells of them.
    """
    profile = found.profile if isinstance(found, Profiled) else found
    height_ns, kind = (profile.sum_ns, "CPU time") if whole else (profile.work_ns, "work")
    boxes = _Boxes()
    boxes.add(ROOT, "", f"{ROOT}: {kind}", height_ns, look.GRID, f"of {profile.sum_ns:,.0f} ns in all")
    working = [group for group in profile.groups if group.name not in NO_WORK]
    for place, group in enumerate(working):
        colour = look.INK if group.name == OTHER else look.PALETTE[place % len(look.PALETTE)]
        inside = [cost for cost in profile.functions if cost.group == group.name]
        _add_group(boxes, group, inside, sum(cost in profile.costly for cost in inside), colour)
    for group in profile.groups if whole else ():
        if group.name in NO_WORK:  # whose functions tell nothing of a packet
            boxes.add(group.name, ROOT, group.name, group.ns_per_packet, look.INK, _told(group))
    where = f": {found.trial.place}" if isinstance(found, Profiled) else ""
    below = "<br>".join(_wrapped(each) for each in _remarks(profile))
    fig = look.figure(f"Where {height_ns:,.0f} ns of {kind} a packet go{where}")
    fig.add_trace(boxes.trace())
    fig.update_layout(
        height=900,
        uniformtext={"minsize": 9, "mode": "hide"},
        annotations=[
            {
                "text": below,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": 0,
                "yanchor": "top",
                "yshift": -8,
                "align": "left",
                "showarrow": False,
                "font": {"size": 12, "color": look.INK},
            }
        ],
    )
    room = 20 + LINE_PIXELS * (below.count("<br>") + 1)
    fig.update_layout(margin={"l": 10, "r": 10, "t": 50, "b": room})
    return fig


def _add_group(boxes: _Boxes, group: Cost, inside: list[Cost], costly: int, colour: str) -> None:
    """A group's box with those of its functions; those behind the first `costly` ones share one."""
    boxes.add(group.name, ROOT, group.name, group.ns_per_packet, colour, _told(group))
    for cost in inside[:costly]:
        key = f"{group.name}/{cost.name}"
        boxes.add(key, group.name, cost.name, cost.ns_per_packet, colour, _told(cost))
    rest = inside[costly:]
    if rest:
        label = f"{len(rest)} functions below {SHOWN_SHARE:.0%}" if len(rest) > 1 else rest[0].name
        each = "<br>".join(f"{cost.name} {cost.ns_per_packet:.1f}" for cost in rest[:12])
        whole = sum(cost.ns_per_packet for cost in rest)
        boxes.add(f"{group.name}/", group.name, label, whole, colour, each)


class _Boxes:
    """Rows of an icicle."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str, float, str, str]] = []

    def add(self, key: str, parent: str, label: str, ns: float, colour: str, told: str) -> None:
        """One box of `ns` in height."""
        self._rows.append((key, parent, label, ns, colour, told))

    def trace(self) -> go.Icicle:
        keys, parents, labels, heights, colours, told = zip(*self._rows, strict=True)
        within = Counter[str]()
        for parent, ns in zip(parents, heights, strict=True):
            within[parent] += ns
        return go.Icicle(
            ids=keys,
            parents=parents,
            labels=labels,
            # what its boxes do not take of a box: with totals a rounding error would leave the figure empty
            values=[max(0.0, ns - within[key]) for key, ns in zip(keys, heights, strict=True)],
            branchvalues="remainder",
            text=[f"{ns:,.0f} ns" for ns in heights],
            marker={"colors": colours, "line": {"width": 1}},
            sort=False,
            tiling={"orientation": "h", "pad": 0},
            texttemplate="%{label}  %{text}",
            textposition="middle left",
            customdata=told,
            hovertemplate="<b>%{label}</b>  %{text}<br>%{customdata}<extra></extra>",
            pathbar={"visible": False},
        )


def _told(cost: Cost) -> str:
    lines = [f"{cost.share:.1%} of the time, {cost.samples} samples: {cost.low:.1f} to {cost.high:.1f} ns"]
    callers = ", ".join(f"{name} {part:.0%}" for name, part in cost.callers.items())
    return "<br>".join([*lines, *([f"called by {callers}"] if callers else [])])


def _remarks(profile: CpuProfile) -> list[str]:
    taken = f"{profile.samples} samples of {profile.event} at {profile.rate_hz} Hz"
    return [taken, *profile.remarks]


def _wrapped(text: str, width: int = 130) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "<br>".join([*lines, line])
