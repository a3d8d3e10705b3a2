"""Lets nbval compare the stored outputs of tagged cells, which are committed without an execution count.

nbval 0.11 takes a cell without a count for one that was never run, and refuses to compare what it holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from labkit.guest.missing import missing

IN_A_GUEST = frozenset({"33_a_real_driver.ipynb"})
"""Notebooks that start a QEMU guest. Without one they say what is missing, which is not what they store."""


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give each notebook cell with stored outputs a count of 0."""
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is not None and cell.get("outputs") and cell.execution_count is None:
            cell.execution_count = 0
        if item.path.name in IN_A_GUEST:
            item.add_marker(pytest.mark.vm)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs a guest where there can be none; never in CI, where it fails and says why."""
    if item.get_closest_marker("vm") and os.environ.get("CI") != "true" and (lacks := missing().command):
        pytest.skip(f"no QEMU guest here; {lacks}")
