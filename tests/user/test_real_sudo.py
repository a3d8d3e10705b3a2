"""An ordinary user's way to a device: the root-owned agent, started by the system's own sudo.

Everything lies in a network and in mounts of the test: the copy, the rule, journal and locks go with them,
however the test ends.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

RULE, COPY = "/etc/sudoers.d/labkit-agent", "/usr/local/lib/labkit-agent"
PRIVATE = """
set -e
mount -t sysfs sysfs /sys
for place in /etc/sudoers.d /usr/local/lib /var/lib /run; do mount -t tmpfs -o mode=755 tmpfs $place; done
for scope in all default; do echo 1 > /proc/sys/net/ipv6/conf/$scope/disable_ipv6 || true; done
ip link add va type veth peer name vb
ip link set va up
ip link set vb up
echo ready
exec sleep 600
"""
RUN = "labkit run --rig nic:va --port vb --i-know va --engine sendmmsg --duration 0.1 --set mtu=1400 --json"

pytestmark = [pytest.mark.user, pytest.mark.network, pytest.mark.timeout(600)]


class Place(NamedTuple):
    """A host of its own with a veth pair `va`, `vb`, and one ordinary user."""

    pid: int
    user: str
    home: Path
    commands: Path

    def as_root(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", f"--target={self.pid}", "--net", "--mount", "--", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def as_user(self, *command: str) -> subprocess.CompletedProcess[str]:
        clean = [f"HOME={self.home}", "LANG=C.UTF-8", f"PATH={self.commands}:/usr/bin:/bin"]
        return self.as_root(
            "runuser", "-u", self.user, "--", "env", "-i", f"--chdir={self.home}", *clean, *command
        )

    def install(self) -> None:
        done = self.as_root(str(self.commands / "labkit"), "install-agent", "--user", self.user)
        assert done.returncode == 0, done.stderr

    def mtu(self) -> int:
        return int(json.loads(self.as_root("ip", "-json", "link", "show", "va").stdout)[0]["mtu"])


@pytest.fixture(scope="module")
def host(ordinary_user) -> Iterator[Place]:
    if shutil.which("sudo") is None:
        pytest.skip("no sudo: make system-packages")
    with subprocess.Popen(
        ["unshare", "--net", "--mount", "bash", "-c", PRIVATE], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            yield Place(holder.pid, ordinary_user.name, ordinary_user.home, ordinary_user.commands)
        finally:
            holder.kill()


@pytest.fixture
def installed(host: Place) -> Place:
    host.install()
    return host


def test_rule_is_the_one_that_is_printed_and_sudo_accepts_it(installed: Place) -> None:
    printed = installed.as_user("labkit", "install-agent", "--dry-run", "--user", installed.user).stdout
    assert installed.as_root("cat", RULE).stdout.splitlines()[-1] == printed.splitlines()[-1]
    checked = installed.as_root("/usr/sbin/visudo", "-c")
    assert checked.returncode == 0, checked.stderr
    assert f"{RULE}: parsed OK" in checked.stdout


def test_user_turns_a_setting_sends_packets_and_everything_comes_back(installed: Place) -> None:
    done = installed.as_user(*RUN.split())
    assert done.returncode == 0, done.stderr
    trial = json.loads(done.stdout)
    assert trial["privilege"] == "sudo"
    assert trial["settings_accepted"]["mtu"] == 1400
    assert trial["engine_sent"] == trial["device_sent"] > 0
    assert installed.mtu() == 1500
    assert installed.as_root("ls", "-A", "/var/lib/labkit/journal").stdout == ""


def test_agent_puts_everything_back_when_its_notebook_is_killed(installed: Place) -> None:
    code = (
        "import os, signal; from labkit.rigs.device import DeviceRig\n"
        "rig = DeviceRig('va', i_know='va')\n"
        "held = rig.applied({'mtu': 1300}); held.__enter__()\n"
        "print(rig._client.look('wire').link.mtu, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = installed.as_user("python", "-c", code)
    assert done.stdout == "1300\n", done.stderr
    tries = 200
    while installed.mtu() != 1500 and tries:
        tries -= 1
    assert installed.mtu() == 1500
    restored = installed.as_user("labkit", "restore")
    assert (restored.returncode, restored.stdout) == (0, "nothing is left to put back\n")


@pytest.mark.parametrize(
    "words",
    [
        (f"{COPY}/bin/python", "-c", "print('root')"),
        (f"{COPY}/bin/python", "-I", "-m", "labkit.agent", "--state", "/root"),
        (f"{COPY}/bin/python", "-m", "labkit.agent"),
        ("/bin/true",),
    ],
    ids=["code", "more words", "fewer words", "another program"],
)
def test_rule_allows_the_agent_and_nothing_else(installed: Place, words: tuple[str, ...]) -> None:
    done = installed.as_user("sudo", "-n", *words)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "password" in done.stderr


def test_without_the_rule_it_is_said_what_to_do(installed: Place) -> None:
    installed.as_root("rm", RULE)
    done = installed.as_user(*RUN.split())
    assert (done.returncode, done.stdout) == (4, "")
    assert "sudo: a password is required" in done.stderr
    assert f"sudo {installed.commands}/labkit install-agent" in done.stderr
    assert installed.mtu() == 1500


@pytest.mark.parametrize(
    "place", ["", "/lib", "/lib/*/site-packages/labkit/errors.py", "/lib/*/site-packages/msgspec"]
)
def test_copy_that_its_group_may_write_is_refused(installed: Place, place: str) -> None:
    [path] = installed.as_root("sh", "-c", f"chmod g+w {COPY}{place} && echo {COPY}{place}").stdout.split()
    done = installed.as_user(*RUN.split())
    assert (done.returncode, done.stdout) == (4, "")
    assert f"{path} can be written by its group" in done.stderr
    assert installed.mtu() == 1500


def test_copy_is_not_made_below_a_folder_that_others_can_write(host: Place) -> None:
    try:
        assert host.as_root("chmod", "g+w", "/usr/local/lib").returncode == 0
        done = host.as_root(str(host.commands / "labkit"), "install-agent", "--user", host.user)
    finally:
        host.as_root("chmod", "g-w", "/usr/local/lib")
    assert done.returncode == 4
    assert "sudo chmod go-w /usr/local/lib" in done.stderr


@pytest.mark.parametrize("user", ["ALL", "%sudo", "nosuch", "root\nALL"])
def test_rule_is_made_for_one_user_who_is_there(host: Place, user: str) -> None:
    done = host.as_root(str(host.commands / "labkit"), "install-agent", "--user", user)
    assert done.returncode == 2
    assert "there is no user" in done.stderr
