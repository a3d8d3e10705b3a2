"""Which file is perf: its name may be a script's that takes the running kernel's alone. Reads files."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for; the user's own PATH is not asked, for this process may be root."""
LIBRARIES: Final = Path("/usr/lib")
SCRIPT: Final = b"#!"
BESIDE: Final = "perf_[0-9]*"
"""Debian 11 and before: ``perf`` of linux-base runs the ``perf_VERSION`` of the running kernel."""
TOOLS: Final = "linux-tools"
"""Ubuntu: ``perf`` of linux-tools-common runs that of the running kernel's folder of this name."""


def find_perf(
    searched: str = SEARCHED, libraries: Path = LIBRARIES, release: str | None = None
) -> str | None:
    """Path of perf; None where there is none.

    A perf of another version samples as well: it is taken where a script finds none of kernel `release` (None
    is the running one), as in a guest, whose kernel is not the host's.
    """
    found = shutil.which("perf", path=searched)
    if found is None:
        return None
    running = platform.release() if release is None else release
    programs = [path for path in _meant(Path(found), libraries) if shutil.which(path) and not _script(path)]
    # the running kernel's own, else the newest
    ranked = sorted(programs, key=lambda path: (running in str(path), _version(path), str(path)))
    return str(ranked[-1]) if ranked else found


def _meant(found: Path, libraries: Path) -> Iterator[Path]:
    """Programs of which a script chooses."""
    text = _script(found)
    if text:
        yield from found.parent.glob(BESIDE)
    if TOOLS.encode() in text:
        yield from libraries.glob(f"{TOOLS}/*/perf")
        yield from libraries.glob(f"{TOOLS}-*/perf")


def _version(path: Path) -> list[int]:
    named = path.name if path.name != "perf" else path.parent.name
    return [int(number) for number in re.findall(r"\d+", named)]


def _script(path: Path) -> bytes:
    """The text of a script; nothing of a program."""
    with path.open("rb") as file:
        return file.read() if file.read(len(SCRIPT)) == SCRIPT else b""
