"""The commands for a real device on a veth pair that outlives them: preview, restore after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit.rigs.device import DeviceRig
from tests.network.private import Veth, in_private_network, veth_pair

pytestmark = pytest.mark.network
LABKIT = Path(sys.executable).with_name("labkit")


def labkit(*words: str) -> tuple[int, str]:
    told = subprocess.run([LABKIT, *words], capture_output=True, text=True, timeout=30, check=False)
    return told.returncode, told.stdout or told.stderr


def mtu(veth: Veth) -> int:
    return int(veth.ip.get_links(veth.ifindex)[0].get("mtu"))


DEVICE = ("--rig", "nic:tx0", "--i-know", "tx0")
"""The guard sees the sysfs of another network here, so it cannot know what depends on the interface."""

LEAVE_CHANGED = """
import os, signal, sys
from pathlib import Path
from labkit.rigs.device import DeviceRig
rig = DeviceRig("tx0", i_know="tx0", state=Path(sys.argv[1]))
held = rig.applied({"mtu": 1400})
held.__enter__()
os.kill(rig._client._process.pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave_changed(state: Path) -> None:
    """Change the MTU in a process that is killed together with its agent."""
    words = [sys.executable, "-c", LEAVE_CHANGED, str(state)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == -signal.SIGKILL, told.stderr


@in_private_network
def test_preview_changes_nothing_and_restore_puts_back_what_a_kill_left(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path))
    with veth_pair() as veth:
        assert labkit("restore", *state) == (0, "nothing is left to put back\n")
        leave_changed(tmp_path)
        assert mtu(veth) == 1400
        code, out = labkit("run", *DEVICE, "--set", "mtu=1300", "--dry-run", *state)
        assert code == 0, out
        assert out.splitlines() == [
            "tx0: mtu was left changed; opening the rig puts it back to 1500",
            "  mtu  1400 -> 1300",
            "The link stays up.",
        ]
        assert mtu(veth) == 1400
        code, out = labkit("restore", "--json", *state)
        assert (code, [each["outcome"] for each in json.loads(out)]) == (0, ["restored"])
        assert mtu(veth) == 1500


@in_private_network
def test_device_deleted_in_the_middle_of_a_run_is_told_with_what_could_not_be_put_back(
    tmp_path: Path,
) -> None:
    with veth_pair() as veth:
        words = ("run", *DEVICE, "--set", "mtu=1400", "--duration", "20", "--state", str(tmp_path))
        with subprocess.Popen([LABKIT, *words], stderr=subprocess.PIPE, text=True) as run:
            deadline = time.monotonic() + 20
            while mtu(veth) != 1400:
                assert time.monotonic() < deadline
                assert run.poll() is None
            veth.ip.link("del", index=veth.ifindex)
            _, err = run.communicate(timeout=30)
    assert run.returncode == 1, err
    assert "tx0: mtu is not there to be put back to 1500" in err
    assert "[ENODEV: No such device]" in err
    assert "Traceback" not in err


@in_private_network
def test_device_that_never_returns_is_forgotten_by_name_and_one_that_is_here_is_not(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path))
    with veth_pair() as veth:
        leave_changed(tmp_path)
        code, out = labkit("restore", "--forget", "tx0", *state)
        assert (code, "tx0: it is here, so `labkit restore` puts back mtu" in out) == (1, True), out
        code, out = labkit("restore", "--forget", "tx9", *state)
        assert (code, "tx9: nothing is kept of such a device; kept: tx0" in out) == (2, True), out
        assert mtu(veth) == 1400
        veth.ip.link("del", index=veth.ifindex)
        code, out = labkit("restore", "--forget", "tx0", *state)
        assert (code, out) == (0, "tx0: mtu is forgotten; before the lab it was 1500\n")
        assert labkit("restore", *state) == (0, "nothing is left to put back\n")


@in_private_network
def test_device_that_a_running_lab_holds_is_not_forgotten(tmp_path: Path) -> None:
    with veth_pair() as veth, DeviceRig("tx0", i_know="tx0", state=tmp_path) as rig:
        with rig.applied({"mtu": 1400}):
            code, out = labkit("restore", "--forget", "tx0", "--state", str(tmp_path))
            assert (code, "holds it and puts it back at its end" in out) == (1, True), out
            assert mtu(veth) == 1400
        assert mtu(veth) == 1500


@in_private_network
def test_setting_that_is_gone_for_now_makes_restore_fail_and_is_kept(tmp_path: Path) -> None:
    with veth_pair() as veth:
        leave_changed(tmp_path)
        veth.ip.link("del", index=veth.ifindex)
        for _ in range(2):
            code, out = labkit("restore", "--state", str(tmp_path))
            assert code == 1
            assert "mtu is not there to be put back to 1500; kept for later" in out


@in_private_network
def test_run_on_a_device_counts_at_the_second_port_and_puts_back(tmp_path: Path) -> None:
    with veth_pair() as veth:
        words = "--port rx0 --set mtu=1400 --count 100 --json".split()
        code, out = labkit("run", *DEVICE, *words, "--state", str(tmp_path))
        assert code == 0, out
        trial = json.loads(out)
        assert (trial["device_sent"], trial["peer_received"], trial["reconciled"]) == (100, 100, True)
        assert trial["settings_accepted"]["mtu"] == 1400
        assert mtu(veth) == 1500
