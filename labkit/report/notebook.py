"""Cells of a notebook file; the only reader of nbformat in this room."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat.reader import NotJSONError

PAPERMILL_NOTE: Final = "papermill-error-cell-tag"
"""Tag of the cells that papermill adds where a run stopped."""

_READ: Any = nbformat.read


def cells(path: str | Path) -> list[Any]:
    """Cells of the notebook at `path`, without papermill's own error notes; ValueError when it is none."""
    try:
        read = _READ(path, as_version=4)
        return [cell for cell in read.cells if PAPERMILL_NOTE not in tags(cell)]
    except (AttributeError, KeyError, TypeError, NotJSONError, nbformat.ValidationError) as error:
        raise ValueError(f"no notebook: {error}") from error


def tags(cell: Any) -> list[str]:
    """Tags of a cell."""
    return list(cell.metadata.get("tags", []))
