"""The emulated machine's command line, QEMU's monitor, and what the guest may read of the host."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.errors import LabError, WorkloadError
from labkit.guest.launch import GuestProcess, _steps, shared_folders
from labkit.guest.machine import Machine, qemu_arguments
from labkit.guest.monitor import Monitor


def arguments(machine: Machine, **others: object) -> list[str]:
    given = {
        "device": "e1000e",
        "kernel": Path("/c/vmlinux"),
        "initramfs": Path("/c/initramfs"),
        "shares": [("labkit0", Path("/usr"))],
        "words": "labkit.exec=agent",
        "monitor_fd": 7,
    }
    return qemu_arguments(machine, **(given | others))  # type: ignore[arg-type]


def after(words: list[str], option: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == option]


def test_an_emulated_machine_counts_instructions_and_begins_at_the_same_instant() -> None:
    words = arguments(Machine(nic="e1000e"))
    assert after(words, "-icount") == ["shift=0,sleep=off"]
    assert after(words, "-accel") == ["tcg,thread=single"]
    assert "clock=vm" in after(words, "-rtc")[0]
    assert after(words, "-seed") == ["1"]
    assert "norandmaps" in after(words, "-append")[0]


@pytest.mark.parametrize("cpus", [1, 2])
def test_an_emulated_cpu_does_not_clear_memory_byte_by_byte(cpus: int) -> None:
    assert after(arguments(Machine(nic="e1000e", cpus=cpus)), "-cpu") == ["max,erms=off"]


def test_kvm_has_the_hosts_clock() -> None:
    words = arguments(Machine(nic="e1000e", kvm=True))
    assert after(words, "-accel") == ["kvm"]
    assert after(words, "-cpu") == ["host"]
    assert "-icount" not in words


def test_two_cards_of_the_driver_share_a_hub_that_leads_nowhere() -> None:
    words = arguments(Machine(nic="virtio_net"), device="virtio-net-pci")
    assert after(words, "-netdev") == ["hubport,hubid=0,id=port0", "hubport,hubid=0,id=port1"]
    cards = [each for each in after(words, "-device") if "netdev=" in each]
    assert [card.split(",")[0] for card in cards] == ["virtio-net-pci"] * 2
    assert len({card.split("mac=")[1] for card in cards}) == 2


def test_folders_are_shared_read_only_whatever_they_are_called() -> None:
    words = arguments(Machine(nic="e1000e"), shares=[("labkit0", Path("/home/a,b c"))])
    (share,) = after(words, "-fsdev")
    assert "path=/home/a,,b c," in share
    assert "readonly=on" in share


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nic": "e1000e", "ports": 1}, "alone on its hub"),
        ({"nic": "e1000e", "cpus": 0}, "give 1 to 16"),
        ({"nic": "e1000e", "cpus": "2"}, "guest_cpus '2': give 1 to 16"),
        ({"nic": "e1000e", "cpus": 1.5}, "guest_cpus 1.5: give 1 to 16"),
        ({"nic": "e1000e", "cpus": True}, "guest_cpus True: give 1 to 16"),
    ],
)
def test_machines_that_cannot_work_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        Machine(**given)  # type: ignore[arg-type]


def test_what_is_shared_holds_python_its_environment_and_labkit_and_nothing_of_home() -> None:
    folders, links = shared_folders()
    assert Path("/usr") in folders
    for needed in (sys.prefix, sys.base_prefix, str(Path(labkit.__file__).parent)):
        assert any(Path(needed).is_relative_to(folder) for folder in folders)
    checkout = Path(labkit.__file__).parents[1]
    assert not any(checkout.is_relative_to(folder) for folder in folders if folder != checkout)
    assert checkout not in folders
    assert all(Path(link).is_symlink() for link in links)


def test_links_on_the_way_to_python_that_no_folder_holds_are_made_in_the_guest(tmp_path: Path) -> None:
    real, alternatives, venv = tmp_path / "opt", tmp_path / "alternatives", tmp_path / "venv"
    for folder in (real, alternatives, venv):
        folder.mkdir()
    (real / "python3.11").touch()
    (alternatives / "python3").symlink_to(real / "python3.11")
    (venv / "python3").symlink_to("../alternatives/python3")
    (venv / "python").symlink_to("python3")
    found = _steps(venv / "python", [real, venv])
    assert found == {str(alternatives / "python3"): str(real / "python3.11")}
    (venv / "python").unlink()
    (venv / "python").symlink_to("python")  # leads nowhere
    assert _steps(venv / "python", [venv]) == {}


class FakeQemu:
    """Answers a monitor's line as QEMU does, events in between."""

    def __init__(self) -> None:
        self.line, self._theirs = socket.socketpair()
        self.asked: list[str] = []
        self.refuses = False
        self.interrupted_at = ""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._theirs, self._theirs.makefile("rwb", buffering=0) as stream:
            stream.write(b'{"QMP": {"version": {}, "capabilities": []}}\r\n')
            for line in stream:
                asked = json.loads(line)
                command = asked["execute"]
                self.asked.append(command)
                stream.write(b'{"event": "STOP", "timestamp": {}}\r\n')
                refused = self.refuses and command != "qmp_capabilities"
                answer = {"error": {"desc": "not now"}} if refused else {"return": {"said": command}}
                if command == self.interrupted_at:  # who asked is gone, and reads this with the next answer
                    stream.write(b'"said": "torn"}}\r\n')
                stream.write(json.dumps(answer | {"id": asked["id"]}).encode() + b"\r\n")

    def end(self) -> None:
        self._theirs.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def qemu() -> Iterator[FakeQemu]:
    fake = FakeQemu()
    yield fake
    fake.line.close()


