"""What `labkit rigs` says of a machine without QEMU, without its packages, or with an older one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from labkit.cli.app import group
from labkit.guest import missing
from labkit.guest.missing import NICS
from labkit.rigs.catalog import VM_PREFIX, VM_TITLES, known_rigs
from labkit.rigs.here import lacking
from tests.guest_fakes import STATIC_ELF

OLD_QEMU = """#!/bin/sh
echo 'name "e1000e", bus PCI'
echo 'name "virtio-net-pci", bus PCI'
"""


def put(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/nonexistent")
    monkeypatch.setattr(missing, "SEARCHED", "")
    return folder


def test_every_emulated_rig_has_a_card() -> None:
    assert set(VM_TITLES) == set(NICS)
    assert {f"{VM_PREFIX}{name}" for name in NICS} <= {info.name for info in known_rigs()}


def test_without_qemu_the_one_command_is_told(programs: Path) -> None:
    told = lacking("vm:e1000e")
    assert told is not None
    assert "vm:e1000e: needs qemu-system-x86_64" in told
    assert "apt-get install -y --no-install-recommends qemu-system-x86 busybox-static zstd" in told


def test_a_card_that_this_qemu_does_not_have_is_told_with_one_that_it_has(programs: Path) -> None:
    put(programs, "qemu-system-x86_64", OLD_QEMU.encode())
    put(programs, "busybox", STATIC_ELF)
    put(programs, "zstd", b"#!/bin/sh\n")
    told = lacking("vm:igb")
    assert told is not None
    assert "no igb (QEMU 8 and later have one); it has vm:e1000e and vm:virtio_net" in told.replace(
        ", ", " and "
    )
    assert lacking("vm:e1000e") is None


@pytest.mark.parametrize("name", ["sim:ixgbe", "veth", "nic:INTERFACE"])
def test_of_other_rigs_nothing_is_looked_for(programs: Path, name: str) -> None:
    assert lacking(name) is None


def test_the_list_of_rigs_says_what_is_missing_for_people_and_programs(programs: Path) -> None:
    shown = CliRunner().invoke(group, ["rigs"]).output
    assert "    not here: vm:e1000e: needs qemu-system-x86_64" in shown
    rigs = {rig["name"]: rig for rig in json.loads(CliRunner().invoke(group, ["rigs", "--json"]).output)}
    assert rigs["veth"]["lacks"] is None
    assert "apt-get install" in rigs["vm:virtio_net"]["lacks"]
