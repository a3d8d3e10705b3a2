"""Knobs that are files of a made-up /sys and /proc: what is there, what is not, and what differs."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.linux.interfaces import HeldInterface, NamedInterface
from labkit.linux.queues import cpus_of_mask, mask_of_cpus, queue_files, read_word, write_word
from labkit.nic.knob import values_of
from labkit.nic.queue_knobs import FilesKnob, queue_knobs
from labkit.nic.sysctl_knobs import sysctl_knobs

ETH7 = NamedInterface("eth7", 7)


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    device = tmp_path / "sys/class/net/eth7"
    files = {"gro_flush_timeout": "0", "napi_defer_hard_irqs": "0", "threaded": "0"}
    for queue in range(11):
        files[f"queues/tx-{queue}/byte_queue_limits/limit_min"] = "0"
        files[f"queues/tx-{queue}/byte_queue_limits/limit_max"] = "1879048192"
        files[f"queues/tx-{queue}/xps_cpus"] = "00000000,0000000f"
        files[f"queues/rx-{queue}/rps_cpus"] = "0"
    for name, word in files.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(f"{word}\n")
    (tmp_path / "proc/irq/30").mkdir(parents=True)
    (tmp_path / "proc/irq/30/smp_affinity_list").write_text("0-1\n")
    return tmp_path / "sys"


def test_every_file_is_a_setting_by_its_name(sys: Path) -> None:
    knobs = queue_knobs(ETH7, sys=sys, proc=sys.parent / "proc", interrupts=lambda: [30])
    assert values_of(knobs) == {
        "bql_limit_min": 0,
        "bql_limit_max": 1879048192,
        "napi_defer_hard_irqs": 0,
        "gro_flush_timeout_ns": 0,
        "threaded": False,
        "xps_cpus": "0-3",
        "rps_cpus": "",
        "irq_affinity": "0-1",
    }


def test_absent_file_is_no_knob_and_one_that_went_reads_none(sys: Path) -> None:
    assert queue_knobs(NamedInterface("eth8", 8), sys=sys, proc=sys.parent / "proc") == {}
    knob = queue_knobs(ETH7, sys=sys, proc=sys.parent / "proc")["threaded"]
    (sys / "class/net/eth7/threaded").unlink()
    assert knob.read() is None
    with pytest.raises(CapabilityMissingError) as told:
        knob.write(True)
    assert told.value.errno == errno.ENOENT
    assert not (sys / "class/net/eth7/threaded").exists()


def test_interrupts_that_came_with_other_numbers_are_turned(sys: Path) -> None:
    numbers, proc = [30], sys.parent / "proc"
    knob = queue_knobs(ETH7, sys=sys, proc=proc, interrupts=lambda: numbers)["irq_affinity"]
    numbers[:] = [41]
    (proc / "irq/41").mkdir()
    (proc / "irq/41/smp_affinity_list").write_text("0-3\n")
    knob.write("1")
    assert read_word(proc / "irq/41/smp_affinity_list") == "1"
    assert read_word(proc / "irq/30/smp_affinity_list") == "0-1"
    numbers.clear()
    assert knob.read() is None


@pytest.mark.parametrize(
    ("name", "value", "file", "word"),
    [
        ("threaded", True, "threaded", "1"),
        ("gro_flush_timeout_ns", 20_000, "gro_flush_timeout", "20000"),
        ("xps_cpus", "0-1,40", "queues/tx-10/xps_cpus", "00000100,00000003"),
        ("rps_cpus", "", "queues/rx-3/rps_cpus", "00000000"),
        ("bql_limit_max", 3000, "queues/tx-9/byte_queue_limits/limit_max", "3000"),
    ],
)
def test_value_reaches_its_files_and_reads_back(
    sys: Path, name: str, value: int | str, file: str, word: str
) -> None:
    knob = queue_knobs(ETH7, sys=sys, proc=sys.parent / "proc")[name]
    knob.write(value)
    assert read_word(sys / "class/net/eth7" / file) == word
    assert knob.read() == value


@pytest.mark.parametrize("name", ["bql_limit_min", "xps_cpus"])
def test_queues_that_differ_are_put_back_as_they_were(sys: Path, name: str) -> None:
    knob = queue_knobs(ETH7, sys=sys, proc=sys.parent / "proc")[name]
    file = {"bql_limit_min": "byte_queue_limits/limit_min", "xps_cpus": "xps_cpus"}[name]
    write_word(sys / "class/net/eth7/queues/tx-10" / file, "1")
    before = knob.read()
    knob.write(7 if name == "bql_limit_min" else "1-2")
    assert knob.read() != before
    knob.write(before)
    assert knob.read() == before
    assert str(before).endswith({"bql_limit_min": "0;0;1", "xps_cpus": "0-3;0-3;0"}[name])


def test_wrong_number_of_values_is_refused(sys: Path) -> None:
    knob = queue_knobs(ETH7, sys=sys, proc=sys.parent / "proc")["bql_limit_min"]
    with pytest.raises(SettingRefusedError, match="2 values for 11 queues"):
        knob.write("1;2")


@pytest.mark.parametrize("cpus", ["a", "3-1", "1-", "-1", "0-99999999999"])
def test_list_of_cpus_that_is_none_is_refused(cpus: str) -> None:
    with pytest.raises(SettingRefusedError, match="no list of CPUs"):
        mask_of_cpus(cpus)


@pytest.mark.parametrize("cpus", ["", "0", "0-3,8", "31", "32", "0-63", "1,3,5-6,64"])
def test_cpu_lists_and_masks_are_each_others_inverse(cpus: str) -> None:
    assert cpus_of_mask(mask_of_cpus(cpus)) == cpus


def test_shorter_value_over_a_longer_one_reads_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("1000\n")
    write_word(path, "5")
    assert read_word(path) == "5"


def test_kernels_refusals_keep_their_errno(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="ENOSPC") as told:
        write_word(Path("/dev/full"), "1")
    assert isinstance(told.value, SettingRefusedError)
    with pytest.raises(SettingRefusedError) as told:
        write_word(tmp_path, "1")
    assert told.value.errno == errno.EISDIR


def test_sysctls_that_this_namespace_has_are_settings(tmp_path: Path) -> None:
    folder = tmp_path / "sys/net/ipv4"
    folder.mkdir(parents=True)
    (folder / "tcp_limit_output_bytes").write_text("4194304\n")
    knobs = sysctl_knobs(proc=tmp_path)
    assert values_of(knobs) == {"tcp_limit_output_bytes": 4194304}
    knobs["tcp_limit_output_bytes"].write(131072)
    assert read_word(folder / "tcp_limit_output_bytes") == "131072"


def test_busy_polling_threads_are_no_plain_truth_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "threaded"
    path.write_text("2\n")
    knob = FilesKnob("threaded", [path], "truth")
    before = knob.read()
    knob.write(True)
    assert (before, knob.read()) == ("2", True)
    knob.write(before)
    assert read_word(path) == "2"


def test_queue_that_comes_later_is_written_and_one_that_went_is_not(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("1\n")
    knob = FilesKnob("xps_cpus", lambda: sorted(tmp_path.iterdir()), "mask")
    (tmp_path / "1").write_text("2\n")
    assert knob.read() == "0;1"
    (tmp_path / "0").unlink()
    knob.write("0")
    assert knob.read() == "0"
    (tmp_path / "1").unlink()
    assert knob.read() is None
    with pytest.raises(CapabilityMissingError, match="no queue has it now"):
        knob.write("0")


def test_files_are_looked_for_again_where_the_device_got_another_name_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "now").write_text("7\n")
    names = iter(["before", "now", "before", "now"])
    knob = FilesKnob("gro_flush_timeout_ns", lambda: [tmp_path / next(names)], "number")
    assert knob.read() == 7
    knob.write(8)
    assert read_word(tmp_path / "now") == "8"


def test_file_that_is_gone_for_good_is_not_looked_for_twice(tmp_path: Path) -> None:
    knob = FilesKnob("threaded", [tmp_path / "gone"], "truth")
    assert knob.read() is None
    with pytest.raises(CapabilityMissingError, match="not to be had here"):
        knob.write(True)


def test_queues_of_a_device_that_is_renamed_in_the_search_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "glob", vanish)
    assert queue_files("eth7", "tx", "xps_cpus", tmp_path) == []


def test_interface_renamed_between_two_looks_is_not_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "class/net/before"
    folder.mkdir(parents=True)
    names = iter(["before", "now"])
    monkeypatch.setattr(socket, "if_nametoindex", lambda _: 7)
    monkeypatch.setattr(socket, "if_indextoname", lambda _: next(names))
    held = HeldInterface("before", tmp_path)
    folder.rename(folder.with_name("now"))
    assert held.name == "now"