def test_commands_are_answered_behind_greeting_and_events(qemu: FakeQemu) -> None:
    monitor = Monitor(qemu.line)
    assert monitor.ask("stop") == {"said": "stop"}
    assert monitor.ask("cont") == {"said": "cont"}
    assert qemu.asked == ["qmp_capabilities", "stop", "cont"]


def test_an_answer_that_nobody_waited_for_is_passed_over(qemu: FakeQemu) -> None:
    monitor = Monitor(qemu.line)
    monitor.ask("stop")
    qemu.interrupted_at = "query-status"
    monitor._line.sendall(b'{"execute": "query-status", "id": 2}\n')  # and Ctrl-C behind it
    assert monitor.ask("cont") == {"said": "cont"}


def standing(monitor: Monitor) -> GuestProcess:
    """A guest's process as far as its clock goes."""
    process = object.__new__(GuestProcess)
    process._monitor, process._stands_still, process._stopped = monitor, True, False
    return process


@pytest.mark.parametrize("at", ["stop", "cont"])
def test_a_clock_stopped_by_an_interrupted_request_goes_again_at_the_next(qemu: FakeQemu, at: str) -> None:
    process, real = standing(Monitor(qemu.line)), Monitor.ask
    with process.needed():
        pass

    def interrupted(monitor: Monitor, command: str) -> dict[str, Any]:
        answer = real(monitor, command)
        if command == at:
            raise KeyboardInterrupt
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Monitor, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt), process.needed():
            pass
    assert qemu.asked[-1] == "stop"
    with process.needed():
        assert qemu.asked[-1] == "cont"


def test_a_refused_command_says_so(qemu: FakeQemu) -> None:
    qemu.refuses = True
    with pytest.raises(LabError, match="refuses stop: not now"):
        Monitor(qemu.line).ask("stop")


def test_a_monitor_whose_qemu_ended_says_so(qemu: FakeQemu) -> None:
    monitor = Monitor(qemu.line)
    monitor.ask("stop")
    qemu.end()
    with pytest.raises(LabError, match="QEMU has ended"):
        monitor.ask("cont")
