"""Lets nbval compare the stored outputs of tagged cells, which are committed without an execution count.

nbval 0.11 takes a cell without a count for one that was never run, and refuses to compare what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give each notebook cell with stored outputs a count of 0."""
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is not None and cell.get("outputs") and cell.execution_count is None:
            cell.execution_count = 0
