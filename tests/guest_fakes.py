"""A fake Debian for the guest's image: apt and dpkg-deb as scripts, kernels of a few bytes."""

from __future__ import annotations

import hashlib
import io
import lzma
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

from labkit.guest.bzimage import ZSTD

VMLINUX = b"\x7fELF" + b"the kernel proper " * 40
STATIC_ELF = b"\x7fELF\x02\x01\x01".ljust(64, b"\0")
META, RELEASE = "linux-image-amd64", "6.1.0-1-amd64"
MODULES: dict[str, str] = {
    "net/9p/9pnet": "",
    "net/9p/9pnet_virtio": "9pnet,virtio_ring",
    "fs/9p/9p": "9pnet,netfs",
    "fs/netfs/netfs": "",
    "drivers/virtio/virtio_ring": "",
    "drivers/virtio/virtio_pci": "virtio_ring,virtio-pci-legacy-dev",
    "drivers/virtio/virtio_pci_legacy_dev": "",
    "drivers/net/ethernet/intel/e1000e/e1000e": "ptp",
    "net/core/pktgen": "",
    "drivers/net/veth": "",
    "sound/unwanted": "",
}
BUILTIN = "kernel/drivers/char/virtio_console.ko\nkernel/drivers/ptp/ptp.ko\n"


def module(name: str, depends: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0name=" + name.encode() + b"\0"


def xz(text: bytes) -> bytes:
    return lzma.compress(text, check=lzma.CHECK_CRC32)


def zstd(text: bytes) -> bytes:
    """What `fake_zstd` unpacks."""
    return ZSTD + text


def bzimage(packed: bytes, unpacked_bytes: int = len(VMLINUX)) -> bytes:
    """A bzImage with one sector of set-up and a payload some bytes behind it."""
    payload = packed + unpacked_bytes.to_bytes(4, "little")
    head = bytearray(0x400)
    head[0x1F1], head[0x202:0x206] = 1, b"HdrS"
    struct.pack_into("<II", head, 0x248, 16, len(payload))
    return bytes(head) + b"\0" * 16 + payload + b"what follows"


def kernel_files(
    release: str = RELEASE, image: bytes | None = None, modules: Mapping[str, str] = MODULES
) -> dict[str, bytes]:
    """Path to content of what a kernel package installs."""
    folder = f"lib/modules/{release}"
    return {
        f"boot/vmlinuz-{release}": bzimage(xz(VMLINUX)) if image is None else image,
        f"{folder}/modules.builtin": BUILTIN.encode(),
        **{
            f"{folder}/kernel/{path}.ko": module(path.rpartition("/")[2], depends)
            for path, depends in modules.items()
        },
    }


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


class Debian:
    """Programs in `folder`, found by `search`; `pool` is what apt knows and can fetch."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.pool, self.root = folder / "programs", folder / "pool", folder / "root"
        for made in (self.programs, self.pool, self.root):
            made.mkdir()
        self.search = str(self.programs)
        self.log = folder / "log"
        (self.programs / "busybox").write_bytes(STATIC_ELF)
        (self.programs / "busybox").chmod(0o755)
        last = 'for last in "$@"; do :; done'
        script(
            self.programs,
            "apt-cache",
            f'{last}; cat "{self.pool}/$last.txt" 2>/dev/null && exit\n'
            'echo "E: No packages found" >&2; exit 100',
        )
        script(
            self.programs,
            "apt-get",
            f'{last}; echo "$last" >>{self.log}; name=${{last%%=*}} version=${{last#*=}}\n'
            f'cp "{self.pool}/$name.deb" "${{name}}_${{version}}_amd64.deb"',
        )
        script(self.programs, "dpkg-deb", 'cat "$2"')
        script(self.programs, "zstd", "tail -c +5")
        self.offers(RELEASE, "6.1.1-1", kernel_files())

    def offers(self, release: str, version: str, files: Mapping[str, bytes]) -> None:
        """Let apt's newest kernel be this one."""
        name = f"linux-image-{release}"
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path, content in files.items():
                member = tarfile.TarInfo(f"./{path}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        deb = archive.getvalue()
        (self.pool / f"{name}.deb").write_bytes(deb)
        self._knows(META, version, b"", f"{name} (= {version})")
        self._knows(name, version, deb, "kmod, linux-base (>= 4.3~), initramfs-tools | linux-initramfs-tool")

    def installs(self, release: str, files: Mapping[str, bytes]) -> None:
        """Let this kernel be installed on the machine itself."""
        for path, content in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)

    def fetched(self) -> list[str]:
        """What apt-get was asked to download until now."""
        return self.log.read_text().split() if self.log.exists() else []

    def _knows(self, name: str, version: str, deb: bytes, depends: str) -> None:
        (self.pool / f"{name}.txt").write_text(
            f"Package: {name}\nVersion: {version}\nDepends: {depends}\nSize: {len(deb)}\n"
            f"SHA256: {hashlib.sha256(deb).hexdigest()}\nDescription: a kernel\n more of it\n\n"
        )
