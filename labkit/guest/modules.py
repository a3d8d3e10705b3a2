"""Which kernel modules the guest has, and in which order they are inserted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from labkit.errors import CapabilityMissingError

NEEDED: Final = ("virtio_pci", "9pnet_virtio", "9p", "virtio_console", "e1000e", "pktgen")
WHERE_THERE: Final = ("e1000", "igb", "virtio_net", "vmxnet3", "veth", "dummy", "ifb")
"""Further NICs and devices: a kernel without one of them serves all the same."""
SUFFIX: Final = re.compile(r"\.ko(\.(xz|zst|gz))?$")


def module_name(path: str) -> str | None:
    """Name of the module in a file of this path, as the kernel has it; None when it is no module's."""
    name = path.rpartition("/")[2]
    return SUFFIX.sub("", name).replace("-", "_") if SUFFIX.search(name) else None


def in_order(
    present: Mapping[str, Callable[[], bytes]], builtin: Iterable[str], where: str
) -> list[tuple[str, bytes]]:
    """Names and unpacked files of all modules to insert, each behind those that it depends on.

    Parameters
    ----------
    present : mapping
        What reads each module of this kernel, by name.
    builtin : iterable of str
        Modules inside the kernel itself, which need no file.
    where : str
        Whose modules, for messages.

    Raises
    ------
    CapabilityMissingError
        This kernel has no pktgen, no 9p or no e1000e.
    """
    own = frozenset(builtin)
    done: dict[str, bytes] = {}
    for name in (*NEEDED, *WHERE_THERE):
        if name in present or name not in WHERE_THERE:
            _add(name, name, present, own, done, where)
    return list(done.items())


def _add(
    name: str,
    wanted: str,
    present: Mapping[str, Callable[[], bytes]],
    own: frozenset[str],
    done: dict[str, bytes],
    where: str,
) -> None:
    if name in own or name in done:
        return
    if name not in present:
        needs = f"module {name}" if name == wanted else f"module {name}, which {wanted} needs"
        raise CapabilityMissingError(f"{where}: has no {needs}; take a kernel of Debian's linux-image-amd64")
    file = present[name]()
    for other in depends(file):
        _add(other, wanted, present, own, done, where)
    done[name] = file


def depends(module: bytes) -> list[str]:
    """Modules that must be there before this one: `depends=` in its .modinfo (scripts/mod/modpost.c)."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    names = found.group(1).decode(errors="replace").split(",") if found else []
    return [name.replace("-", "_") for name in names if name]
