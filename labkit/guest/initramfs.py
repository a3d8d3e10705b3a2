"""The guest's first file system: busybox, modules, init and a small /etc, as one cpio archive."""

from __future__ import annotations

import hashlib
import importlib.resources
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

APPLETS: Final = "cat chmod chroot cp grep hostname insmod ip ln mkdir mount poweroff sed sh sleep".split()
"""Names under which init.sh calls busybox."""
FOLDERS: Final = ("bin", "dev", "etc", "modules", "proc", "root", "sys")
ETC: Final = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "group": "root:x:0:\n",
    "hosts": "127.0.0.1 localhost labkit-guest\n::1 localhost\n",
    "hostname": "labkit-guest\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
LOADER_CACHE: Final = "etc/ld.so.cache"
"""Where the dynamic loader finds libraries outside its default folders, such as /usr/local/lib (ld.so(8))."""


class Entry(NamedTuple):
    """One file of the archive; a link's content is its target."""

    path: str
    mode: int
    content: bytes = b""


def init_script() -> bytes:
    """Text of ``init.sh``."""
    return (importlib.resources.files("labkit.guest") / "init.sh").read_bytes()


def entries(busybox: Path, modules: Sequence[Path], root: Path = Path("/")) -> list[Entry]:
    """All files of the initramfs, folders before what is in them.

    Parameters
    ----------
    busybox : Path
        A static one.
    modules : sequence of Path
        In the order of their insertion, which is that of their names.
    root : Path
        Whose loader's cache the guest gets, for it runs the programs of that system.
    """
    folder, link = stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777
    program, plain = stat.S_IFREG | 0o755, stat.S_IFREG | 0o644
    cache = root / LOADER_CACHE
    return [
        *(Entry(path, folder) for path in FOLDERS),
        Entry("init", program, init_script()),
        Entry("bin/busybox", program, busybox.read_bytes()),
        *(Entry(f"bin/{name}", link, b"busybox") for name in APPLETS),
        *(Entry(f"modules/{path.name}", plain, path.read_bytes()) for path in sorted(modules)),
        *(Entry(f"etc/{name}", plain, text.encode()) for name, text in ETC.items()),
        *([Entry(LOADER_CACHE, plain, cache.read_bytes())] if cache.exists() else []),
    ]


def recipe(files: Sequence[Entry]) -> str:
    """Hexadecimal digest of all that the archive is made of."""
    digest = hashlib.sha256()
    for part in archive(files):
        digest.update(part)
    return digest.hexdigest()


def archive(files: Sequence[Entry]) -> Iterator[bytes]:
    """The archive in pieces, format newc (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    for inode, file in enumerate(files, 1):
        yield from _record(inode, file)
    yield from _record(0, Entry("TRAILER!!!", 0))


def _record(inode: int, file: Entry) -> Iterator[bytes]:
    name = file.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(file.mode) else 1
    # inode, mode, uid, gid, links, mtime, bytes, device and rdev (major, minor each), name's bytes, check
    fields = (inode, file.mode, 0, 0, links, 0, len(file.content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    yield head + b"\0" * (-len(head) % 4)
    yield file.content + b"\0" * (-len(file.content) % 4)
