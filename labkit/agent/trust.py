"""May this code run as root? Not from a folder that others can write."""

from __future__ import annotations

import stat
from pathlib import Path

from labkit.errors import CapabilityMissingError

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def open_to_others(path: Path) -> list[Path]:
    """Those of `path` and the folders above it that the group or anyone may write.

    A sticky folder such as /tmp counts too: what is to lie in it can be made by anyone before.
    """
    whole = [path, *path.parents]
    return [each for each in whole if each.stat().st_mode & WRITABLE_BY_OTHERS]


def refuse_open_folder(package: Path) -> None:
    """Raise where others can write `package`, the code that is about to act as root for a user.

    Raises
    ------
    CapabilityMissingError
        A folder of it can be written by its group or by anyone.
    """
    if found := open_to_others(package):
        raise CapabilityMissingError(
            f"agent: {found[0]} can be written by its group or by anyone, so whoever can write there could "
            f"act as root through sudo; `sudo labkit install-agent` makes a copy that only root can write"
        )
