"""A kernel is taken out of its bzImage whole or not at all, and its modules come in an order that loads."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.errors import CapabilityMissingError, LabError
from labkit.guest.bzimage import unpacked, vmlinux
from labkit.guest.modules import depends, in_order, module_name
from tests.guest_fakes import VMLINUX, bzimage, module, script, xz, zstd


def no_zstd() -> str:
    raise AssertionError("zstd was asked for")


@pytest.fixture
def fake_zstd(tmp_path: Path) -> Callable[[], str]:
    script(tmp_path, "zstd", "tail -c +5")
    return lambda: str(tmp_path / "zstd")


@pytest.mark.parametrize(
    "packed",
    [
        xz(VMLINUX),
        lzma.compress(VMLINUX, format=lzma.FORMAT_ALONE),
        bz2.compress(VMLINUX),
        gzip.compress(VMLINUX),
    ],
    ids=["xz", "lzma", "bzip2", "gzip"],
)
def test_kernel_comes_out_of_every_packing_that_python_knows(packed: bytes) -> None:
    assert vmlinux(bzimage(packed), no_zstd) == VMLINUX


def test_kernel_packed_with_zstd_is_unpacked_by_its_program(fake_zstd: Callable[[], str]) -> None:
    assert vmlinux(bzimage(zstd(VMLINUX)), fake_zstd) == VMLINUX


def test_program_that_refuses_is_quoted(tmp_path: Path) -> None:
    script(tmp_path, "zstd", "echo 'zstd: unexpected end' >&2; exit 1")
    with pytest.raises(LabError, match="damaged: zstd: unexpected end"):
        vmlinux(bzimage(zstd(VMLINUX)), lambda: str(tmp_path / "zstd"))


def flipped(packed: bytes) -> bytes:
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (b"", "no bzImage"),
        (b"\0" * 4096, "no bzImage"),
        (bzimage(xz(VMLINUX))[:-100], "packed bytes are there"),
        (bzimage(flipped(xz(VMLINUX))), "damaged"),
        (bzimage(xz(VMLINUX)[:-20]), "damaged"),
        (bzimage(flipped(gzip.compress(VMLINUX))), "damaged"),
        (bzimage(xz(VMLINUX), len(VMLINUX) + 1), "expected"),
        (bzimage(zstd(VMLINUX), len(VMLINUX) + 1), "expected"),
        (bzimage(xz(b"no ELF"), 6), "unknown way"),
        (bzimage(b"\x02\x21\x4c\x18" + VMLINUX), "unknown way.*02 21 4c 18"),
    ],
)
def test_damaged_or_unknown_kernel_is_refused(image: bytes, why: str, fake_zstd: Callable[[], str]) -> None:
    with pytest.raises(LabError, match=why):
        vmlinux(image, fake_zstd)


KERNEL = {
    "virtio": "",
    "virtio_ring": "virtio",
    "virtio_pci": "virtio_ring,virtio",
    "9pnet": "",
    "9pnet_virtio": "9pnet,virtio-ring",
    "netfs": "",
    "9p": "9pnet,netfs",
    "virtio_console": "virtio_ring",
    "e1000e": "ptp",
    "ptp": "pps_core",
    "pps_core": "",
    "pktgen": "",
    "veth": "",
    "snd": "",
}


def present(kernel: dict[str, str]) -> dict[str, Callable[[], bytes]]:
    return {name: lambda name=name: module(name, kernel[name]) for name in kernel}  # type: ignore[misc]


def test_each_module_comes_behind_those_it_needs_and_once() -> None:
    order = in_order(present(KERNEL), (), "here")
    names = [name for name, _ in order]
    assert sorted(names) == sorted(set(KERNEL) - {"snd"})
    for name, file in order:
        assert all(names.index(other) < names.index(name) for other in depends(file)), name


def test_module_inside_the_kernel_needs_no_file() -> None:
    kernel = {name: needs for name, needs in KERNEL.items() if name not in {"ptp", "virtio_console"}}
    names = [name for name, _ in in_order(present(kernel), {"ptp", "virtio_console"}, "here")]
    assert "e1000e" in names
    assert not {"ptp", "pps_core", "virtio_console"} & set(names)


@pytest.mark.parametrize(
    ("gone", "words"),
    [("pktgen", "no module pktgen;"), ("netfs", "no module netfs, which 9p needs"), ("9p", "no module 9p;")],
)
def test_kernel_that_lacks_a_module_is_named(gone: str, words: str) -> None:
    kernel = {name: needs for name, needs in KERNEL.items() if name != gone}
    with pytest.raises(CapabilityMissingError, match=f"^/boot/vmlinuz: has {words}"):
        in_order(present(kernel), (), "/boot/vmlinuz")


def test_files_are_modules_by_their_names() -> None:
    paths = ["kernel/net/9p/9pnet.ko", "a/virtio-pci.ko.xz", "a/x.ko.zst", "a/modules.dep", "a/b.ko.sig"]
    assert [module_name(path) for path in paths] == ["9pnet", "virtio_pci", "x", None, None]


def test_packed_module_is_unpacked_and_a_plain_one_left() -> None:
    assert unpacked(xz(b"\x7fELF module"), no_zstd) == b"\x7fELF module"
    assert unpacked(b"\x7fELF module", no_zstd) == b"\x7fELF module"
