"""The journal's file: originals first, torn lines, full folders, strangers' changes, dead owners."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from labkit.errors import JournalError, RigBusyError, SettingRefusedError
from labkit.linux.processes import Owner, is_alive, owner_of
from labkit.nic.journal import Device, FileJournal
from labkit.nic.lock import DeviceLock
from labkit.nic.recovery import Present, recover
from tests.nic_fakes import DEVICE, ORIGINALS, make_tree, recover_tree, tree_host, tree_knobs, tree_values

DEAD = Owner(pid=4_194_305, started_ticks=1, boot_id="an earlier one")
CHANGES = {"tx_ring": 1001, "rx_usecs": 50}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_tree(tmp_path)
    return tmp_path


def journal_file(root: Path) -> Path:
    (path,) = (root / "journal").glob("*.jsonl")
    return path


def write(root: Path, name: str, value: int) -> None:
    (root / "device" / name).write_text(f"{value}\n")


def outcomes(root: Path) -> dict[str, str]:
    return {result.name: result.outcome for result in recover_tree(root)}


def test_originals_are_in_the_file_before_the_first_write(root: Path) -> None:
    seen: list[bytes] = []

    def on_step(step: str) -> None:
        if step == "before write":
            seen.append(journal_file(root).read_bytes())

    tree_host(root, DEAD, on_step=on_step).apply(CHANGES)
    lines = [msgspec.json.decode(line) for line in seen[0].splitlines()]
    originals = {line["entry"]["name"]: line["entry"]["original"] for line in lines if "entry" in line}
    assert originals == {"adaptive_rx": True, "rx_usecs": 3, "tx_ring": 512}
    assert lines[0]["device"] == msgspec.to_builtins(DEVICE)
    assert lines[0]["owner"] == msgspec.to_builtins(DEAD)


def test_file_and_folder_are_on_the_disk_before_the_first_write(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync = os.fsync

    def told(descriptor: int) -> None:
        steps.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", told)
    tree_host(root, DEAD, on_step=steps.append).apply({"txqueuelen": 5})
    assert steps[: steps.index("before write")] == [
        "folder",
        str(journal_file(root)),
        str(root / "journal"),
        "Planned",
        "Begun",
    ]


def test_folder_and_file_are_closed_to_others(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    assert (root / "journal").stat().st_mode & 0o777 == 0o700
    assert journal_file(root).stat().st_mode & 0o777 == 0o600


def test_file_goes_with_its_last_entry(root: Path) -> None:
    host = tree_host(root, DEAD)
    host.apply(CHANGES)
    host.restore(0)
    assert tree_values(root) == ORIGINALS
    assert list((root / "journal").iterdir()) == []
    assert host.restore(0) == []


@pytest.mark.parametrize("torn", range(1, 44, 6))
def test_torn_last_line_is_passed_over(root: Path, torn: int) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    path = journal_file(root)
    last = path.read_bytes().splitlines(keepends=True)[-1]
    assert torn <= len(last)
    os.truncate(path, path.stat().st_size - torn)
    recover_tree(root)
    assert tree_values(root) == ORIGINALS
    assert not path.exists()


def test_lost_power_leaves_nothing_to_do_wherever_the_file_ends(root: Path) -> None:
    host = tree_host(root, DEAD)
    host.apply(CHANGES)
    path = journal_file(root)
    whole = path.read_bytes()
    host.restore(0)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert {result.outcome for result in recover_tree(root)} <= {"unchanged"}
        assert not path.exists()
    assert tree_values(root) == ORIGINALS


@pytest.mark.parametrize("kept", [0, 1, 40])
def test_file_without_a_whole_header_changed_nothing_and_goes(root: Path, kept: int) -> None:
    host = tree_host(root, DEAD)
    host.apply(CHANGES)
    host.restore(0)
    FileJournal(root / "journal", DEVICE, DEAD).plan(0, [("tx_ring", 512, 64)])
    os.truncate(journal_file(root), kept)
    assert recover_tree(root) == []
    assert list((root / "journal").iterdir()) == []


def test_pipe_among_the_journals_is_named_and_waits_for_nobody(root: Path) -> None:
    (root / "journal").mkdir(mode=0o700, exist_ok=True)
    os.mkfifo(root / "journal/1-2-3-4.jsonl")
    (damaged,) = recover_tree(root)
    assert damaged.outcome == "damaged"
    assert "it is no file" in damaged.text


def test_damaged_file_is_named_and_hinders_no_other(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    (root / "journal/1-2-3-4.jsonl").write_text("no journal\n")
    *others, damaged = recover_tree(root)
    assert {result.outcome for result in others} == {"restored"}
    assert damaged.outcome == "damaged"
    assert "1-2-3-4.jsonl is damaged" in damaged.text
    assert tree_values(root) == ORIGINALS


def test_folder_that_cannot_be_made_forbids_every_change(root: Path) -> None:
    (root / "journal").write_text("a file")
    with pytest.raises(JournalError, match="no setting is changed") as told:
        tree_host(root, DEAD).apply(CHANGES)
    assert told.value.errno is not None
    assert tree_values(root) == ORIGINALS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_forbids_every_change(root: Path) -> None:
    host = tree_host(root, DEAD)
    journal = FileJournal(root / "journal", DEVICE, DEAD)
    (root / "journal").mkdir(mode=0o700)
    journal.path.symlink_to("/dev/full")
    with pytest.raises(JournalError, match="make room") as told:
        host.apply(CHANGES)
    assert told.value.errno is not None
    assert tree_values(root) == ORIGINALS


def test_disk_that_fills_up_in_the_middle_puts_everything_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labkit.nic import journal

    append, calls = journal.append, []

    def full(path: Path, lines: list[object], *, on_disk: bool) -> None:
        calls.append(path)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        append(path, lines, on_disk=on_disk)  # type: ignore[arg-type]

    monkeypatch.setattr(journal, "append", full)
    with pytest.raises(JournalError, match="ENOSPC"):
        tree_host(root, DEAD).apply(CHANGES)
    assert tree_values(root) == ORIGINALS
    assert list((root / "journal").iterdir()) == []


def test_folder_that_others_write_is_not_trusted(root: Path) -> None:
    (root / "journal").mkdir()
    (root / "journal").chmod(0o777)
    with pytest.raises(JournalError, match="others may write"):
        tree_host(root, DEAD).apply(CHANGES)
    with pytest.raises(JournalError, match="others may write"):
        recover_tree(root)
    assert tree_values(root) == ORIGINALS


def test_strangers_change_is_told_and_left_alone(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    write(root, "tx_ring", 300)
    results = recover_tree(root)
    assert tree_values(root) == {**ORIGINALS, "tx_ring": 300}
    (foreign,) = [result for result in results if result.outcome == "foreign"]
    assert (foreign.name, foreign.found, foreign.original) == ("tx_ring", 300, 512)
    assert "300, which somebody else set: left alone; before the lab it was 512" in foreign.text


def test_value_that_was_planned_but_never_written_is_the_strangers_own(root: Path) -> None:
    FileJournal(root / "journal", DEVICE, DEAD).plan(0, [("tx_ring", 512, 64)])
    write(root, "tx_ring", 64)
    assert outcomes(root) == {"tx_ring": "foreign"}
    assert tree_values(root)["tx_ring"] == 64


def test_value_of_which_nobody_read_what_came_of_it_is_put_back(root: Path) -> None:
    journal = FileJournal(root / "journal", DEVICE, DEAD)
    journal.begin(journal.plan(0, [("tx_ring", 512, 1001)])[0].number)
    write(root, "tx_ring", 1008)
    assert outcomes(root) == {"tx_ring": "restored"}


def test_settings_that_a_restart_has_reset_need_nothing(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    for name, value in ORIGINALS.items():
        write(root, name, int(value))  # type: ignore[arg-type]
    assert set(outcomes(root).values()) == {"unchanged"}


def test_value_that_was_not_reported_is_skipped_and_said_so(root: Path) -> None:
    journal = FileJournal(root / "journal", DEVICE, DEAD)
    journal.begin(journal.plan(0, [("tx_ring", None, 64)])[0].number)
    (result,) = recover_tree(root)
    assert result.outcome == "skipped"
    assert "was not reported before" in result.text
    assert tree_values(root) == ORIGINALS


def test_living_processs_journal_is_left_alone(root: Path) -> None:
    owner = owner_of(os.getpid())
    assert owner is not None
    tree_host(root, owner).apply(CHANGES)
    assert recover_tree(root) == []
    assert tree_values(root)["tx_ring"] == 1008
    assert recover_tree(root, alive=lambda _: False)
    assert tree_values(root) == ORIGINALS


def test_same_number_in_another_boot_or_of_another_start_is_dead() -> None:
    owner = owner_of(os.getpid())
    assert owner is not None
    assert is_alive(owner)
    assert not is_alive(msgspec.structs.replace(owner, boot_id="another"))
    assert not is_alive(msgspec.structs.replace(owner, started_ticks=owner.started_ticks + 1))


def test_name_with_brackets_and_blanks_does_not_shift_the_start(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("b\n")
    (tmp_path / "5").mkdir()
    rest = " ".join(str(field) for field in range(4, 53))
    (tmp_path / "5/stat").write_text(f"5 (a) Z (b) S {rest}\n")
    assert owner_of(5, tmp_path) == Owner(pid=5, started_ticks=22, boot_id="b")
    (tmp_path / "5/stat").write_text(f"5 (a) Z {rest}\n")
    assert owner_of(5, tmp_path) is None


def test_youngest_of_several_dead_goes_first(root: Path) -> None:
    tree_host(root, DEAD).apply({"tx_ring": 256})
    os.utime(journal_file(root), (1, 1))
    tree_host(root, msgspec.structs.replace(DEAD, pid=DEAD.pid + 1)).apply({"tx_ring": 128})
    recover_tree(root)
    assert tree_values(root) == ORIGINALS


def test_next_lab_on_the_device_finishes_what_a_dead_one_left(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    stranger = Device(netns_inode=1, ifindex=7, ifname="eth7", hardware="02:00:00:00:00:08")
    FileJournal(root / "journal", stranger, DEAD).plan(0, [("tx_ring", 1, 2)])
    owner = owner_of(os.getpid())
    assert owner is not None
    renamed = msgspec.structs.replace(DEVICE, ifname="lan0", ifindex=9)
    assert tree_host(root, owner, device=renamed).recover(is_alive)
    assert tree_values(root) == ORIGINALS
    assert len(list((root / "journal").iterdir())) == 1


def test_device_that_is_gone_keeps_its_entries(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    results = recover(root / "journal", root / "locks", lambda _: None, is_alive)
    assert {result.outcome for result in results} == {"gone"}
    assert "eth7: tx_ring is not there" in results[0].text
    recover_tree(root)
    assert tree_values(root) == ORIGINALS


def test_renamed_device_is_found_and_called_by_both_names(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    results = recover(
        root / "journal", root / "locks", lambda _: Present("lan0", 7, tree_knobs(root)), is_alive
    )
    assert tree_values(root) == ORIGINALS
    assert all(result.text.startswith("lan0 (eth7 when it was changed): ") for result in results)


def test_device_that_a_living_lab_holds_is_left_to_it(root: Path) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    with DeviceLock(root / "locks", DEVICE.netns_inode, DEVICE.ifindex, DEVICE.ifname):
        results = recover_tree(root)
    assert {result.outcome for result in results} == {"busy"}
    assert f"pid {os.getpid()}" in results[0].text
    assert tree_values(root)["tx_ring"] == 1008
    assert outcomes(root)["tx_ring"] == "restored"


def test_second_lab_is_refused_by_the_firsts_pid(tmp_path: Path) -> None:
    with (
        DeviceLock(tmp_path / "locks", 1, 2, "eth7"),
        DeviceLock(tmp_path / "locks", 1, 3, "eth7"),
        pytest.raises(RigBusyError, match=rf"^eth7: .*pid {os.getpid()}"),
    ):
        DeviceLock(tmp_path / "locks", 1, 2, "eth7")
    DeviceLock(tmp_path / "locks", 1, 2, "eth7").release()


def test_lock_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    with pytest.raises(JournalError, match="no lock can be made"):
        DeviceLock(tmp_path / "locks", 1, 2, "eth7")


def test_entry_that_the_device_refuses_stays_and_hinders_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree_host(root, DEAD).apply(CHANGES)
    knobs = tree_knobs(root)

    def refuse(_: object) -> None:
        raise SettingRefusedError("eth7: not now", errno=16)

    monkeypatch.setattr(knobs["rx_usecs"], "write", refuse)
    results = recover(root / "journal", root / "locks", lambda _: Present("eth7", 7, knobs), is_alive)
    assert {result.name: result.outcome for result in results} == {
        "tx_ring": "restored",
        "rx_usecs": "refused",
        "adaptive_rx": "restored",
    }
    assert outcomes(root) == {"rx_usecs": "restored"}
    assert tree_values(root) == ORIGINALS
