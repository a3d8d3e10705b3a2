"""What is said when the kernel refuses a step towards a private network: step, reason, remedy, errno."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from labkit.errors import CapabilityMissingError
from labkit.linux.namespaces import step, step_refused

FILTERED = "Name:\tpython3\nSeccomp:\t2\nSeccomp_filters:\t1\n"


def place(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("file", "text", "number", "reason", "remedy"),
    [
        ("user__max_user_namespaces", "0", errno.ENOSPC, "user.max_user_namespaces is 0", "=10000`"),
        ("user__max_net_namespaces", "0", errno.ENOSPC, "user.max_net_namespaces is 0", "=10000`"),
        (
            "kernel__unprivileged_userns_clone",
            "0",
            errno.EPERM,
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "kernel__apparmor_restrict_unprivileged_userns",
            "1",
            errno.EACCES,
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_a_switch_that_forbids_is_named_with_its_remedy(
    tmp_path: Path, file: str, text: str, number: int, reason: str, remedy: str
) -> None:
    said = str(step_refused("writing /proc/self/uid_map", number, place(tmp_path, **{f"sys__{file}": text})))
    for part in ("writing /proc/self/uid_map", reason, remedy, "sim:ixgbe", errno.errorcode[number]):
        assert part in said


def test_a_switch_that_cannot_be_the_reason_is_not_named(tmp_path: Path) -> None:
    root = place(tmp_path, sys__user__max_user_namespaces="0")
    assert "max_user_namespaces" not in str(step_refused("unshare", errno.EPERM, root))


def test_a_seccomp_filter_is_named_beside_a_switch(tmp_path: Path) -> None:
    root = place(tmp_path, self__status=FILTERED, sys__kernel__apparmor_restrict_unprivileged_userns="1")
    said = str(step_refused("unshare", errno.EPERM, root))
    assert "a seccomp filter is in force" in said
    assert "apparmor" in said
    assert "seccomp filter" not in str(step_refused("unshare", errno.ENOSPC, root))


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSPC, errno.EINVAL, None])
def test_without_a_known_reason_it_is_said_where_to_look(tmp_path: Path, number: int | None) -> None:
    told = step_refused("unshare", number, tmp_path)
    assert "veth rig: unshare is refused here (" in str(told)
    assert told.errno == number


def test_a_step_keeps_the_errno_and_lets_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(CapabilityMissingError, match="EACCES") as told, step("mounting", tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert told.value.errno == errno.EACCES
    with pytest.raises(KeyError), step("mounting", tmp_path):
        raise KeyError
