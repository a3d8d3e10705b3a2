"""A device that is a folder of plain files, and a program that turns its settings and is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from labkit.factors import Scalar
from labkit.linux.processes import is_alive, owner_of
from labkit.nic.apply import SettingsHost
from labkit.nic.journal import Device, FileJournal, Owner
from labkit.nic.knob import Knob
from labkit.nic.put_back import PutBack
from labkit.nic.queue_knobs import FilesKnob
from labkit.nic.recovery import Present, recover

ROOT = Path(__file__).resolve().parents[1]
ORIGINALS: dict[str, Scalar] = {"adaptive_rx": True, "rx_usecs": 3, "tx_ring": 512, "txqueuelen": 1000}
CHANGES = ({"tx_ring": 1001, "rx_usecs": 50}, {"tx_ring": 64, "txqueuelen": 7})
DEVICE = Device(netns_inode=4026531840, ifindex=7, ifname="eth7", hardware="02:00:00:00:00:07")


class RoundingKnob(FilesKnob):
    """A ring whose driver rounds up to a multiple of 8 and says nothing of it."""

    def write(self, value: Scalar) -> None:
        super().write(value + -value % 8 if isinstance(value, int) else value)


class TellingKnob:
    """A knob that tells before and behind each write."""

    resets_link = False

    def __init__(self, knob: Knob, on_step: Callable[[str], None]) -> None:
        self.name, self._knob, self._on_step = knob.name, knob, on_step

    def read(self) -> Scalar:
        return self._knob.read()

    def write(self, value: Scalar) -> None:
        self._on_step("before write")
        self._knob.write(value)
        self._on_step("behind write")


def make_tree(root: Path) -> None:
    (root / "device").mkdir(parents=True)
    for name, value in ORIGINALS.items():
        (root / "device" / name).write_text(f"{int(value) if isinstance(value, bool) else value}\n")


def tree_knobs(root: Path) -> dict[str, Knob]:
    knobs: list[Knob] = [
        FilesKnob("adaptive_rx", [root / "device/adaptive_rx"], "truth"),
        FilesKnob("rx_usecs", [root / "device/rx_usecs"], "number"),
        RoundingKnob("tx_ring", [root / "device/tx_ring"], "number"),
        FilesKnob("txqueuelen", [root / "device/txqueuelen"], "number"),
    ]
    return {knob.name: knob for knob in knobs}


def tree_values(root: Path) -> Mapping[str, Scalar]:
    return {name: knob.read() for name, knob in tree_knobs(root).items()}


def tree_host(
    root: Path, owner: Owner, *, device: Device = DEVICE, on_step: Callable[[str], None] = lambda _: None
) -> SettingsHost:
    journal = FileJournal(root / "journal", device, owner, on_step=on_step)
    knobs: dict[str, Knob] = {name: TellingKnob(knob, on_step) for name, knob in tree_knobs(root).items()}
    return SettingsHost(device.ifname, knobs, journal, lambda: True)


def recover_tree(root: Path, alive: Callable[[Owner], bool] = is_alive) -> list[PutBack]:
    def find(device: Device) -> Present:
        return Present(device.ifname, device.ifindex, tree_knobs(root))

    return recover(root / "journal", root / "locks", find, alive)


def child(root: Path, kill_at: str) -> None:
    """Turn settings to and fro; end at step `kill_at`, or never."""
    steps = 0

    def on_step(step: str) -> None:
        nonlocal steps
        steps += 1
        if str(steps) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    owner = owner_of(os.getpid())
    assert owner is not None
    host = tree_host(root, owner, on_step=on_step)
    print("turning", flush=True)  # noqa: T201
    while True:
        for changes in CHANGES:
            host.apply(changes)
        host.restore(0)
        if kill_at == "count":
            print(steps, flush=True)  # noqa: T201
            return


def start_child(root: Path, kill_at: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.nic_fakes", str(root), kill_at]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def steps_of_a_round(root: Path) -> int:
    """How many steps one round of changes and their way back has."""
    make_tree(root)
    with start_child(root, "count") as process:
        said, _ = process.communicate(timeout=60)
    return int(said.split()[-1])


def killed_at_step(root: Path, step: int) -> None:
    make_tree(root)
    with start_child(root, str(step)) as process:
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def killed_after(root: Path, seconds: float) -> None:
    """Kill a child at some moment behind its first word; the moment is the claim's subject, not a wait."""
    make_tree(root)
    with start_child(root, "never") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "turning\n"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        process.kill()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def random_seconds(seed: int) -> float:
    return random.Random(seed).uniform(0.0, 0.05)


if __name__ == "__main__":
    child(Path(sys.argv[1]), sys.argv[2])
