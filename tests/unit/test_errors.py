"""What an error says: the place and the remedy, errno, and the kernel's own words where there are any."""

from __future__ import annotations

import errno
import os

from labkit.errors import SettingRefusedError, listed


def test_kernels_words_follow_the_errno() -> None:
    refused = SettingRefusedError(
        "veth0: MTU 9", errno=errno.EINVAL, kernel_text="mtu less than device minimum"
    )
    assert str(refused) == ("veth0: MTU 9 [EINVAL: Invalid argument] [kernel: mtu less than device minimum]")


def test_words_that_only_repeat_the_errno_are_said_once() -> None:
    refused = SettingRefusedError("veth0: MTU 9", errno=errno.EINVAL, kernel_text=os.strerror(errno.EINVAL))
    assert str(refused) == "veth0: MTU 9 [EINVAL: Invalid argument]"


def test_errno_that_libc_does_not_know_is_told_by_its_number() -> None:
    assert str(SettingRefusedError("veth0", errno=524)).startswith("veth0 [errno 524: ")


def test_long_list_of_names_is_cut_and_counted() -> None:
    assert listed([]) == "none"
    assert listed(["mtu", "qdisc"]) == "mtu, qdisc"
    assert listed([str(n) for n in range(20)], most=2) == "0, 1 and 18 more"
