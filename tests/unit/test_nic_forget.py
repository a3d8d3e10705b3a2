"""Journals of devices that never return are dismissed by name, and no others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.errors import LabError, RigBusyError, WorkloadError
from labkit.linux.namespaces import network_lives
from labkit.linux.processes import Owner, is_alive, owner_of
from labkit.nic.journal import Device
from labkit.nic.put_back import PutBack
from labkit.nic.recovery import Present, forget
from tests.nic_fakes import DEVICE, make_tree, tree_host, tree_knobs, tree_values

DEAD = Owner(pid=4_194_305, started_ticks=1, boot_id="an earlier one")
Find = Callable[[Device], Present | None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_tree(tmp_path)
    return tmp_path


def gone(_: Device) -> None:
    return None


def forget_in(
    root: Path, name: str = "eth7", find: Find = gone, elsewhere: Callable[[Device], bool] = lambda _: False
) -> list[PutBack]:
    return forget(root / "journal", root / "locks", name, find, is_alive, elsewhere)


def journals(root: Path) -> list[Path]:
    return list((root / "journal").glob("*"))


def test_each_setting_of_a_device_that_is_gone_is_told_and_dropped(root: Path) -> None:
    tree_host(root, DEAD).apply({"tx_ring": 1001, "txqueuelen": 7})
    changed = tree_values(root)
    told = forget_in(root)
    assert [(each.name, each.original, each.outcome) for each in told] == [
        ("tx_ring", 512, "forgotten"),
        ("txqueuelen", 1000, "forgotten"),
    ]
    assert told[0].text == "eth7: tx_ring is forgotten; before the lab it was 512"
    assert journals(root) == []
    assert tree_values(root) == changed


def test_other_devices_stay_in_the_journal(root: Path) -> None:
    tree_host(root, DEAD).apply({"tx_ring": 64})
    other = Device(netns_inode=DEVICE.netns_inode, ifindex=8, ifname="eth8", hardware=None)
    tree_host(root, DEAD, device=other).apply({"txqueuelen": 7})
    assert [each.name for each in forget_in(root, "eth8")] == ["txqueuelen"]
    assert len(journals(root)) == 1
    with pytest.raises(WorkloadError, match="eth8: nothing is kept of such a device; kept: eth7"):
        forget_in(root, "eth8")


def test_nothing_kept_at_all_is_said(root: Path) -> None:
    with pytest.raises(WorkloadError, match="kept: none"):
        forget_in(root)


def test_device_that_is_here_is_refused_and_kept(root: Path) -> None:
    tree_host(root, DEAD).apply({"tx_ring": 64})
    here = Present("new7", 7, tree_knobs(root))
    with pytest.raises(
        LabError, match=r"new7 \(eth7 when .*: it is here, so `labkit restore` puts back tx_ring"
    ):
        forget_in(root, find=lambda _: here)
    assert len(journals(root)) == 1


def test_setting_that_a_device_has_no_more_can_be_forgotten(root: Path) -> None:
    tree_host(root, DEAD).apply({"tx_ring": 64})
    (root / "device/tx_ring").unlink()
    here = Present("eth7", 7, tree_knobs(root))
    assert [each.name for each in forget_in(root, find=lambda _: here)] == ["tx_ring"]


def test_what_a_living_process_holds_is_refused_and_kept(root: Path) -> None:
    me = owner_of(os.getpid())
    assert me is not None
    tree_host(root, me).apply({"tx_ring": 64})
    with pytest.raises(RigBusyError, match=f"eth7: process {os.getpid()} holds it"):
        forget_in(root)
    assert len(journals(root)) == 1


def test_device_of_another_namespace_that_lives_is_refused_and_kept(root: Path) -> None:
    tree_host(root, DEAD).apply({"tx_ring": 64})
    with pytest.raises(LabError, match=f"network namespace {DEVICE.netns_inode}, which still lives"):
        forget_in(root, elsewhere=lambda _: True)
    assert len(journals(root)) == 1


def test_namespace_lives_with_a_process_or_a_name(tmp_path: Path) -> None:
    process, name = tmp_path / "proc/7/ns/net", tmp_path / "netns/blue"
    for file in (process, name):
        file.parent.mkdir(parents=True)
        file.touch()
    found = (tmp_path / "proc", tmp_path / "netns")
    for file in (process, name):
        inode = file.stat().st_ino
        assert network_lives(inode, *found)
        file.unlink()
        assert not network_lives(inode, *found)
