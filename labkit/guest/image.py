"""The guest's kernel and initramfs in the cache, made once; the same machine until a rebuild is asked for.

A kernel that has appeared since changes nothing. What does: another package or list of modules asked for,
files that are damaged, and for the initramfs alone its init, busybox or the loader's cache of this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from labkit.errors import LabError
from labkit.guest import initramfs
from labkit.guest.cache_lock import WAIT_S, building
from labkit.guest.kernel import KERNEL_FILE, MODULES_FOLDER, make_kernel
from labkit.guest.missing import BUSYBOX, program
from labkit.guest.modules import NEEDED, WHERE_THERE
from labkit.guest.packages import KERNEL

LAYOUT: Final = 1
"""To be raised when what is made of the same package changes."""
MANIFEST: Final = "kernel.json"
KEPT_KERNELS, KEPT_INITRAMFS = 2, 4
ROOM_MB: Final = 700
"""What a build takes for a while: the package, all it holds, and the kernel."""


class GuestImage(msgspec.Struct, frozen=True, kw_only=True):
    """What QEMU starts.

    Attributes
    ----------
    kernel, initramfs : Path
        Files in the cache.
    release : str
        As ``uname -r`` says it in the guest.
    source : str
        Where the kernel is from: a package and its version, or a file of this machine.
    """

    kernel: Path
    initramfs: Path
    release: str
    source: str


class _File(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Of what a kernel's folder was made, and what must be in it."""

    package: str
    release: str
    source: str
    files: tuple[_File, ...]


def image(
    cache: Path,
    *,
    tell: Callable[[str], None],
    rebuild: bool = False,
    package: str = KERNEL,
    search: str | None = None,
    root: Path = Path("/"),
    wait_s: float = WAIT_S,
) -> GuestImage:
    """The guest's kernel and initramfs, made in folder `cache` when they are not there.

    Parameters
    ----------
    cache : Path
        Made where it is not there; all in it may be deleted at any time.
    tell : callable
        Called with a line for each step that takes time.
    rebuild : bool
        Take the newest kernel now.
    package : str
        Debian's package of the kernel, or one that depends on it.
    search : str or None
        Where programs are looked for; None for this process's PATH and the system's folders.
    root : Path
        Where an installed kernel and the loader's cache are.
    wait_s : float
        How long to wait for another process that builds.

    Raises
    ------
    CapabilityMissingError
        A program is missing, or no kernel is to be had.
    RigBusyError
        Another process builds and does not get done.
    LabError
        Something fetched is damaged, or the cache cannot be written.
    """
    busybox = Path(program(BUSYBOX, search))
    folder = cache / f"kernel-{_key(package)}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        manifest = None if rebuild else _intact(folder)
        if manifest is None:
            with building(cache, tell, wait_s), _replacing(folder) as made:
                manifest = None if rebuild else _intact(folder)  # the one waited for may have made it
                if manifest is None:
                    manifest = _make(made, package, tell, search, root)
            _prune(cache, "kernel-*", KEPT_KERNELS, folder)
        files = initramfs.entries(busybox, sorted((folder / MODULES_FOLDER).iterdir()), root)
        packed = _initramfs(cache, files)
    except OSError as refused:
        raise LabError(
            f"{cache}: the guest's kernel cannot be kept there ({refused.filename or 'while writing'}); make "
            f"{ROOM_MB} MB of room, or set XDG_CACHE_HOME to a folder of yours",
            errno=refused.errno,
        ) from refused
    except subprocess.TimeoutExpired as late:
        raise LabError(f"vm: {late.cmd[0]} was not done in {late.timeout:.0f} s; try again") from late
    return GuestImage(
        kernel=folder / KERNEL_FILE, initramfs=packed, release=manifest.release, source=manifest.source
    )


def _key(package: str) -> str:
    words = " ".join((str(LAYOUT), package, *NEEDED, "/", *WHERE_THERE))
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def _intact(folder: Path) -> _Manifest | None:
    """What was made there; None when it is not there or not as it was written."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest)
        same = manifest.files == _files(folder)
    except (OSError, msgspec.DecodeError):
        return None
    if not same:
        return None
    _used_now(folder)
    return manifest


def _files(folder: Path) -> tuple[_File, ...]:
    found = []
    for path in (folder / KERNEL_FILE, *sorted((folder / MODULES_FOLDER).iterdir())):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append(_File(str(path.relative_to(folder)), path.stat().st_size, digest))
    return tuple(found)


@contextlib.contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A folder to build in; put in the place of `folder` when it was built in, gone whatever happens."""
    for left in folder.parent.glob("building-*"):  # by one that was killed
        shutil.rmtree(left)
    made = folder.with_name(f"building-{os.getpid()}")
    made.mkdir()
    try:
        yield made
        if (made / MANIFEST).exists():
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _make(
    folder: Path, package: str, tell: Callable[[str], None], search: str | None, root: Path
) -> _Manifest:
    kernel = make_kernel(folder, package, tell, root=root, search=search)
    shutil.rmtree(folder / "work")
    files = _files(folder)
    manifest = _Manifest(package=package, release=kernel.release, source=kernel.source, files=files)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    for name in (*(file.path for file in files), MANIFEST):
        _synced(folder / name)
    tell(f"the guest's kernel is ready: {kernel.release} from {kernel.source}")
    return manifest


def _initramfs(cache: Path, files: list[initramfs.Entry]) -> Path:
    """The archive of these files, named by its own digest: one that is there and is that, is the one."""
    wanted = initramfs.recipe(files)
    path = cache / f"initramfs-{wanted[:12]}.cpio"
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
        half = path.with_suffix(f".{os.getpid()}")
        try:
            half.write_bytes(b"".join(initramfs.archive(files)))
            _synced(half)
            half.rename(path)
        finally:
            half.unlink(missing_ok=True)
        _prune(cache, "initramfs-*", KEPT_INITRAMFS, path)
    _used_now(path)
    return path


def _prune(cache: Path, pattern: str, kept: int, used: Path) -> None:
    """Remove those that were not used for longest."""
    others = sorted((path for path in cache.glob(pattern) if path != used), key=_used_at, reverse=True)
    for path in others[kept - 1 :]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _used_now(path: Path) -> None:
    with contextlib.suppress(OSError):  # a cache may be somebody else's
        os.utime(path)


def _used_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process has just removed it
        return 0.0


def _synced(path: Path) -> None:
    """Have it on the disk before it is renamed: after a power cut it is whole or not there."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
