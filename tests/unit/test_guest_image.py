"""The guest's image is made once, stays the same machine until asked, and is never left half made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import CapabilityMissingError, LabError, RigBusyError
from labkit.guest import initramfs
from labkit.guest.image import GuestImage, image
from tests.guest_fakes import (
    MODULES,
    RELEASE,
    STATIC_ELF,
    VMLINUX,
    Debian,
    bzimage,
    kernel_files,
    script,
    xz,
    zstd,
)

FETCH = f"linux-image-{RELEASE}=6.1.1-1"
NEWER = "6.1.0-2-amd64"


@pytest.fixture
def debian(tmp_path: Path) -> Debian:
    return Debian(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "guest"


def make(debian: Debian, cache: Path, told: list[str] | None = None, **options: Any) -> GuestImage:
    tell = (told if told is not None else []).append
    return image(cache, tell=tell, search=debian.search, root=debian.root, **options)


def left_over(cache: Path) -> list[str]:
    """What is in the cache beside finished images and the lock."""
    names = {path.name for path in cache.iterdir()} - {"lock"}
    return sorted(name for name in names if not name.startswith(("kernel-", "initramfs-")))


def members(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Path to mode and content, in order, of a cpio archive in format newc."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
        mode, size, name_bytes = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_bytes - 1].decode()
        at = (at + 110 + name_bytes + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[at : at + size])
        at = (at + size + 3) & ~3


def test_image_is_the_kernel_that_apt_has_and_its_modules(debian: Debian, cache: Path) -> None:
    told: list[str] = []
    made = make(debian, cache, told)
    assert made.kernel.read_bytes() == VMLINUX
    assert (made.release, made.source) == (RELEASE, f"linux-image-{RELEASE} 6.1.1-1")
    assert debian.fetched() == [FETCH]
    assert [line.partition(" ")[0] for line in told] == ["downloading", "opening", "unpacking", "the"]
    assert left_over(cache) == []
    files = members(made.initramfs.read_bytes())
    modules = [path for path in files if path.startswith("modules/")]
    assert modules == sorted(modules)
    names = [path.partition("-")[2].removesuffix(".ko") for path in modules]
    wanted = {path.rpartition("/")[2] for path in MODULES} - {"unwanted"}
    assert sorted(names) == sorted(wanted)
    assert names.index("virtio_ring") < names.index("virtio_pci")


def test_initramfs_has_an_init_and_every_folder_before_what_is_in_it(debian: Debian, cache: Path) -> None:
    (debian.root / "etc").mkdir()
    (debian.root / "etc/ld.so.cache").write_bytes(b"where libraries are")
    files = members(make(debian, cache).initramfs.read_bytes())
    seen: set[str] = set()
    for path, (mode, _) in files.items():
        assert "/" not in path or path.rpartition("/")[0] in seen, path
        seen |= {path} if stat.S_ISDIR(mode) else set()
    assert files["init"] == (stat.S_IFREG | 0o755, initramfs.init_script())
    assert files["bin/busybox"] == (stat.S_IFREG | 0o755, STATIC_ELF)
    assert files["bin/sh"] == (stat.S_IFLNK | 0o777, b"busybox")
    assert files["etc/ld.so.cache"][1] == b"where libraries are"


def test_init_is_a_script_that_a_shell_reads() -> None:
    subprocess.run(["/bin/sh", "-n"], input=initramfs.init_script(), timeout=20, check=True)


def test_kernel_that_appeared_since_is_taken_when_asked_only(debian: Debian, cache: Path) -> None:
    first = make(debian, cache)
    debian.offers(NEWER, "6.1.2-1", kernel_files(NEWER))
    told: list[str] = []
    assert make(debian, cache, told) == first
    assert told == []
    assert make(debian, cache, rebuild=True).release == NEWER
    assert make(debian, cache).release == NEWER
    assert debian.fetched() == [FETCH, f"linux-image-{NEWER}=6.1.2-1"]


def test_rebuild_that_fails_leaves_the_kernel_that_was_there(debian: Debian, cache: Path) -> None:
    first = make(debian, cache)
    (debian.programs / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    with pytest.raises(CapabilityMissingError):
        make(debian, cache, rebuild=True)
    assert make(debian, cache) == first
    assert first.kernel.read_bytes() == VMLINUX


def test_other_package_is_another_kernel_beside_the_first(debian: Debian, cache: Path) -> None:
    first = make(debian, cache)
    debian.offers(NEWER, "6.1.2-1", kernel_files(NEWER))
    assert make(debian, cache, package=f"linux-image-{NEWER}").release == NEWER
    assert make(debian, cache) == first
    assert first.kernel.exists()


def test_other_busybox_makes_the_initramfs_anew_from_the_same_kernel(debian: Debian, cache: Path) -> None:
    first = make(debian, cache)
    (debian.programs / "busybox").write_bytes(STATIC_ELF + b"another one")
    second = make(debian, cache)
    assert second.kernel == first.kernel
    assert members(second.initramfs.read_bytes())["bin/busybox"][1] == STATIC_ELF + b"another one"
    assert debian.fetched() == [FETCH]


def test_only_the_last_images_are_kept(debian: Debian, cache: Path) -> None:
    for number in range(7):
        (debian.programs / "busybox").write_bytes(STATIC_ELF + bytes([number]))
        debian.offers(f"6.1.0-{number}-amd64", "1", kernel_files(f"6.1.0-{number}-amd64"))
        made = make(debian, cache, package=f"linux-image-6.1.0-{number}-amd64")
        assert made.kernel.exists()
        assert made.initramfs.exists()
    assert len(list(cache.glob("kernel-*"))) == 2
    assert len(list(cache.glob("initramfs-*"))) == 4


@pytest.mark.parametrize("harm", ["cut", "changed", "gone", "module gone", "manifest"])
def test_damaged_kernel_is_made_again(debian: Debian, cache: Path, harm: str) -> None:
    made = make(debian, cache)
    modules = sorted((made.kernel.parent / "modules").iterdir())
    match harm:
        case "cut":
            os.truncate(made.kernel, 10)
        case "changed":
            made.kernel.write_bytes(VMLINUX[:-1] + b"x")
        case "gone":
            made.kernel.unlink()
        case "module gone":
            modules[0].unlink()
        case "manifest":
            (made.kernel.parent / "kernel.json").write_text("{")
    assert make(debian, cache) == made
    assert made.kernel.read_bytes() == VMLINUX
    assert sorted((made.kernel.parent / "modules").iterdir()) == modules
    assert debian.fetched() == [FETCH, FETCH]


@pytest.mark.parametrize("harm", [b"", b"something else"])
def test_damaged_initramfs_is_made_again_without_a_download(debian: Debian, cache: Path, harm: bytes) -> None:
    made = make(debian, cache)
    whole = made.initramfs.read_bytes()
    made.initramfs.write_bytes(harm)
    assert make(debian, cache) == made
    assert made.initramfs.read_bytes() == whole
    assert debian.fetched() == [FETCH]


def test_without_apt_an_installed_kernel_that_can_serve_does(debian: Debian, cache: Path) -> None:
    (debian.programs / "apt-cache").unlink()
    unfit = {path: depends for path, depends in MODULES.items() if "pktgen" not in path}
    debian.installs(NEWER, kernel_files(NEWER, modules=unfit))
    debian.installs(RELEASE, kernel_files())
    os.utime(debian.root / f"boot/vmlinuz-{RELEASE}", (1, 1))  # the older one
    told: list[str] = []
    made = make(debian, cache, told)
    image_file = f"{debian.root}/boot/vmlinuz-{RELEASE}"
    assert (made.release, made.source, made.kernel.read_bytes()) == (RELEASE, image_file, VMLINUX)
    assert told[0].startswith("vm: there is no apt-cache here")
    assert told[0].endswith(f"; taking {image_file} of this machine")


def test_without_any_kernel_the_error_has_apts_words_and_what_to_do(debian: Debian, cache: Path) -> None:
    (debian.pool / "linux-image-amd64.txt").unlink()
    unfit = {path: depends for path, depends in MODULES.items() if "pktgen" not in path}
    debian.installs(NEWER, kernel_files(NEWER, modules=unfit))
    with pytest.raises(CapabilityMissingError) as caught:
        make(debian, cache)
    said = str(caught.value)
    assert "apt knows no package linux-image-amd64" in said
    assert "E: No packages found" in said
    assert "sudo apt-get update" in said
    assert f"vmlinuz-{NEWER}: has no module pktgen" in said
    assert left_over(cache) == []


def test_download_that_fails_is_told_in_apts_words(debian: Debian, cache: Path) -> None:
    script(debian.programs, "apt-get", "echo Reading; echo 'E: Failed to fetch x  404  Not Found'; exit 100")
    with pytest.raises(
        CapabilityMissingError, match=r"E: Failed to fetch x  404  Not Found; .*apt-get update"
    ):
        make(debian, cache)
    assert left_over(cache) == []


def test_file_that_is_not_what_apt_lists_is_refused(debian: Debian, cache: Path) -> None:
    deb = debian.pool / f"linux-image-{RELEASE}.deb"
    deb.write_bytes(deb.read_bytes() + b"more")
    with pytest.raises(LabError, match="is not the file that apt's lists name"):
        make(debian, cache)
    assert left_over(cache) == []


def test_package_that_cannot_be_unpacked_is_told_in_the_tools_words(debian: Debian, cache: Path) -> None:
    script(debian.programs, "dpkg-deb", "echo 'dpkg-deb: error: unexpected end of file' >&2; exit 2")
    with pytest.raises(LabError, match="cannot be unpacked: dpkg-deb: error: unexpected end of file"):
        make(debian, cache)
    assert left_over(cache) == []
    script(debian.programs, "dpkg-deb", 'head -c 700 "$2"')
    with pytest.raises(LabError, match="what dpkg-deb unpacked is damaged"):
        make(debian, cache)
    assert left_over(cache) == []


def test_package_without_a_kernel_is_refused(debian: Debian, cache: Path) -> None:
    debian.offers(RELEASE, "6.1.1-1", {"usr/share/doc/copyright": b"mine"})
    with pytest.raises(LabError, match="holds 0 kernels"):
        make(debian, cache)
    assert left_over(cache) == []


def test_kernel_that_wants_zstd_says_so_where_there_is_none(debian: Debian, cache: Path) -> None:
    debian.offers(RELEASE, "6.1.1-1", kernel_files(image=bzimage(zstd(VMLINUX))))
    (debian.programs / "zstd").rename(debian.programs / "away")
    with pytest.raises(CapabilityMissingError, match=r"needs .*zstd.*apt-get install"):
        make(debian, cache)
    (debian.programs / "away").rename(debian.programs / "zstd")
    assert make(debian, cache).kernel.read_bytes() == VMLINUX


def test_damaged_kernel_in_the_package_is_refused(debian: Debian, cache: Path) -> None:
    debian.offers(RELEASE, "6.1.1-1", kernel_files(image=bzimage(xz(VMLINUX)[:-30])))
    with pytest.raises(LabError, match="the kernel is damaged"):
        make(debian, cache)
    assert left_over(cache) == []


def test_cache_that_cannot_be_made_names_a_way_out(debian: Debian, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="XDG_CACHE_HOME") as caught:
        make(debian, tmp_path / "file" / "guest")
    assert caught.value.errno is not None


@contextlib.contextmanager
def held(cache: Path, pid: str) -> Iterator[None]:
    cache.mkdir(parents=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(pid)
        lock.flush()
        yield


def test_cache_in_which_another_builds_is_waited_for_so_long_only(debian: Debian, cache: Path) -> None:
    told: list[str] = []
    with held(cache, "4711"), pytest.raises(RigBusyError, match=r"another labkit .pid 4711. builds"):
        make(debian, cache, told, wait_s=0.0)
    with held(cache.with_name("second"), "4711"), pytest.raises(RigBusyError, match="was not done in"):
        make(debian, cache.with_name("second"), told, wait_s=0.01)
    assert told == ["another labkit (pid 4711) builds the guest's kernel; waiting for it"]
    assert debian.fetched() == []


def test_of_two_at_once_one_builds_and_both_have_it(debian: Debian, cache: Path) -> None:
    os.mkfifo(debian.pool / "gate")
    fetch = (debian.programs / "apt-get").read_text()
    script(debian.programs, "apt-get", f"read go <{debian.pool}/gate\n{fetch}")
    waiting = threading.Event()
    made: list[GuestImage] = []

    def tell(line: str) -> None:
        if line.startswith("another labkit"):
            waiting.set()

    def build() -> None:
        made.append(image(cache, tell=tell, search=debian.search, root=debian.root))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waiting.wait(20)
    (debian.pool / "gate").write_text("go\n")
    for thread in threads:
        thread.join(20)
    assert made == [made[0]] * 2
    assert debian.fetched() == [FETCH]


BUILD = """
import sys
from pathlib import Path
from labkit.guest.image import image
cache, search, root = sys.argv[1:]
image(Path(cache), tell=lambda line: print(line, flush=True), search=search, root=Path(root))
"""


def test_build_that_is_killed_leaves_nothing_that_the_next_one_does_not_remove(
    debian: Debian, cache: Path
) -> None:
    os.mkfifo(debian.pool / "gate")
    fetch = (debian.programs / "apt-get").read_text()
    script(debian.programs, "apt-get", f"echo started >here.deb; read go <{debian.pool}/gate")
    words = [sys.executable, "-c", BUILD, str(cache), debian.search, str(debian.root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        assert build.stdout.readline().startswith("downloading")
        with (debian.pool / "gate").open("w"):  # opens when apt-get reads from there, which ends with this
            build.send_signal(signal.SIGKILL)
            build.wait(20)
    (left,) = left_over(cache)
    assert left == f"building-{build.pid}"
    (debian.programs / "apt-get").write_text(fetch)
    made = make(debian, cache)
    assert made.kernel.read_bytes() == VMLINUX
    assert left_over(cache) == []
