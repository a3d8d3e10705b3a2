"""The emulated machine as QEMU's command line. Pure.

The clock of an emulated CPU counts instructions (icount): one is a nanosecond of the guest's time, so that
its times do not depend on how busy the host is. Whenever the CPU is idle the clock jumps to the next timer.
Several CPUs have the host's clock: under icount one that waits for another spins until its budget is used up,
some two seconds of its time, and the machine does not get past its firmware (measured with QEMU 7.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from labkit.errors import WorkloadError
from labkit.guest.words import PORT

SENDER_MAC, PORT_MAC = "02:6c:6b:00:01:00", "02:6c:6b:00:01:01"
MOST_CPUS: Final = 16
SEED: Final = 1
"""Of everything random that the machine gives its guest (rdrand, AT_RANDOM)."""
START: Final = "2026-01-01T00:00:00"
"""When the guest's clock begins: at each boot the same."""
CPU: Final = "max,erms=off"
"""All that QEMU emulates but for a fast `rep stosb`: a kernel that sees one clears and copies memory byte by
byte, and each is an instruction, a nanosecond. Clearing buffers (Debian's init_on_alloc) took 81 % of a
packet of pktgen's netif_receive so, and takes 13 % by eight bytes each (measured, kernel 6.1)."""
COUNTED: Final = ("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", CPU)
EMULATED: Final = ("-accel", "tcg,thread=multi", "-cpu", CPU)
VIRTUALISED: Final = ("-accel", "kvm", "-cpu", "host")
QUIET: Final = "console=ttyS0 panic=-1 quiet norandmaps cryptomgr.notests"
"""What the kernel is told: a panic ends the machine, addresses stay the same, and ciphers are not tested."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What is emulated.

    Attributes
    ----------
    nic : str
        Driver of its network cards.
    ports : int
        How many of them there are, all on one hub.
    cpus : int
        Its CPUs; more than one are emulated without a clock of their own.
    kvm : bool
        Run on the host's CPU instead of an emulated one: fast, and its times are the host's.
    """

    nic: str
    ports: int = 2
    cpus: int = 1
    memory_mb: int = 1024
    kvm: bool = False

    @property
    def counted(self) -> bool:
        """Whether its clock counts instructions."""
        return not self.kvm and self.cpus == 1

    def __post_init__(self) -> None:
        if self.ports < 2:
            # measured: the driver's ring never empties there, and pktgen waits for its last packet for ever
            raise WorkloadError(
                f"rig 'vm:{self.nic}': ports {self.ports}: a card alone on its hub never gets rid of a "
                "frame, and pktgen would hang; give 2"
            )
        whole = isinstance(self.cpus, int) and not isinstance(self.cpus, bool)
        if not whole or not 1 <= self.cpus <= MOST_CPUS:
            raise WorkloadError(f"rig 'vm:{self.nic}': guest_cpus {self.cpus!r}: give 1 to {MOST_CPUS}")


def qemu_arguments(
    machine: Machine,
    *,
    device: str,
    kernel: Path,
    initramfs: Path,
    shares: Sequence[tuple[str, Path]],
    words: str,
    monitor_fd: int,
) -> list[str]:
    """Arguments of ``qemu-system-x86_64``.

    The agent's port is the process's standard input and output, the guest's console its standard error.

    Parameters
    ----------
    device : str
        QEMU's name of the cards.
    shares : sequence of (str, Path)
        9p tags, each with the folder that the guest may read.
    words : str
        What the init is told on the kernel's command line.
    monitor_fd : int
        Socket on which QEMU is asked to stop and go on.
    """
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35"),
        *("-seed", str(SEED), "-rtc", f"base={START},clock=vm", "-m", str(machine.memory_mb)),
        *(COUNTED if machine.counted else VIRTUALISED if machine.kvm else EMULATED),
        *("-smp", str(machine.cpus)),
        *("-kernel", str(kernel), "-initrd", str(initramfs), "-append", f"{QUIET} {words}"),
        *("-chardev", "file,id=console,path=/dev/stderr,append=on", "-serial", "chardev:console"),
        *("-chardev", "stdio,id=agent,signal=off", "-device", "virtio-serial-pci"),
        *("-device", f"virtserialport,chardev=agent,name={PORT}"),
        *("-chardev", f"socket,id=monitor,fd={monitor_fd}", "-mon", "chardev=monitor,mode=control"),
        *(word for tag, folder in shares for word in _share(tag, folder)),
        *(word for number in range(machine.ports) for word in _card(device, number)),
    ]


def _share(tag: str, folder: Path) -> tuple[str, ...]:
    path = str(folder).replace(",", ",,")  # QEMU's own way to write a comma in an option
    local = f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"
    return ("-fsdev", local, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}")


def _card(device: str, number: int) -> tuple[str, ...]:
    mac = (SENDER_MAC, PORT_MAC)[number] if number < 2 else f"02:6c:6b:00:01:{number:02x}"
    return (
        *("-netdev", f"hubport,hubid=0,id=port{number}"),
        *("-device", f"{device},netdev=port{number},mac={mac}"),
    )
