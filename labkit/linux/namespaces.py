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
from typing import Final

from labkit.errors import CapabilityMissingError, LabError, WorkloadError

# <linux/sched.h>, <sys/mount.h>; Python offers them from 3.12 only
CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
# <linux/mount.h>, <asm-generic/unistd.h>
FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
FSOPEN_CLOEXEC, FSCONFIG_CMD_CREATE, FSMOUNT_CLOEXEC = 1, 6, 1

_NO_ROOM, _NO_RIGHT = frozenset({errno.ENOSPC}), frozenset({errno.EPERM, errno.EACCES})
SWITCHES: Final = (
    ("user/max_user_namespaces", "0", "10000", _NO_ROOM),
    ("user/max_net_namespaces", "0", "10000", _NO_ROOM),
    ("user/max_mnt_namespaces", "0", "10000", _NO_ROOM),
    ("kernel/unprivileged_userns_clone", "0", "1", _NO_RIGHT),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0", _NO_RIGHT),
)
"""Below /proc/sys: file, the value that forbids namespaces, one that allows them, and errnos of refusals."""

NAMED: Final = Path("/run/netns")
"""Where `ip netns` keeps network namespaces by their names."""

_libc = ctypes.CDLL(None, use_errno=True)


def enter_private_network(*, force_user_namespace: bool, proc: Path = Path("/proc")) -> bool:
    """Move into network and mount namespaces of our own; True when a user namespace was needed for it.

    Whether one is needed is asked of the kernel: it refuses the plain call to who lacks CAP_SYS_ADMIN.

    Raises
    ------
    CapabilityMissingError
        A step is refused here; the message names it, what is known to refuse it, and what to do.
    """
    if not force_user_namespace:
        try:
            with step("unshare(CLONE_NEWNET | CLONE_NEWNS)", proc):
                _unshare(CLONE_NEWNET | CLONE_NEWNS)
        except CapabilityMissingError as refused:
            if refused.errno != errno.EPERM:
                raise
        else:
            _mount_private(proc)
            return False
    uid, gid = os.geteuid(), os.getegid()
    with step("unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS)", proc):
        _unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS)
    for file, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with step(f"writing /proc/self/{file}", proc):
            (proc / "self" / file).write_text(text)
    _mount_private(proc)
    return True


@contextlib.contextmanager
def step(what: str, proc: Path = Path("/proc")) -> Iterator[None]:
    """Name the step that the kernel refuses inside the block, what is known to refuse it, and what to do."""
    try:
        yield
    except OSError as refused:
        raise step_refused(what, refused.errno, proc) from refused


def step_refused(what: str, number: int | None, proc: Path = Path("/proc")) -> CapabilityMissingError:
    """What to say when the kernel refuses step `what` with errno `number`."""
    known = list(_what_refuses(number, proc)) or [_guess(number)]
    reasons = "; ".join(reason for reason, _ in known)
    remedies = " and ".join(remedy for _, remedy in known)
    return CapabilityMissingError(
        f"veth rig: {what} is refused here ({reasons}); {remedies}, or use rig 'sim:ixgbe'", errno=number
    )


def _what_refuses(number: int | None, proc: Path) -> Iterator[tuple[str, str]]:
    """Switches and filters in force that can refuse with `number`, each with its remedy."""
    for name, forbidding, allowing, numbers in SWITCHES:
        with contextlib.suppress(OSError):
            if number in numbers and (proc / "sys" / name).read_text().strip() == forbidding:
                sysctl = name.replace("/", ".")
                yield f"{sysctl} is {forbidding}", f"allow it with `sudo sysctl {sysctl}={allowing}`"
    with contextlib.suppress(OSError):
        filtered = "\nSeccomp:\t2\n" in (proc / "self/status").read_text()
        if filtered and number in {errno.EPERM, errno.EACCES, errno.ENOSYS}:
            remedy = (
                "let the container's seccomp profile allow unshare, setns and mount "
                "(docker run --security-opt seccomp=PROFILE)"
            )
            yield "a seccomp filter is in force, as containers have it", remedy


