"""Private namespaces for a process that wants a network of its own, root or not.

`unshare(CLONE_NEWUSER)` fails with EINVAL once a second thread exists, so entering comes before any thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from labkit.errors import CapabilityMissingError

# <linux/sched.h>, <sys/mount.h>; Python offers them from 3.12 only
CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def enter_private_network(*, force_user_namespace: bool, proc: Path = Path("/proc")) -> bool:
    """Move into network and mount namespaces of our own; True when a user namespace was needed for it.

    Whether one is needed is asked of the kernel: it refuses the plain call to who lacks CAP_SYS_ADMIN.

    Raises
    ------
    CapabilityMissingError
        User namespaces are forbidden here; the message names the sysctl that forbids them.
    """
    if not force_user_namespace:
        try:
            _unshare(CLONE_NEWNET | CLONE_NEWNS)
        except PermissionError:
            pass
        else:
            _mount_private()
            return False
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS)
        (proc / "self/setgroups").write_text("deny")
        (proc / "self/uid_map").write_text(f"0 {uid} 1")
        (proc / "self/gid_map").write_text(f"0 {gid} 1")
    except OSError as refused:
        raise user_namespaces_forbidden(refused.errno, proc) from refused
    _mount_private()
    return True


def user_namespaces_forbidden(number: int | None, proc: Path = Path("/proc")) -> CapabilityMissingError:
    """What to say when the kernel refuses a user namespace, or powers inside one, with errno `number`."""
    remedies = [
        ("user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ]
    for name, forbidding, remedy in remedies:
        with contextlib.suppress(OSError):
            if (proc / "sys" / name).read_text().strip() == forbidding:
                said = f"{name.replace('/', '.')} is {forbidding}"
                return CapabilityMissingError(
                    f"veth rig: user namespaces are forbidden here ({said}); allow them with `{remedy}`, "
                    f"run as root, or use rig 'sim:ixgbe'",
                    errno=number,
                )
    where = (
        "user.max_user_namespaces is used up"
        if number == errno.ENOSPC
        else "a container or policy forbids them"
    )
    return CapabilityMissingError(
        f"veth rig: user namespaces are refused here ({where}); look at `sysctl user.max_user_namespaces` "
        f"and the container's seccomp profile, run as root, or use rig 'sim:ixgbe'",
        errno=number,
    )


def new_network() -> int:
    """Make one more network namespace without entering it; the descriptor keeps it alive."""
    before = current_network()
    try:
        _unshare(CLONE_NEWNET)
        made = current_network()
        _setns(before)
    finally:
        os.close(before)
    return made


def current_network() -> int:
    """Descriptor of this thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def network_inode() -> int:
    """Number of this thread's network namespace: interface numbers mean something within it only."""
    return os.stat("/proc/thread-self/ns/net").st_ino


def network_lives(inode: int, proc: Path = Path("/proc"), named: Path = Path("/run/netns")) -> bool:
    """Whether a process is in the network namespace of that number, or `ip netns` holds it by a name."""
    for file in (*proc.glob("[0-9]*/ns/net"), *named.glob("*")):
        with contextlib.suppress(OSError):  # a process that has just ended
            if file.stat().st_ino == inode:
                return True
    return False


@contextlib.contextmanager
def inside(network: int) -> Iterator[None]:
    """Run the body in another network namespace; sockets opened there stay there."""
    before = current_network()
    try:
        _setns(network)
        yield
    finally:
        _setns(before)
        os.close(before)


def mount_sysfs() -> bool:
    """Show this network namespace's devices under /sys; False where a container forbids the mount."""
    return _mount(b"sysfs", b"/sys", b"sysfs", 0) == 0


def sysfs_of(network: int) -> Path | None:
    """Root of a sysfs that shows the devices of `network`; None where a container forbids the mount.

    It is mounted nowhere: a descriptor keeps it as long as the process lives.
    """
    with inside(network):
        if not mount_sysfs():
            return None
    descriptor = os.open("/sys", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    # a mount on top of it would catch the ".." of its symbolic links
    if _libc.umount2(b"/sys", MNT_DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "/sys")
    return Path(f"/proc/self/fd/{descriptor}")


def _mount_private() -> None:
    if _mount(None, b"/", None, MS_REC | MS_PRIVATE) != 0:
        number = ctypes.get_errno()
        raise CapabilityMissingError(
            "veth rig: mounts cannot be made private in this container", errno=number
        )


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int) -> int:
    return int(_libc.mount(source, target, kind, ctypes.c_ulong(flags), None))


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
