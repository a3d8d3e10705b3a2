"""What the notebooks' cells need as tests: their stored outputs compared, a machine for those that emulate one.

nbval 0.11 takes a cell without a count for one that was never run, and refuses to compare what it holds.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

import pytest

from labkit.errors import LabError
from labkit.guest.image import image
from labkit.guest.missing import missing
from labkit.paths import cache_dir

IN_A_GUEST = frozenset({"31_pktgen.ipynb", "33_a_real_driver.ipynb"})
"""Notebooks that start a QEMU guest. Without one they say what is missing, which is not what they store."""


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give each cell with stored outputs a count of 0, and those that start a guest the marker ``vm``."""
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is not None and cell.get("outputs") and cell.execution_count is None:
            cell.execution_count = 0
        if item.path.name in IN_A_GUEST:
            item.add_marker(pytest.mark.vm)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the guest's kernel before the cell that starts it, which has a minute.

    Where there can be no guest its notebooks are left out; never in CI, where they fail and say why.
    """
    if item.get_closest_marker("vm"):
        if os.environ.get("CI") != "true" and (lacks := missing().command):
            pytest.skip(f"no QEMU guest here; {lacks}")
        if (why := no_image()) and os.environ.get("CI") != "true":
            pytest.skip(f"no QEMU guest here; {why}")


@functools.cache
def no_image() -> str | None:
    """Why there is no kernel for a guest, once it was tried to make one."""
    try:
        image(cache_dir() / "guest", tell=print)
    except LabError as refused:
        return str(refused)
    return None
