"""Servers that mounted file systems and network disks (iSCSI, NVMe, NBD, RBD) reach over the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

MOUNTS: Final = "proc/self/mountinfo"
ISCSI: Final = "sys/class/iscsi_connection"
NVME: Final = "sys/class/nvme"
BLOCK: Final = "sys/block"
LOCAL_9P: Final = frozenset({"virtio", "xen", "fd", "unix"})
"""Transports of 9p that no interface carries (net/9p/trans_*.c)."""
NVME_OVER_NETWORK: Final = frozenset({"tcp", "rdma"})
"""Transports of ``/sys/class/nvme/*/transport`` with an IP address (drivers/nvme/host/fabrics.c)."""
HOST_FIRST: Final = frozenset({"fuse.sshfs", "fuse.glusterfs"})
"""Their device is ``[user@]host:path``."""
SERVER_UNTOLD: Final = frozenset(
    (
        "afs beegfs coda orangefs pvfs2 gpfs davfs fuse.ceph fuse.ceph-fuse fuse.curlftpfs fuse.davfs2 "
        "fuse.gcsfuse fuse.rclone fuse.s3fs fuse.smbnetfs fuse.mfs"
    ).split()
)
"""File systems of the network whose mount does not name an address."""


class NetworkMount(msgspec.Struct, frozen=True, kw_only=True):
    """Something mounted, or a disk, over the network.

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
    """Each server of each network file system and network disk.

    Raises
    ------
    OSError, ValueError
        A file is missing or unreadable, or has another form.
    """
    mounts = [
        mount for line in (root / MOUNTS).read_text().splitlines() for mount in _servers_of(line.split())
    ]
    (root / ISCSI).parent.stat()  # without sysfs nothing is known
    return [*mounts, *_iscsi(root), *_nvme(root), *_block_devices(root)]


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
    if kind in HOST_FIRST:
        return [_host(device)]
    if kind == "lustre":
        # 192.0.2.4@tcp,192.0.2.5@tcp:192.0.2.6@tcp:/name
        nodes = re.split("[,:]", device.rpartition(":/")[0])
        return [node.partition("@")[0] for node in nodes]
    return [""] if kind in SERVER_UNTOLD else []


def _iscsi(root: Path) -> Iterator[NetworkMount]:
    for each in _entries(root / ISCSI):
        address = (each / "address").read_text().strip()
        yield NetworkMount(what=f"iSCSI {each.name}", server=address, source=f"{ISCSI}/{each.name}/address")


def _nvme(root: Path) -> Iterator[NetworkMount]:
    """Controllers over TCP or RDMA; their address is ``traddr=192.0.2.4,trsvcid=4420``."""
    for each in _entries(root / NVME):
        transport = (each / "transport").read_text().strip()
        if transport in NVME_OVER_NETWORK:
            words = (each / "address").read_text().strip().split(",")
            options = dict(word.partition("=")[::2] for word in words)
            what, source = f"NVMe over {transport} {each.name}", f"{NVME}/{each.name}/address"
            yield NetworkMount(what=what, server=options.get("traddr", ""), source=source)


def _block_devices(root: Path) -> Iterator[NetworkMount]:
    """Connected NBD and RBD disks; sysfs keeps their servers to itself."""
    for each in _entries(root / BLOCK):
        if each.name.startswith("nbd") and (each / "pid").exists():
            yield NetworkMount(what=f"NBD {each.name}", server="", source=f"{BLOCK}/{each.name}/pid")
        if each.name.startswith("rbd"):
            yield NetworkMount(what=f"RBD {each.name}", server="", source=f"{BLOCK}/{each.name}")


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _host(device: str) -> str:
    """Host of ``[user@]host:path``; an IPv6 address stands in brackets."""
    host = device.rpartition("]")[0] if "]" in device else device.partition(":")[0]
    return host.rpartition("@")[2].lstrip("[")


def _without_port(monitor: str) -> str:
    bracketed = re.search(r"\[(.*?)\]", monitor)
    if bracketed:
        return bracketed[1]
    return re.sub(r"^v[12]:", "", monitor).partition(":")[0]


def _unescaped(text: str) -> str:
    """Blanks and the like are octal in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)
