"""Cells of an executed notebook as HTML that asks no server for anything."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nbconvert import filters

PLOTLY: Final = "application/vnd.plotly.v1+json"
WIDGET: Final = "application/vnd.jupyter.widget-view+json"
_DEFAULT_HEIGHT_PX: Final = 450
_HIGHLIGHTER: Any = filters.Highlight2HTML
_WITHOUT_COLOUR: Any = filters.strip_ansi


class CellPage:
    """Turns cells into HTML; the first figure brings plotly.js along, the others use it."""

    def __init__(self) -> None:
        self._plotly_embedded = False
        self._highlight: Any = _HIGHLIGHTER()
        self._renderers: dict[str, Callable[[Any], str]] = {
            PLOTLY: self._figure,
            WIDGET: lambda _: "<p class='run'>a widget: it works in JupyterLab only</p>",
            "text/html": _joined,
            "image/svg+xml": _joined,
            "image/png": lambda data: _image("png", data),
            "image/jpeg": lambda data: _image("jpeg", data),
            "text/markdown": lambda data: str(filters.markdown2html(_joined(data))),
            "text/latex": _text,
            "text/plain": _text,
        }

    def render(self, cells: Iterable[Any]) -> str:
        """HTML of `cells` in order."""
        return "\n".join(self._cell(cell) for cell in cells)

    def _cell(self, cell: Any) -> str:
        if cell.cell_type == "markdown":
            return f"<div class='prose'>{filters.markdown2html(cell.source)}</div>"
        if cell.cell_type != "code" or not cell.source.strip():
            return ""
        failed = any(output.output_type == "error" for output in cell.outputs)
        code = self._highlight(cell.source)
        outputs = "".join(self._output(output) for output in cell.outputs)
        return (
            f"<details class='code'{' open' if failed else ''}><summary>code</summary>{code}</details>"
            f"<div class='outputs'>{outputs}</div>"
        )

    def _output(self, output: Any) -> str:
        if output.output_type == "stream":
            return _text(_without_redrawn(_joined(output.text)), output.name)
        if output.output_type == "error":
            return _text("\n".join(output.traceback) or f"{output.ename}: {output.evalue}", "error")
        if WIDGET in output.data and _is_progress(output.data):
            return ""
        for mime, renderer in self._renderers.items():
            if mime in output.data:
                return f"<div class='output'>{renderer(output.data[mime])}</div>"
        return ""

    def _figure(self, figure: Mapping[str, Any]) -> str:
        import plotly.io

        height_px = figure.get("layout", {}).get("height") or _DEFAULT_HEIGHT_PX
        drawn = plotly.io.to_html(
            {"data": figure.get("data", []), "layout": figure.get("layout", {})},
            config={"responsive": True, "displaylogo": False},
            full_html=False,
            include_plotlyjs=not self._plotly_embedded,
            include_mathjax=False,
            default_height=f"{height_px}px",
            validate=False,
        )
        self._plotly_embedded = True
        return f"<div class='figure'>{drawn}</div>"


def _is_progress(data: Mapping[str, Any]) -> bool:
    """Whether a widget is tqdm's bar, which has nothing to say once the run is over."""
    return "%|" in _joined(data.get("text/plain", ""))


def _joined(data: Any) -> str:
    return data if isinstance(data, str) else "".join(data)


def _text(data: Any, kind: str = "plain") -> str:
    return f"<pre class='{kind}'>{html.escape(_WITHOUT_COLOUR(_joined(data)))}</pre>"


def _image(kind: str, data: Any) -> str:
    return f"<img alt='' src='data:image/{kind};base64,{_joined(data).strip()}'>"


def _without_redrawn(text: str) -> str:
    """Drop what a progress bar overwrote: of each line, the part after its last carriage return."""
    lines = text.replace("\r\n", "\n").split("\n")
    # no regular expression: it would look for the return again from each character of a long line
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
