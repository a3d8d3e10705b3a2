"""The guest's own kernel, started for real: what its init makes of the kernel's words."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit
from labkit.guest.image import GuestImage, image
from labkit.guest.words import PORT, kernel_words
from tests.vm.boot import boot, own_links, own_places

pytestmark = pytest.mark.vm

ABOUT = """
import json, os, socket, subprocess, sys
import labkit
def run(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
print(json.dumps({
    "argv": sys.argv[1:],
    "labkit": labkit.__file__,
    "release": os.uname().release,
    "hostname": socket.gethostname(),
    "links": [link["ifname"] for link in json.loads(run("ip", "-j", "link"))],
    "lo": json.loads(run("ip", "-j", "link", "show", "lo"))[0]["flags"],
    "netns": run("sh", "-c", "ip netns add peer && ip netns list").split(),
    "user": run("unshare", "--user", "--map-root-user", "id", "-u").strip(),
    "pktgen": sorted(os.listdir("/proc/net/pktgen")),
    "drivers": sorted(os.listdir("/sys/module")),
    "warnings": run("dmesg", "--level", "warn,err,crit"),
    "written": [open(place + "/x", "w").write("x") for place in ("/tmp", "/run", "/var/tmp", "/dev/shm")],
    "odd": open(sys.argv[1]).read(),
    "line": sys.stdin.readline(),
}))
print("to the console", file=sys.stderr)
sys.exit(7)
"""
NETWORK_DRIVERS = {"e1000e", "e1000", "igb", "virtio_net", "vmxnet3", "veth", "dummy", "ifb"}


@pytest.fixture
def odd_folder() -> Iterator[Path]:
    """A folder below /tmp with all that separates words somewhere in its path."""
    with tempfile.TemporaryDirectory(prefix="labkit-guest-", dir="/tmp") as made:
        folder = Path(made) / "a b,c:d%41\"q'é"
        folder.mkdir()
        (folder / "about.py").write_text(ABOUT)
        (folder / "file").write_text("found\n")
        yield folder


def test_command_finds_its_python_its_checkout_and_a_machine_as_it_should_be(
    guest_image: GuestImage, odd_folder: Path
) -> None:
    asked = [str(odd_folder / "file"), "", "two\nlines\n"]
    said = boot(
        guest_image,
        [sys.executable, "-I", str(odd_folder / "about.py"), *asked],
        places=own_places() | {"odd": str(odd_folder)},
        say=b"to the guest\n",
    )
    told = json.loads(said.port)
    assert told["argv"] == asked
    assert told["labkit"] == labkit.__file__
    assert told["release"] == guest_image.release
    assert told["hostname"] == "labkit-guest"
    assert told["links"] == ["lo", "eth0", "eth1"]
    assert "UP" in told["lo"]
    assert told["netns"] == ["peer"]
    assert told["user"] == "0"
    assert told["pktgen"] == ["kpktgend_0", "pgctrl"]
    assert set(told["drivers"]) >= NETWORK_DRIVERS
    assert told["warnings"] == ""
    assert told["written"] == [1, 1, 1, 1]
    assert told["odd"] == "found\n"
    assert told["line"] == "to the guest\n"
    assert "to the console" in said.console
    assert "labkit: agent ended with status 7" in said.console


def test_the_same_initramfs_serves_every_nic(guest_image: GuestImage) -> None:
    shell = ["/bin/sh", "-c", "for d in /sys/class/net/eth*; do readlink $d/device/driver; done"]
    nics = ["e1000", "virtio-net-pci", "vmxnet3", "e1000e"]
    said = boot(guest_image, shell, places={"usr": "/usr"}, nics=nics)
    found = {line.rpartition("/")[2] for line in said.port.split()}
    assert found == {"e1000", "virtio_net", "vmxnet3", "e1000e"}


@pytest.mark.parametrize(
    ("tag", "command", "port", "what"),
    [
        ("nowhere", ["/bin/true"], PORT, "mounting nowhere at /usr"),
        ("usr", [], PORT, "finding labkit.exec on the command line"),
        ("usr", ["/bin/true"], "other", "finding the port labkit.agent"),
    ],
)
def test_init_says_what_failed_and_ends(
    guest_image: GuestImage, tag: str, command: list[str], port: str, what: str
) -> None:
    words = kernel_words([(tag, "/usr")], own_links(), command)
    said = boot(guest_image, [], places={"usr": "/usr"}, words=words, port=port)
    assert f"labkit: init: {what} failed" in said.console
    assert said.port == ""


def test_command_that_is_killed_ends_the_machine_too(guest_image: GuestImage) -> None:
    said = boot(guest_image, ["/bin/sh", "-c", "kill -9 $$"], places={"usr": "/usr"})
    assert "labkit: agent ended with status 137" in said.console


def test_image_that_is_there_is_taken_and_a_damaged_one_is_made_again(guest_image: GuestImage) -> None:
    told: list[str] = []
    cache = guest_image.initramfs.parent
    assert image(cache, tell=told.append) == guest_image
    assert told == []
    whole = guest_image.initramfs.read_bytes()
    guest_image.initramfs.write_bytes(whole[:-1] + b"x")
    assert image(cache, tell=told.append) == guest_image
    assert guest_image.initramfs.read_bytes() == whole
