"""What the notebooks' cells need as tests: their stored outputs compared, and a machine for those that emulate one.

nbval 0.11 takes a cell without a count for one that was never run, and refuses to compare what it holds.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

MACHINE = 'rig_name: str = \\"vm:'
"""Stands in the file of a notebook whose rig is an emulated machine."""


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give each cell with stored outputs a count of 0, and those of an emulated machine the marker ``vm``.

    Where a program for that is missing they are skipped, but not in CI: what a cell says then is compared.
    """
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is None:
            continue
        if cell.get("outputs") and cell.execution_count is None:
            cell.execution_count = 0
        if needs_machine(item.path):
            item.add_marker("vm")
            if os.environ.get("CI") != "true" and (lacking := missing_program()):
                item.add_marker(pytest.mark.skip(reason=f"no {lacking}: make system-packages"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the machine's kernel before the cell that opens it, which has a minute."""
    if hasattr(item, "cell") and item.get_closest_marker("vm"):
        make_image()


@functools.cache
def needs_machine(notebook: Path) -> bool:
    return MACHINE in notebook.read_text()


@functools.cache
def missing_program() -> str | None:
    from labkit.guest.missing import missing

    return next(iter(missing().programs), None)


@functools.cache
def make_image() -> None:
    from labkit.errors import LabError
    from labkit.guest.image import image
    from labkit.paths import cache_dir

    with contextlib.suppress(LabError):  # the cell tells it
        image(cache_dir() / "guest", tell=print)
