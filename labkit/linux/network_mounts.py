"""Servers that mounted file systems and iSCSI sessions reach over the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

MOUNTS: Final = "proc/self/mountinfo"
ISCSI: Final = "sys/class/iscsi_connection"
LOCAL_9P: Final = frozenset({"virtio", "xen", "fd", "unix"})
"""Transports of 9p that no interface carries (net/9p/trans_*.c)."""


class NetworkMount(msgspec.Struct, frozen=True, kw_only=True):
    """Something mounted over the network.

    Attributes
    ----------
    what : str
        For people, as in ``nfs4 on /home``.
    server : str
        Address or name of a server; empty when the kernel does not tell.
    source : str
        File that told it.
    """

    what: str
    server: str
    source: str


def network_mounts(root: Path) -> list[NetworkMount]:
    """Each server of each network file system and iSCSI session.

    Raises
    ------
    OSError, ValueError
        A file is missing or unreadable, or has another form.
    """
    mounts = [
        mount for line in (root / MOUNTS).read_text().splitlines() for mount in _servers_of(line.split())
    ]
    return mounts + _iscsi(root)


def _servers_of(fields: list[str]) -> Iterator[NetworkMount]:
    """Servers of one line of mountinfo (Documentation/filesystems/proc.rst, 3.5)."""
    kind, device, *rest = fields[fields.index("-", 6) + 1 :]
    options = dict(option.partition("=")[::2] for option in (rest[0] if rest else "").split(","))
    servers = _servers(kind, _unescaped(device), options)
    for server in servers:
        yield NetworkMount(what=f"{kind} on {_unescaped(fields[4])}", server=server, source=MOUNTS)


def _servers(kind: str, device: str, options: dict[str, str]) -> list[str]:
    """Servers of one mount; an empty name stands for one that is not told."""
    if kind in {"nfs", "nfs4", "cifs", "smb3"}:
        return [options.get("addr", "")]
    if kind == "9p" and options.get("trans") not in LOCAL_9P:
        return [device]
    if kind == "ceph":
        listed = options.get("mon_addr", "").replace("/", ",") or device.rpartition(":/")[0]
        return [_without_port(monitor) for monitor in listed.split(",")]
    return []


def _iscsi(root: Path) -> list[NetworkMount]:
    (root / ISCSI).parent.stat()  # without sysfs nothing is known
    folder = root / ISCSI
    connections = sorted(folder.iterdir()) if folder.exists() else []
    return [
        NetworkMount(
            what=f"iSCSI {each.name}",
            server=(each / "address").read_text().strip(),
            source=f"{ISCSI}/{each.name}/address",
        )
        for each in connections
    ]


def _without_port(monitor: str) -> str:
    bracketed = re.search(r"\[(.*?)\]", monitor)
    if bracketed:
        return bracketed[1]
    return re.sub(r"^v[12]:", "", monitor).partition(":")[0]


def _unescaped(text: str) -> str:
    """Blanks and the like are octal in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)
