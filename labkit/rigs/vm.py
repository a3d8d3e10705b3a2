"""An emulated machine with a real driver and the kernel's pktgen: for those who have no hardware."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from labkit.agent.client import AgentClient
from labkit.agent.protocol import Measured
from labkit.audit.run import audit_summary
from labkit.errors import AgentLostError, WorkloadError
from labkit.guest.launch import connect_to_guest
from labkit.guest.machine import Machine
from labkit.paths import cache_dir
from labkit.records import EMULATED, Workload
from labkit.rigs import catalog
from labkit.rigs.held_device import HeldDeviceRig

PORT = "port"
COUNTED, HOSTS = "one instruction of the guest is a nanosecond", "the host's"


class VmRig(HeldDeviceRig):
    """A QEMU guest with two cards on one hub; frames of the first arrive at the second.

    Its kernel and its start are made once, into the cache. Counts and interrupts are a driver's own.
    Times are the emulator's: they compare settings with each other, and say nothing of silicon.

    Parameters
    ----------
    driver : str
        One of ``e1000e``, ``virtio_net``, ``vmxnet3`` and, where QEMU has it, ``igb``.
    guest_cpus : int
        CPUs of the guest. One has a clock of its own, which makes its times the same at each boot; several
        have the host's.
    kvm : bool
        Run on the host's CPU where that comes up within 10 s: much faster, and times are the host's.
    rebuild : bool
        Take the newest kernel now; else the one in the cache stays, whatever has come since.
    tell : callable or None
        Takes lines about what is made at the first use; None writes them to standard error.
    cache : Path or None
        Folder of kernel and initramfs; None is the user's.

    Attributes
    ----------
    notes : tuple of str
        What people should know: that KVM was asked for and did not come up.

    Raises
    ------
    WorkloadError
        A driver that labkit does not know, or a number of CPUs that makes no sense.
    CapabilityMissingError
        QEMU, a program or a kernel is missing; the message has the one command that installs what lacks.
    AgentLostError
        The guest does not come up; the end of its console is in the message.
    """

    def __init__(
        self,
        driver: str,
        *,
        guest_cpus: int = 1,
        kvm: bool = False,
        rebuild: bool = False,
        tell: Callable[[str], None] | None = None,
        cache: Path | None = None,
    ) -> None:
        info = catalog.virtual_machine(driver)
        place = {"cache": cache_dir() / "guest" if cache is None else cache, "tell": tell or _tell}
        asked = Machine(nic=driver, cpus=guest_cpus, kvm=kvm)
        client, machine, notes = _connected(asked, place, rebuild=rebuild)
        try:
            opened = client.open_guest()
        except BaseException:
            client.close()
            raise
        opened = msgspec.structs.replace(opened, notes=[*opened.notes, *notes])
        super().__init__(
            info,
            client,
            opened,
            sink=PORT,
            made_with={"guest_cpus": guest_cpus, "kvm": machine.kvm},
        )
        self._machine = {**(opened.machine or {}), "clock": COUNTED if machine.counted else HOSTS}
        self._counted, self._cpus = machine.counted, machine.cpus
        if not machine.kvm:
            self.caveat = EMULATED

    def _check_workload(self, workload: Workload) -> None:
        """Raise what is wrong with a workload on this rig; a guest has the CPUs that it was made with."""
        super()._check_workload(workload)
        if workload.cpus is not None and workload.cpus > self._cpus:
            raise WorkloadError(
                f"rig '{self.info.name}': cpus {workload.cpus}: the guest has {self._cpus} of its own; open "
                f"it with guest_cpus={workload.cpus} (--guest-cpus), whose times are then the host's"
            )

    def _own_cpus(self) -> list[int]:
        """The guest's."""
        return list(range(self._cpus))

    def _disturbers(self, measured: Measured) -> dict[str, Any]:  # noqa: ARG002 - its CPU is the guest's
        """Nothing where the clock counts the guest's own instructions, else what is wrong with the host."""
        return {} if self._counted else {"audit": audit_summary()}


def _connected(
    asked: Machine, place: dict[str, Any], *, rebuild: bool
) -> tuple[AgentClient, Machine, list[str]]:
    """A guest, on the host's CPU only if that comes up; what people should know of it."""
    try:
        return connect_to_guest(asked, rebuild=rebuild, **place), asked, []
    except AgentLostError as lost:
        if not asked.kvm:
            raise
        emulated = msgspec.structs.replace(asked, kvm=False)
        words = lost.stderr_tail.strip().splitlines() or ["no word why"]
        note = f"vm:{asked.nic}: KVM gave no machine ({words[-1]}); the CPU is emulated instead"
        return connect_to_guest(emulated, **place), emulated, [note]


def _tell(line: str) -> None:
    sys.stderr.write(f"labkit: {line}\n")
    sys.stderr.flush()
