"""Starts a guest whose agent answers as any other does."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import labkit
from labkit.agent.client import AgentClient
from labkit.agent.launch import AgentProcess
from labkit.errors import AgentLostError, LabError
from labkit.guest.image import image
from labkit.guest.machine import Machine, qemu_arguments
from labkit.guest.missing import QEMU, check_processor, nic_device, program
from labkit.guest.monitor import Monitor
from labkit.guest.words import kernel_words

AGENT: Final = ("-I", "-m", "labkit.agent", "--state", "/run/labkit")
"""Journal and locks are the guest's own, and end with it."""
ANSWER_WITHIN_S: Final = 60.0
"""Longest silence of a healthy guest, its boot included, by the host's clock."""
SLOWER: Final = 40.0
"""Most of the host's seconds that a busy one of the guest's takes; some 5 on a quiet machine."""
KVM_BOOTS_WITHIN_S: Final = 10.0
"""A host whose KVM starts a machine and then hangs is told by its boot."""
EXIT_WITHIN_S: Final = 5.0
MOST_STEPS: Final = 40
"""Links that the kernel follows behind each other (MAXSYMLINKS, include/linux/namei.h)."""
TOP_LEVEL: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


class GuestProcess(AgentProcess):
    """QEMU with its keeper; last words are the guest's console.

    Outside of requests a guest whose clock counts instructions stands still: an idle CPU would let that clock
    run away, and take one of the host's for it.

    Parameters
    ----------
    machine : Machine
        What is emulated.
    qemu : str
        The program.
    arguments : callable
        Gives its arguments, told the descriptor of its monitor.
    """

    def __init__(self, machine: Machine, qemu: str, arguments: Callable[[int], list[str]]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            keeper = [sys.executable, "-I", "-m", "labkit.guest.keeper", str(theirs.fileno())]
            super().__init__(
                [*keeper, qemu, *arguments(theirs.fileno())],
                exit_within_s=EXIT_WITHIN_S,
                descriptors=(theirs.fileno(),),
            )
        self._monitor = Monitor(ours)
        self._stands_still = machine.counted
        self._slower = 1.0 if machine.kvm else SLOWER
        self._answer_within_s = KVM_BOOTS_WITHIN_S if machine.kvm else ANSWER_WITHIN_S
        self._stopped = False

    def within_s(self, longest_s: float) -> float:
        """What keeps the guest's CPU busy for `longest_s` takes at the most, by the host's clock."""
        return longest_s * self._slower + self._answer_within_s

    @contextlib.contextmanager
    def needed(self) -> Iterator[None]:
        """Let the guest's clock go within the block."""
        try:
            if self._stopped:
                with contextlib.suppress(LabError):  # who waits for the answer learns how it ended
                    self._monitor.ask("cont")
            yield
        finally:
            if self._stands_still:
                self._stopped = True  # before it is asked: an interrupt may come in between
                with contextlib.suppress(LabError):
                    self._monitor.ask("stop")

    def end(self) -> None:
        """End QEMU at once: nothing in the guest is to be kept."""
        self._monitor.close()
        super().end()


def connect_to_guest(
    machine: Machine, *, cache: Path, tell: Callable[[str], None], rebuild: bool = False
) -> AgentClient:
    """Client of an agent that is alone on a fresh machine.

    Parameters
    ----------
    cache : Path
        Folder of the guest's kernel and initramfs, made at the first use.
    tell : callable
        Takes lines about what is being made.
    rebuild : bool
        Take the newest kernel now.

    Raises
    ------
    CapabilityMissingError
        QEMU, a program or the guest's kernel is missing; names the one command that installs what lacks.
    AgentLostError
        The guest did not come up in time; carries the end of its console.
    """
    check_processor()
    qemu = program(QEMU)
    device = nic_device(machine.nic, qemu)
    made = image(cache, tell=tell, rebuild=rebuild)
    shares, links = shared_folders()
    tags = {f"labkit{number}": folder for number, folder in enumerate(shares)}
    words = kernel_words(
        [(tag, str(folder)) for tag, folder in tags.items()], links, [sys.executable, *AGENT]
    )
    started_s = time.monotonic()
    process = GuestProcess(
        machine,
        qemu,
        lambda monitor_fd: qemu_arguments(
            machine,
            device=device,
            kernel=made.kernel,
            initramfs=made.initramfs,
            shares=list(tags.items()),
            words=words,
            monitor_fd=monitor_fd,
        ),
    )
    try:
        return AgentClient(process)
    except AgentLostError as lost:
        late = time.monotonic() - started_s >= process.within_s(0)
        how = f"no answer in {process.within_s(0):g} s" if late else f"QEMU ended, {process.how_it_ended()}"
        raise AgentLostError(
            f"vm:{machine.nic}: the guest did not come up ({how}); its console may say why, else try again",
            stderr_tail=lost.stderr_tail,
        ) from lost


def shared_folders() -> tuple[list[Path], Mapping[str, str]]:
    """Folders that the guest's Python needs, and links of the file system's top that lead to them.

    The system's programs and libraries, the environment and the interpreter that it was made of, and labkit.
    """
    top = [Path(each) for each in TOP_LEVEL]
    links = {str(each): os.readlink(each) for each in top if each.is_symlink()}
    folders = [Path("/usr"), *(each for each in top if each.is_dir() and not each.is_symlink())]
    package = Path(labkit.__file__).parent
    python = map(Path, (sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"]))
    for folder in (*python, package, package.resolve()):
        if not _below(folder, folders):
            folders.append(folder)
    return folders, links | _steps(Path(sys.executable), folders)


def _steps(program: Path, folders: Sequence[Path]) -> dict[str, str]:
    """Links on the way to `program` that no folder holds, as in ``/etc/alternatives``, and where they end."""
    found: dict[str, str] = {}
    for _ in range(MOST_STEPS):
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
        if not _below(program, folders):
            found[str(program)] = os.path.realpath(program)
    return found


def _below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
