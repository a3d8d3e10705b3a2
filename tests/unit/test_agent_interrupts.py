"""Which interrupts `irq_affinity` turns: the queues' own, and no other vector of the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.agent.interrupts import DeviceInterrupts
from labkit.drivers.choose import facts_of
from labkit.linux.interfaces import NamedInterface

ETH7 = NamedInterface("eth7", 7)
HEAD = "           CPU0       CPU1\n"


def interrupts(
    root: Path, driver: str, *names: str, bus: str | None = None, messages: int = 0
) -> DeviceInterrupts:
    """A device eth7 on a machine whose lines from 30 on have these names."""
    folder = root / "class/net/eth7/device/msi_irqs"
    folder.mkdir(parents=True)
    for number in range(30, 30 + messages):
        (folder / str(number)).touch()
    lines = (
        f" {number}:   3   4  PCI-MSI {number}-edge      {name}\n" for number, name in enumerate(names, 30)
    )
    text = HEAD + "".join(lines)
    return DeviceInterrupts(ETH7, bus, facts_of(driver).interrupt_names, text=lambda: text, sys=root)


@pytest.mark.parametrize(
    ("driver", "bus", "names", "turned"),
    [
        ("ixgbe", "0000:01:00.0", ("eth7", "eth7-TxRx-0", "eth7-TxRx-1", "eth8-TxRx-0"), [31, 32]),
        (
            "i40e",
            "0000:01:00.0",
            ("i40e-0000:01:00.0:misc", "i40e-eth7-TxRx-0", "i40e-eth7-TxRx-1"),
            [31, 32],
        ),
        (
            "mlx5_core",
            "0000:01:00.0",
            ("mlx5_async0@pci:0000:01:00.0", "mlx5_comp0@pci:0000:01:00.0", "mlx5_comp0@pci:0000:02:00.0"),
            [31],
        ),
        ("virtio_net", "virtio1", ("virtio1-config", "virtio1-input.0", "virtio1-output.0"), [31, 32]),
        ("e1000e", "0000:01:00.0", ("eth7-rx-0", "eth7-tx-0", "eth7"), [30, 31]),
    ],
)
def test_only_the_queues_own_interrupts_are_turned(
    tmp_path: Path, driver: str, bus: str, names: tuple[str, ...], turned: list[int]
) -> None:
    found = interrupts(tmp_path, driver, *names, bus=bus, messages=len(names))
    assert found.turnable() == turned
    assert list((found.by_name() or {}).values()) == [7] * len(turned)


def test_a_line_that_other_devices_share_is_left_alone(tmp_path: Path) -> None:
    found = interrupts(tmp_path, "ixgbe", "eth7-TxRx-0, ahci", "eth7-TxRx-1")
    assert found.turnable() == [31]
    alone = interrupts(tmp_path / "2", "ixgbe", "eth7-TxRx-0, ahci")
    assert alone.turnable() == []
    assert "other devices" in alone.why_none()


def test_a_single_message_interrupt_is_the_queues_whatever_its_name(tmp_path: Path) -> None:
    assert interrupts(tmp_path, "e1000e", "eth7", messages=1).turnable() == [30]


def test_several_that_no_name_tells_apart_are_left_alone_and_it_is_said_why(tmp_path: Path) -> None:
    found = interrupts(tmp_path, "newnic", "eth7", "eth7", "eth7", messages=3)
    assert (found.turnable(), found.by_name()) == ([], None)
    assert "tells which of its 3 are queues'" in found.why_none()


def test_a_device_without_interrupts_says_so(tmp_path: Path) -> None:
    found = interrupts(tmp_path, "veth")
    assert found.turnable() == []
    assert "no interrupts that are known" in found.why_none()


def test_a_machine_without_the_file_is_unknown(tmp_path: Path) -> None:
    found = DeviceInterrupts(ETH7, None, (), text=lambda: None, sys=tmp_path)
    assert (found.turnable(), found.by_name()) == ([], None)