def _guess(number: int | None) -> tuple[str, str]:
    """Say where to look when no switch is seen."""
    if number == errno.ENOSPC:
        return "a limit on namespaces is used up", "raise it: `sysctl user` shows them, end what holds them"
    if number == errno.EINVAL:
        return "this kernel has no such namespaces, or the process has threads", "run as root"
    return (
        "a container or policy forbids it, or a chroot",
        "run outside of it as an ordinary user, or as root",
    )


def new_network() -> int:
    """Make one more network namespace without entering it; the descriptor keeps it alive."""
    before = current_network()
    try:
        with step("unshare(CLONE_NEWNET) for the receiving end"):
            _unshare(CLONE_NEWNET)
        made = current_network()
        _setns(before)
    finally:
        os.close(before)
    return made


def current_network() -> int:
    """Descriptor of this thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def named_network(name: str, named: Path = NAMED) -> int:
    """Descriptor of the network namespace that `ip netns` calls `name`, which can be entered.

    Raises
    ------
    WorkloadError
        There is none of that name.
    CapabilityMissingError
        It may not be entered.
    """
    path, network = named / name, None
    try:
        network = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with inside(network):
            return network
    except OSError as refused:
        if network is not None:
            os.close(network)
        raise _not_entered(path, refused.errno) from refused


def name_network(network: int, name: str, named: Path = NAMED) -> None:
    """Let `ip netns` know `network` (a descriptor) by `name`.

    Raises
    ------
    OSError
        The name is taken, or mounts are not allowed.
    """
    named.mkdir(parents=True, exist_ok=True)
    place = named / name
    os.close(os.open(place, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    _mount(f"/proc/self/fd/{network}".encode(), os.fsencode(place), None, MS_BIND)


def _not_entered(path: Path, number: int | None) -> LabError:
    if number in _NO_RIGHT:
        return CapabilityMissingError(
            f"{path}: entering a network namespace needs CAP_SYS_ADMIN, here and in it; work as root, "
            "outside of a container",
            errno=number,
        )
    if number == errno.EINVAL:
        return WorkloadError(
            f"{path}: a file that holds no network namespace here: it was made in another mount namespace, "
            "or what it held is unmounted; `ip netns delete` and `ip netns add` make it anew",
            errno=number,
        )
    return WorkloadError(f"{path}: no such network namespace; `ip netns list` lists them", errno=number)


def network_inode() -> int:
    """Number of this thread's network namespace: interface numbers mean something within it only."""
    return os.stat("/proc/thread-self/ns/net").st_ino


def network_lives(inode: int, proc: Path = Path("/proc"), named: Path = NAMED) -> bool:
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
        try:
            yield
        finally:
            _setns(before)
    finally:
        os.close(before)


def mount_sysfs() -> None:
    """Show this network namespace's devices under /sys.

    Raises
    ------
    OSError
        A container forbids the mount.
    """
    _mount(b"sysfs", b"/sys", b"sysfs", 0)


def sysfs_of(network: int) -> Path:
    """Root of a sysfs that shows the devices of `network`.

    It is mounted nowhere, so that nobody else sees it: a descriptor keeps it as long as the process lives.

    Raises
    ------
    OSError
        A container forbids the mount, or the kernel is older than Linux 5.2.
    """
    with inside(network):
        context = _call(FSOPEN, b"sysfs", FSOPEN_CLOEXEC)
        try:
            _call(FSCONFIG, context, FSCONFIG_CMD_CREATE, None, None, 0)
            descriptor = _call(FSMOUNT, context, FSMOUNT_CLOEXEC, 0)
        finally:
            os.close(context)
    return Path(f"/proc/self/fd/{descriptor}")


def _call(number: int, *arguments: bytes | int | None) -> int:
    """Make a system call that libc has no function for before glibc 2.36."""
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise _last_error()
    return result


def _mount_private(proc: Path = Path("/proc")) -> None:
    with step("mount(MS_PRIVATE | MS_REC) of /", proc):
        _mount(None, b"/", None, MS_REC | MS_PRIVATE)


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int) -> None:
    if _libc.mount(source, target, kind, ctypes.c_ulong(flags), None) != 0:
        raise _last_error(target.decode())


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise _last_error()


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise _last_error()


def _last_error(*path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), *path)
