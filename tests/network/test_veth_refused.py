"""The veth rig where a container or a policy refuses one step: it says which, or goes on without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

pytestmark = pytest.mark.network
LABKIT = Path(sys.executable).with_name("labkit")
TRIAL = f"LABKIT_USERNS=1 {LABKIT} run --rig veth --engine sendmmsg --duration 0.1 --json"
IN_USER_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")

FILTERED = """
import ctypes, os, platform, struct, sys
numbers = {"x86_64": {"unshare": 272, "mount": 165}, "aarch64": {"unshare": 97, "mount": 40}}
number = numbers[platform.machine()][sys.argv[1]]
# <linux/filter.h>: load the call's number; refuse it with EPERM if it is ours, else allow it
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x0005_0000 | 1), (0x06, 0, 0, 0x7FFF_0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
program = struct.pack("@HP", len(rules), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit("no seccomp filter here: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Runs a command under a seccomp filter that refuses one system call."""


def run(*command: str) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def filtered(call: str, trial: str = TRIAL) -> tuple[int, str, str]:
    return run(sys.executable, "-c", FILTERED, call, "sh", "-c", trial)


def test_user_namespaces_that_are_used_up_are_told_with_step_and_switch() -> None:
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    code, out, err = run(*IN_USER_NAMESPACE, f"{forbid} && {TRIAL}")
    assert (code, out) == (4, "")
    assert "unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) is refused" in err
    assert "user.max_user_namespaces is 0" in err
    assert "ENOSPC" in err


def test_network_namespaces_that_are_used_up_are_told_too() -> None:
    code, _, err = run(
        *IN_USER_NAMESPACE,
        f"echo 1 > /proc/sys/user/max_net_namespaces && {TRIAL.replace('USERNS=1', 'USERNS=0')}",
    )
    assert code == 4
    assert "unshare(CLONE_NEWNET) for the receiving end is refused here (a limit on namespaces" in err


def test_a_seccomp_filter_that_refuses_unshare_is_told() -> None:
    code, out, err = filtered("unshare")
    assert (code, out) == (4, "")
    assert "unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) is refused" in err
    assert "a seccomp filter is in force" in err
    assert "[EPERM" in err


def test_a_seccomp_filter_that_refuses_mount_is_told() -> None:
    code, _, err = filtered("mount")
    assert code == 4
    assert "mount(MS_PRIVATE | MS_REC) of / is refused here (a seccomp filter" in err


COVERED = "mount -t tmpfs none /sys/kernel && exec unshare --user --map-root-user sh -c"
"""As containers do it: something lies over a part of /sys, so that user namespaces may mount no other one."""


@pytest.fixture(scope="module")
def without_sysfs() -> tuple[str, ...]:
    """Prefix of a command in a place that mounts no sysfs in a user namespace."""
    place = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    return (*place, f'{COVERED} "$0"')


def test_without_a_sysfs_packets_are_sent_counted_and_reconciled(without_sysfs: tuple[str, ...]) -> None:
    code, out, err = run(*without_sysfs, TRIAL)
    assert code == 0, err
    trial = msgspec.json.decode(out)
    assert trial["reconciled"] is True
    assert trial["device_sent"] == trial["peer_received"] > 0
    # by ioctl, which needs no sysfs
    assert trial["peer_dropped"] is not None
    assert "threaded" not in trial["settings_accepted"]
    assert "no threaded, napi_defer_hard_irqs, gro_flush_timeout_ns: mounting a sysfs" in err
    assert "EPERM" in err


def test_a_setting_that_needs_the_sysfs_says_so(without_sysfs: tuple[str, ...]) -> None:
    code, _, err = run(*without_sysfs, f"{TRIAL} --set threaded=true")
    assert code == 4
    assert "no setting 'threaded': mounting a sysfs of the receiving end" in err
