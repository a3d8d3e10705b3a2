"""The guest's kernel: Debian's newest package, else one that is installed here; vmlinux and its modules."""

from __future__ import annotations

import functools
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError, LabError
from labkit.guest import bzimage, packages
from labkit.guest.missing import ZSTD, program
from labkit.guest.modules import in_order, module_name

KERNEL_FILE: Final = "vmlinux"
MODULES_FOLDER: Final = "modules"
IMAGE: Final = re.compile(r"(?:boot/vmlinuz-|(?:usr/)?lib/modules/[^/]+/vmlinuz$)")
RELEASE: Final = re.compile(r"(?:usr/)?lib/modules/([^/]+)/")
BUILTIN: Final = "modules.builtin"

Read = Callable[[], bytes]


class KernelMade(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel as it was unpacked.

    Attributes
    ----------
    release : str
        As ``uname -r`` says it in the guest.
    source : str
        Package and version, or the file on this machine.
    """

    release: str
    source: str


class _Parts(msgspec.Struct, frozen=True):
    """A kernel where it was found: what reads its image and its modules."""

    release: str
    source: str
    image: Read
    modules: dict[str, Read]
    builtin: frozenset[str]


def make_kernel(
    folder: Path,
    package: str,
    tell: Callable[[str], None],
    *,
    root: Path = Path("/"),
    search: str | None = None,
) -> KernelMade:
    """Write ``vmlinux`` and ``modules/NN-NAME.ko`` of a kernel into `folder`, with `folder`/work to work in.

    Parameters
    ----------
    package : str
        Debian's package, or one that depends on it.
    root : Path
        Where an installed kernel is looked for when apt has none.

    Raises
    ------
    CapabilityMissingError
        There is no kernel to be had; the message says what was tried.
    LabError
        What was fetched is damaged, or there is no room.
    """
    work = folder / "work"
    work.mkdir()
    zstd = functools.partial(program, ZSTD, search)
    try:
        with ExitStack() as opened:
            try:
                parts = opened.enter_context(_from_apt(work, package, tell, search))
            except CapabilityMissingError as refused:
                parts = _from_here(root, refused, zstd)
                tell(f"{refused.message}; taking {parts.source} of this machine")
            return _written(folder, parts, zstd, tell)
    except tarfile.TarError as damaged:
        raise LabError(f"{package}: what dpkg-deb unpacked is damaged: {damaged}; try again") from damaged


def _written(folder: Path, parts: _Parts, zstd: Callable[[], str], tell: Callable[[str], None]) -> KernelMade:
    tell(f"unpacking kernel {parts.release} and its modules")
    modules = in_order(_unpacking(parts.modules, zstd), parts.builtin, parts.source)
    (folder / KERNEL_FILE).write_bytes(bzimage.vmlinux(parts.image(), zstd))
    (folder / MODULES_FOLDER).mkdir()
    for number, (name, file) in enumerate(modules):
        (folder / MODULES_FOLDER / f"{number:02}-{name}.ko").write_bytes(file)
    return KernelMade(release=parts.release, source=parts.source)


@contextmanager
def _from_apt(work: Path, package: str, tell: Callable[[str], None], search: str | None) -> Iterator[_Parts]:
    found = packages.kernel_packages(package, search)
    fetched = [packages.fetch(each, work, tell, search) for each in found]
    files: dict[str, Read] = {}
    with ExitStack() as opened:
        for deb in fetched:
            tell(f"opening {deb.name}")
            archive = deb.with_suffix(".tar")
            packages.contents(deb, archive, search)
            files |= _members(opened.enter_context(tarfile.open(archive, "r:")))
        yield _parts(files, ", ".join(f"{each.name} {each.version}" for each in found))


def _members(archive: tarfile.TarFile) -> dict[str, Read]:
    return {
        member.name.removeprefix("./"): functools.partial(_content, archive, member)
        for member in archive
        if member.isreg()
    }


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file is not None else b""


def _parts(files: dict[str, Read], source: str) -> _Parts:
    images = [path for path in files if IMAGE.match(path)]
    builtin = [path for path in files if RELEASE.match(path) and path.endswith("/" + BUILTIN)]
    if len(images) != 1 or len(builtin) != 1:
        raise LabError(
            f"{source}: holds {len(images)} kernels and {len(builtin)} module lists, not one of each; "
            f"ask for another package"
        )
    lines = files[builtin[0]]().decode().split()
    return _Parts(
        builtin[0].split("/")[-2],
        source,
        files[images[0]],
        {name: read for path, read in files.items() if (name := module_name(path))},
        frozenset(filter(None, map(module_name, lines))),
    )


def _from_here(root: Path, refused: CapabilityMissingError, zstd: Callable[[], str]) -> _Parts:
    """The newest kernel installed here that has all that is needed."""
    tried = []
    for image in sorted((root / "boot").glob("vmlinuz-*"), key=_age, reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        modules = root / "lib/modules" / release
        try:
            image.open("rb").close()  # often root's alone
            files: dict[str, Read] = {
                f"lib/modules/{release}/{path.relative_to(modules)}": path.read_bytes
                for path in (modules / BUILTIN, *modules.glob("kernel/**/*.ko*"))
            }
            parts = _parts(files | {f"boot/{image.name}": image.read_bytes}, str(image))
            in_order(_unpacking(parts.modules, zstd), parts.builtin, parts.source)
        except (OSError, LabError) as unfit:
            tried.append(str(unfit))
        else:
            return parts
    here = "; ".join(tried) or f"no kernel is installed in {root / 'boot'}"
    raise CapabilityMissingError(
        f"{refused.message}; and none of this machine's own serves: {here}"
    ) from refused


def _unpacking(modules: dict[str, Read], zstd: Callable[[], str]) -> dict[str, Read]:
    """The same, for modules that a distribution keeps packed."""
    return {name: functools.partial(_unpacked, read, zstd) for name, read in modules.items()}


def _unpacked(read: Read, zstd: Callable[[], str]) -> bytes:
    return bzimage.unpacked(read(), zstd)


def _age(path: Path) -> float:
    return path.stat().st_mtime
