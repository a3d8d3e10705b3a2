"""/proc/interrupts of several architectures: whose line it is, and how often on which CPU."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from labkit.counters.interrupts import (
    Interrupts,
    interrupt_name,
    parse_interrupts,
    queue_interrupts,
    split_names,
)
from labkit.drivers.choose import facts_of
from labkit.errors import CapabilityMissingError

INPUTS = Path(__file__).parent / "inputs"


def read(name: str) -> Interrupts:
    return parse_interrupts((INPUTS / f"interrupts_{name}.txt").read_text())


def test_arm64_counts_go_to_their_queue_and_cpu() -> None:
    found = read("arm64_ena")
    assert found.cpus == tuple(range(8))
    line = found.line("eth0-Tx-Rx-1")
    assert line is not None
    assert line.total == 2_709_939_227
    assert [cpu for cpu, count in zip(found.cpus, line.counts, strict=True) if count] == [3, 4]
    assert (line.chip, line.label) == ("ITS-MSI", "59")


def test_a_glued_label_keeps_all_eight_counts() -> None:
    line = read("arm64_ena").line("IPI0")
    assert line is not None
    assert (len(line.counts), line.counts[0]) == (8, 2_768_808_080)
    assert (line.names, line.description) == ((), "Rescheduling interrupts")


def test_a_chip_with_a_number_is_not_a_count() -> None:
    line = read("arm64_ena").line("ACPI:Event")
    assert line is not None
    assert (line.chip, line.total) == ("ARMH0061:00", 0)


def test_management_is_not_a_queue() -> None:
    queues = queue_interrupts(read("arm64_ena"), device="eth0", patterns=facts_of("ena").interrupt_names)
    assert [each.name.queue for each in queues] == list(range(8))
    assert [each.name.side for each in queues] == ["both"] * 8
    assert queues[1].total == 2_709_939_227


def test_x86_lines_without_cpus_or_names_are_read() -> None:
    found = read("virtio_x86_k6.18")
    line = found.line("virtio2-input.0")
    assert line is not None
    assert (line.chip, line.pci, line.counts) == ("PCI-MSIX-0000:00:03.0", "0000:00:03.0", (0, 19346))
    for label in ("ERR", "MIS"):
        short = found.line(label)
        assert short is not None
        assert (short.counts, short.names, short.description) == ((0,), (), None)
    assert found.count("ERR", 0) is None
    assert found.count("virtio2-input.0", 1) == 19346
    assert found.count("virtio2-input.0", 7) is None
    assert found.count("nosuch", 0) is None


def test_queues_without_the_interfaces_name_need_its_address() -> None:
    found = read("virtio_x86_k6.18")
    with pytest.raises(
        CapabilityMissingError, match=r"names a queue of eth0: its interrupts are unknown, not 0; .*pci"
    ):
        queue_interrupts(found, device="eth0")
    by_pci = queue_interrupts(found, device="eth0", pci="0000:00:03.0")
    by_bus = queue_interrupts(found, device="eth0", bus="virtio2")
    assert by_pci == by_bus
    assert [(each.name.queue, each.name.side, each.total) for each in by_pci] == [
        (0, "rx", 19346),
        (0, "tx", 14582),
    ]
    with pytest.raises(CapabilityMissingError, match=r"eth0 or 0000:00:09\.0"):
        queue_interrupts(found, device="eth0", pci="0000:00:09.0")


def test_another_interface_of_longer_name_is_not_counted() -> None:
    text = "  CPU0\n 1: 5 PCI-MSI 1-edge eth1-TxRx-0\n 2: 7 PCI-MSI 2-edge eth10-TxRx-0\n"
    assert [each.total for each in queue_interrupts(parse_interrupts(text), device="eth1")] == [5]


@pytest.mark.parametrize(
    ("name", "device", "pci", "queue", "kind"),
    [
        ("eth0-TxRx-0", "eth0", None, 0, "queue"),
        ("eth10-TxRx-0", "eth10", None, 0, "queue"),
        ("i40e-eth0-TxRx-3", "eth0", None, 3, "queue"),
        ("ice-em3-TxRx-126", "em3", None, 126, "queue"),
        ("eth0-Tx-Rx-3", "eth0", None, 3, "queue"),
        ("ena-mgmnt@pci:0000:00:05.0", None, "0000:00:05.0", None, "control"),
        ("enp5s0f4d1 (queue 11)", "enp5s0f4d1", None, 11, "queue"),
        ("enp5s0f4 (queue 0)", "enp5s0f4", None, 0, "queue"),
        ("eth%d-ntfy-block.15", None, None, 15, "queue"),
        ("gve-ntfy-blk1@pci:0000:00:04.0", None, "0000:00:04.0", 1, "queue"),
        ("gve-mgmnt@pci:0000:00:04.0", None, "0000:00:04.0", None, "control"),
        ("mlx5_comp0@pci:0000:21:00.0", None, "0000:21:00.0", 0, "queue"),
        ("mlx5_comp63@pci:0000:21:00.0", None, "0000:21:00.0", 63, "queue"),
        ("mlx5_async0@pci:0000:21:00.0", None, "0000:21:00.0", None, "control"),
        ("virtio2-input.0", None, None, 0, "queue"),
        ("virtio2-output.0", None, None, 0, "queue"),
        ("virtio2-config", None, None, None, "control"),
        ("virtio4-input", None, None, None, "unknown"),
        ("ehci_hcd:usb1", "ehci_hcd:usb1", None, None, "unknown"),
        ("eth0", "eth0", None, None, "unknown"),
        ("eth0-rxtx-1", "eth0", None, 1, "queue"),
        ("eth0_g0_tx", "eth0", None, 0, "queue"),
        ("eth0_g0_er", "eth0", None, None, "control"),
        ("i40e-0000:01:00.0:misc", None, "0000:01:00.0", None, "control"),
    ],
)
def test_a_name_tells_device_queue_and_kind(
    name: str, device: str | None, pci: str | None, queue: int | None, kind: str
) -> None:
    told = interrupt_name(name)
    assert (told.device, told.pci, told.queue, told.kind) == (device, pci, queue, kind)


def test_every_name_of_the_collection_is_told() -> None:
    names = (INPUTS / "interrupt_names.txt").read_text().splitlines()
    kinds = [interrupt_name(name).kind for line in names for name in split_names(line)]
    assert (kinds.count("queue"), kinds.count("control")) == (13, 4)


def test_virtio_names_tell_side_and_bus() -> None:
    told = interrupt_name("virtio2-input.0")
    assert (told.bus, told.side) == ("virtio2", "rx")


def test_a_shared_line_names_all_its_handlers() -> None:
    shared = "ehci_hcd:usb1, ehci_hcd:usb2, i801_smbus"
    text = f"  CPU0 CPU1\n 16: 3 4 IO-APIC 16-fasteoi {shared}\n 17: 1 1 IO-APIC 17-fasteoi eth0-rx-0, x\n"
    found = parse_interrupts(text)
    assert found.lines[0].names == ("ehci_hcd:usb1", "ehci_hcd:usb2", "i801_smbus") == split_names(shared)
    assert found.lines[0].shared
    assert [each.shared for each in queue_interrupts(found, device="eth0")] == [True]


@pytest.mark.parametrize(
    ("words", "chip", "names"),
    [
        ("PCI-MSI-edge eth0-TxRx-0", "PCI-MSI-edge", ("eth0-TxRx-0",)),
        ("xen-dyn -event eth0-q0-rx", "xen-dyn", ("eth0-q0-rx",)),
        ("GICv3 27 Level arch_timer", "GICv3", ("arch_timer",)),
        ("PCI-MSI 524288-edge enp5s0f4d1 (queue 11)", "PCI-MSI", ("enp5s0f4d1 (queue 11)",)),
        ("PCI-MSI 524288-edge", "PCI-MSI", ()),
        ("", None, ()),
    ],
)
def test_chip_and_handlers_are_told_apart(words: str, chip: str | None, names: tuple[str, ...]) -> None:
    line = parse_interrupts(f"  CPU0\n 9: 5 {words}\n").lines[0]
    assert (line.counts, line.chip, line.names) == ((5,), chip, names)


def test_an_offline_cpu_keeps_the_others_numbers() -> None:
    found = parse_interrupts("  CPU0 CPU2\n 9: 5 6 PCI-MSI 1-edge eth0-TxRx-0\n")
    assert found.count("eth0-TxRx-0", 2) == 6
    assert found.count("eth0-TxRx-0", 1) is None


def test_1100_cpus_are_read_in_full() -> None:
    text = (INPUTS / "interrupts_1100cpus_synthetic.txt").read_text()
    started_ns = time.perf_counter_ns()
    found = parse_interrupts(text)
    # a sanity bound: an algorithm that is quadratic in the CPUs would need seconds
    assert time.perf_counter_ns() - started_ns < 1_000_000_000
    assert found.cpus == tuple(range(1100))
    name = "mlx5_comp2@pci:0000:21:00.0"
    assert (found.count(name, 800), found.count(name, 1099)) == (1002, 3)
    queues = queue_interrupts(found, device="eth0", pci="0000:21:00.0")
    assert [(each.name.queue, each.total) for each in queues][2] == (2, 1005)


def test_another_file_is_not_taken_for_interrupts() -> None:
    with pytest.raises(CapabilityMissingError, match="not with the CPUs"):
        parse_interrupts("Inter-| Receive\n")
