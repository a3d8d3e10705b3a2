"""A guest started by hand, without the rig: what its port and its console say until it is off."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from labkit.guest.image import GuestImage
from labkit.guest.missing import QEMU, program
from labkit.guest.words import PORT, kernel_words

LIMIT_S = 90
CLOCK = "-accel tcg,thread=single -icount shift=0,sleep=off"
MANY = "-accel tcg,thread=multi"
"""For several CPUs: a clock of instructions goes with one thread alone, in which they take turns."""
MACHINE = "-nodefaults -no-user-config -display none -no-reboot -M q35 -cpu max -m 1024 -serial stdio"


class Said(NamedTuple):
    port: str
    console: str


def own_places() -> dict[str, str]:
    """Tag to folder of what this very Python needs: /usr and, where they are elsewhere, its own places."""
    checkout = Path(__file__).resolve().parents[2]
    places = {str(checkout), str(Path(sys.prefix).resolve()), str(Path(sys.base_prefix).resolve())}
    outside = [place for place in sorted(places) if not place.startswith("/usr/")]
    return {"usr": "/usr"} | {f"place{number}": place for number, place in enumerate(outside)}


def own_links() -> dict[str, str]:
    links = [Path("/", name) for name in ("bin", "lib", "lib64", "sbin")]
    return {str(link): str(link.readlink()) for link in links if link.is_symlink()}


def boot(
    image: GuestImage,
    command: Sequence[str],
    *,
    places: Mapping[str, str] | None = None,
    say: bytes = b"",
    words: str | None = None,
    port: str = PORT,
    nics: Sequence[str] = ("e1000e", "e1000e"),
    cpus: int = 1,
) -> Said:
    """Start a guest, run `command` in it, wait for its end; `words` instead of the kernel's usual ones."""
    places = own_places() if places is None else places
    words = kernel_words([*places.items()], own_links(), command) if words is None else words
    ours, theirs = socket.socketpair()
    with ours, theirs:
        options = [
            *(*(CLOCK if cpus == 1 else MANY).split(), *MACHINE.split(), "-smp", str(cpus)),
            *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
            *("-append", f"console=ttyS0 panic=-1 quiet {words}"),
            *("-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={theirs.fileno()}"),
            *("-device", f"virtserialport,chardev=agent,name={port}"),
        ]
        for tag, place in places.items():
            local = f"local,id={tag},path={place.replace(',', ',,')},security_model=none,readonly=on"
            options += ["-fsdev", f"{local},multidevs=remap"]
            options += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        for number, nic in enumerate(nics):
            options += ["-netdev", f"hubport,hubid=0,id=hub{number}", "-device", f"{nic},netdev=hub{number}"]
        unshare = ["unshare", "--net", *(() if os.geteuid() == 0 else ("--user", "--map-root-user"))]
        ours.sendall(say)
        done = subprocess.run(
            [*unshare, program(QEMU), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            pass_fds=[theirs.fileno()],
            check=False,
        )
        theirs.close()
        said = b"".join(iter(lambda: ours.recv(65536), b""))
    assert done.returncode == 0, done.stdout
    return Said(said.decode(), done.stdout)
