"""Which file is perf: its name may be a script's that takes the running kernel's version only. Reads files."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for; the user's own PATH is not asked, for this process may be root."""
TOOLS: Final = Path("/usr/lib")
SCRIPT: Final = b"#!"
BESIDE: Final = "perf_[0-9]*"
"""Debian 11 and before: ``perf`` of linux-base runs the ``perf_VERSION`` of the running kernel."""
IN_TOOLS: Final = ("linux-tools/*/perf", "linux-tools-*/perf")
"""Ubuntu: ``perf`` of linux-tools-common runs that of the running kernel's linux-tools."""


def find_perf(searched: str = SEARCHED, tools: Path = TOOLS, release: str | None = None) -> str | None:
    """Path of a perf that runs on this kernel; None where there is none.

    Any perf samples any kernel of the last ten years: one of another version does, where the script of its
    name finds none of kernel `release` (None is the running one), as in a guest whose kernel is not the host's.
    """
    folders = [Path(folder) for folder in searched.split(":") if folder]
    plain = [folder / "perf" for folder in folders if _runs(folder / "perf")]
    programs = [path for path in plain if not _is_script(path)]
    if programs:
        return str(programs[0])
    others = [path for folder in folders for path in folder.glob(BESIDE)]
    others += [path for pattern in IN_TOOLS for path in tools.glob(pattern)]
    return _best([path for path in others if _runs(path) and not _is_script(path)], release)


def _best(programs: Iterable[Path], release: str | None) -> str | None:
    """The running kernel's own, else the newest."""
    running = platform.release() if release is None else release
    ranked = sorted(programs, key=lambda path: (running in str(path), _version(path), str(path)))
    return str(ranked[-1]) if ranked else None


def _version(path: Path) -> list[int]:
    named = path.name if path.name != "perf" else path.parent.name
    return [int(number) for number in re.findall(r"\d+", named)]


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SCRIPT)) == SCRIPT
    except OSError:
        return False
