"""Debian's kernel package: which one it is, fetched by apt and opened, as any user, nothing installed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from labkit.errors import CapabilityMissingError, LabError
from labkit.guest.missing import search_path

KERNEL: Final = "linux-image-amd64"
"""Debian's name for the newest kernel; it has nothing itself but depends on that one."""
PARTS: Final = re.compile(r"linux-(?:image|modules|binary)-[a-z0-9.+~-]+")
"""Packages that hold parts of a kernel."""
MOST_PARTS: Final = 8
ASK_WITHIN_S, FETCH_WITHIN_S, UNPACK_WITHIN_S = 60, 900, 300
TELL_EVERY_S: Final = 5
PATIENCE: Final = tuple(
    f"-oAcquire::{option}" for option in ("http::Timeout=30", "https::Timeout=30", "Retries=2")
)


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """One package as apt knows it."""

    name: str
    version: str
    bytes: int
    sha256: str
    depends: tuple[str, ...]


def kernel_packages(name: str, search: str | None = None) -> list[Package]:
    """The packages that hold the kernel of package `name`: itself, or what it depends on.

    Raises
    ------
    CapabilityMissingError
        There is no apt, or it does not know such a package; in apt's own words.
    """
    todo, seen, found = [name], {name}, []
    while todo and len(seen) <= MOST_PARTS:
        package = _known(todo.pop(0), search)
        parts = [part for part in package.depends if part not in seen]
        seen |= set(parts)
        todo += parts
        if not any(part.startswith("linux-image-") for part in package.depends):
            found.append(package)
    return found


def fetch(package: Package, folder: Path, tell: Callable[[str], None], search: str | None = None) -> Path:
    """The package's file in `folder`, downloaded and checked by apt.

    Raises
    ------
    CapabilityMissingError
        Apt could not fetch it; in its own words.
    LabError
        The file is not what apt's lists say.
    """
    size = f"{package.bytes / 2**20:.0f} MB"
    tell(f"downloading {package.name} {package.version}, {size}")
    command = [_tool("apt-get", search), "-q", *PATIENCE, *_unsandboxed()]
    words, status = _followed(
        [*command, "download", f"{package.name}={package.version}"],
        folder,
        lambda: tell(f"downloading {package.name}: {_bytes_in(folder) / 2**20:.0f} of {size}"),
    )
    files = list(folder.glob(f"{package.name}_*.deb"))
    if status or len(files) != 1:
        raise CapabilityMissingError(
            f"vm: apt-get download {package.name}={package.version} failed: {_gist(words)}; "
            f"where its lists are old, `sudo apt-get update` and try again"
        )
    with files[0].open("rb") as deb:
        if hashlib.file_digest(deb, "sha256").hexdigest() != package.sha256:
            raise LabError(f"{files[0].name}: is not the file that apt's lists name; try again")
    return files[0]


def contents(deb: Path, target: Path, search: str | None = None) -> None:
    """Write what package file `deb` would install as a tar archive to `target`.

    Raises
    ------
    LabError
        The file is damaged or there is no room; in dpkg-deb's words.
    """
    with target.open("wb") as archive:
        done = subprocess.run(
            [_tool("dpkg-deb", search), "--fsys-tarfile", str(deb)],
            stdin=subprocess.DEVNULL,
            stdout=archive,
            stderr=subprocess.PIPE,
            timeout=UNPACK_WITHIN_S,
            check=False,
            env=_environment(),
        )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()
        raise LabError(f"{deb.name}: cannot be unpacked: {words or f'status {done.returncode}'}; try again")


def _known(name: str, search: str | None) -> Package:
    command = [_tool("apt-cache", search), "show", "--no-all-versions", name]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_WITHIN_S,
            check=False,
            env=_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as refused:
        raise CapabilityMissingError(f"vm: apt-cache show {name} failed: {refused}") from refused
    fields = dict(
        re.findall(r"^([A-Za-z0-9-]+): (.*)$", done.stdout.partition("\n\n")[0], flags=re.MULTILINE)
    )
    try:
        return Package(
            name=fields["Package"],
            version=fields["Version"],
            bytes=int(fields["Size"]),
            sha256=fields["SHA256"],
            depends=tuple(dict.fromkeys(PARTS.findall(fields.get("Depends", "")))),
        )
    except (KeyError, ValueError) as absent:
        raise CapabilityMissingError(
            f"vm: apt knows no package {name} that it could download "
            f"({_gist(done.stderr) or f'no {absent} told'}); `sudo apt-get update` and try again"
        ) from absent


def _followed(command: list[str], folder: Path, tell: Callable[[], None]) -> tuple[str, int]:
    """What a command that may take minutes said and its status, with word of it meanwhile."""
    deadline = time.monotonic() + FETCH_WITHIN_S
    said = folder / "said"
    with said.open("wb") as output, _started(command, folder, output) as process:
        while True:
            try:
                process.wait(TELL_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    process.kill()
                    return f"not done in {FETCH_WITHIN_S} s", 1
            tell()
    return said.read_text(errors="replace"), process.returncode


@contextlib.contextmanager
def _started(command: list[str], folder: Path, output: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _tool(name: str, search: str | None) -> str:
    if found := shutil.which(name, path=search_path() if search is None else search):
        return found
    raise CapabilityMissingError(f"vm: there is no {name} here (Debian's package manager has it)")


def _unsandboxed() -> tuple[str, ...]:
    # as root apt would drop to a user of its own, which cannot write to a cache that is root's alone
    return ("-oAPT::Sandbox::User=root",) if os.geteuid() == 0 else ()


def _environment() -> dict[str, str]:
    return dict(os.environ) | {"LC_ALL": "C", "PATH": search_path()}


def _gist(words: str) -> str:
    """The errors among a tool's words, else their last line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "dpkg"))]
    return "; ".join(errors or lines[-1:])


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*.deb"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total
