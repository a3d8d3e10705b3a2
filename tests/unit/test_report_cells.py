"""Outputs of cells as HTML."""

from __future__ import annotations

import nbformat.v4
import pytest

from labkit.report.cells import CellPage


def rendered(text: str) -> str:
    cell = nbformat.v4.new_code_cell("1")
    cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    return CellPage().render([cell])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("10%\r100%\r", "100%"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("plain", "plain"),
    ],
)
def test_only_the_last_state_of_a_progress_bar_is_shown(text: str, shown: str) -> None:
    assert f">{shown}</pre>" in rendered(text)


@pytest.mark.timeout(20)
def test_line_of_five_megabytes_is_shown_in_linear_time() -> None:
    assert len(rendered("x" * 5_000_000)) > 5_000_000
