"""May this code run as root? Not from a folder that others can write."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from labkit.errors import CapabilityMissingError

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def open_to_others(*paths: Path) -> list[Path]:
    """Those of `paths` and the folders above them that the group or anyone may write, the uppermost first.

    A sticky folder such as /tmp counts too: what is to lie in it can be made by anyone before.
    """
    whole = sorted({each for path in paths for each in (path, *path.parents)})
    return [each for each in whole if each.stat().st_mode & WRITABLE_BY_OTHERS]


def loaded_code() -> list[Path]:
    """Files of all modules that this process runs."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return [Path(file).resolve() for file in files if file and Path(file).exists()]


def refuse_open_code(code: Iterable[Path]) -> None:
    """Raise where others can write `code`, files that are about to act as root for a user.

    Raises
    ------
    CapabilityMissingError
        One of them, or a folder above, can be written by its group or by anyone.
    """
    if found := open_to_others(*code):
        raise CapabilityMissingError(
            f"agent: {found[0]} can be written by its group or by anyone, so whoever can write there could "
            f"act as root through sudo; `sudo .venv/bin/labkit install-agent` makes a copy for root alone"
        )
