"""What a guest needs and is not here is named once, with the one command that installs it."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import CapabilityMissingError, LabError, WorkloadError
from labkit.guest.missing import check_processor, missing, nic_device, program, search_path
from labkit.guest.words import LONGEST_BYTES, kernel_words
from labkit.paths import cache_dir
from tests.guest_fakes import STATIC_ELF, script

QEMU_HELP = """\
Controller/Bridge/Hub devices:
name "igb-like", bus PCI

Network devices:
name "e1000", bus PCI, alias "e1000-82540em", desc "Intel Gigabit Ethernet"
name "e1000e", bus PCI, desc "Intel 82574L GbE Controller"
name "virtio-net-pci", bus PCI, alias "virtio-net"
"""


def install(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o755)


def dynamic_elf() -> bytes:
    """A 64-bit ELF file whose one program header asks for an interpreter."""
    head = bytearray(STATIC_ELF)
    struct.pack_into("<Q", head, 32, len(head))
    struct.pack_into("<HH", head, 54, 56, 1)
    return bytes(head) + struct.pack("<I", 3).ljust(56, b"\0")


def test_another_processor_is_no_place_for_a_guest() -> None:
    check_processor("x86_64")
    with pytest.raises(CapabilityMissingError, match="this is aarch64; take rig 'veth'"):
        check_processor("aarch64")


def test_bare_machine_is_told_one_command_for_all_of_it(tmp_path: Path) -> None:
    lacking = missing(search=str(tmp_path), uid=1000)
    assert lacking.programs == ("qemu-system-x86_64", "busybox (a static one)")
    install_all = "apt-get install -y --no-install-recommends qemu-system-x86 busybox-static zstd"
    assert lacking.command == f"sudo {install_all}"
    assert missing(search=str(tmp_path), uid=0).command == install_all
    assert str(lacking.error("vm:e1000e")).startswith("vm:e1000e: needs qemu-system-x86_64, busybox")
    assert lacking.error().exit_code == 4


def test_machine_that_has_everything_lacks_nothing_though_there_is_no_zstd(tmp_path: Path) -> None:
    install(tmp_path, "qemu-system-x86_64", b"")
    install(tmp_path, "busybox", STATIC_ELF)
    lacking = missing(search=str(tmp_path))
    assert (lacking.programs, lacking.packages, lacking.command) == ((), (), None)
    assert missing("zstd", search=str(tmp_path)).packages == ("zstd",)
    with pytest.raises(CapabilityMissingError, match=r"needs zstd, .* --no-install-recommends zstd$"):
        program("zstd", str(tmp_path))


@pytest.mark.parametrize("content", [dynamic_elf(), b"#!/bin/sh\n", b"", b"\x7fELF\x02"])
def test_busybox_that_needs_libraries_is_none_and_one_behind_it_is_found(
    tmp_path: Path, content: bytes
) -> None:
    install(tmp_path / "first", "busybox", content)
    install(tmp_path / "second", "busybox", STATIC_ELF)
    assert missing(search=f"{tmp_path / 'first'}").packages[:2] == ("qemu-system-x86", "busybox-static")
    assert program("busybox", f"{tmp_path / 'first'}:{tmp_path / 'second'}").startswith(
        str(tmp_path / "second")
    )


def test_folders_of_system_programs_are_searched_whatever_path_says() -> None:
    assert search_path({"PATH": "/opt/bin"}).split(":")[0] == "/opt/bin"
    assert {"/usr/sbin", "/sbin"} <= set(search_path({"PATH": "/opt/bin"}).split(":"))
    assert not search_path({}).startswith(":")


def test_nic_that_this_qemu_has_is_named_as_qemu_names_it(tmp_path: Path) -> None:
    script(tmp_path, "qemu", f"cat <<'END'\n{QEMU_HELP}END")
    assert nic_device("virtio_net", str(tmp_path / "qemu")) == "virtio-net-pci"
    assert nic_device("e1000e", str(tmp_path / "qemu")) == "e1000e"


def test_nic_that_this_qemu_lacks_is_refused_with_those_it_has(tmp_path: Path) -> None:
    script(tmp_path, "qemu", f"cat <<'END'\n{QEMU_HELP}END")
    with pytest.raises(
        CapabilityMissingError, match=r"has no igb .QEMU 8.* it has vm:e1000e, vm:virtio_net$"
    ):
        nic_device("igb", str(tmp_path / "qemu"))
    with pytest.raises(WorkloadError, match=r"vm:ixgbe: .* there are e1000e, igb"):
        nic_device("ixgbe", str(tmp_path / "qemu"))


def test_qemu_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    script(tmp_path, "qemu", "echo 'error while loading shared libraries: libpixman' >&2; exit 127")
    with pytest.raises(LabError, match="libpixman"):
        nic_device("e1000e", str(tmp_path / "qemu"))
    with pytest.raises(LabError, match="no-such"):
        nic_device("e1000e", str(tmp_path / "no-such"))


def test_kernel_words_separate_by_nothing_that_a_path_holds() -> None:
    said = kernel_words(
        [("usr", "/usr"), ("tree", "/home/a b,c:d")], {"/bin": "usr/bin"}, ["/bin/sh", "", 'say "é"%']
    )
    assert said == (
        "labkit.mounts=usr:/usr,tree:/home/a%20b%2Cc%3Ad labkit.links=/bin:usr/bin "
        "labkit.exec=/bin/sh,,say%20%22%C3%A9%22%25"
    )
    assert kernel_words([], {}, []) == ""


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20), max_size=5
    )
)
def test_words_of_a_command_come_back_as_they_were(arguments: list[str]) -> None:
    said = kernel_words([], {}, ["/bin/sh", *arguments]).removeprefix("labkit.exec=")
    assert re.fullmatch(r"[A-Za-z0-9/+=@_.~%,-]+", said)
    assert [unquote_to_bytes(word).decode() for word in said.split(",")] == ["/bin/sh", *arguments]


def test_words_that_the_kernel_would_cut_are_refused_with_the_path_to_shorten() -> None:
    path = "/home/" + "x" * LONGEST_BYTES
    with pytest.raises(CapabilityMissingError, match=r"reads 1792 bytes.*shorter path.*/home/xxx"):
        kernel_words([("usr", "/usr"), ("tree", path)], {}, ["/bin/true"])


def test_cache_is_where_the_user_keeps_caches() -> None:
    assert cache_dir({"HOME": "/home/me"}) == Path("/home/me/.cache/labkit")
    assert cache_dir({"HOME": "/home/me", "XDG_CACHE_HOME": "/fast"}) == Path("/fast/labkit")
