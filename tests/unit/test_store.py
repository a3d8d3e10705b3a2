"""The store keeps rows durably, refuses what it does not understand, and makes nothing before it must."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labkit.errors import LabError, ResultIncompatibleError, WorkloadError
from labkit.records import SCHEMA_VERSION, Gap
from labkit.results.results import Measured, Missed
from labkit.results.schema import STORE_VERSION
from labkit.results.store import Store
from tests.sweep_fakes import Meter, slow_sweep, trial

ENTRY: dict[str, Any] = {
    "rig": "fake",
    "plan": {"factors": [{"name": "batch", "levels": [None, 64]}], "points": [1, 2]},
    "workload": {"flow": "a"},
    "made_with": {},
    "environment": {"labkit": "0"},
}


def row(point: int = 0, **more: Any) -> Measured:
    return Measured(point=point, repeat=0, levels={"batch": None}, trial=trial(**more))


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "deeper" / "results.sqlite"


def test_constructing_and_reading_make_nothing(path: Path) -> None:
    store = Store(path)
    assert store.sweeps() == ()
    assert store.unfinished(rig="fake", plan={}, workload={}, made_with={}) is None
    with pytest.raises(WorkloadError, match="no results yet"):
        store.load(1)
    assert not path.parent.exists()


def test_missing_folders_are_made_on_the_first_write(path: Path) -> None:
    Store(path).begin(**ENTRY)
    assert path.exists()


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LabError, match=r"file.*LABKIT_DB") as caught:
        Store(tmp_path / "file" / "results.sqlite").begin(**ENTRY)
    assert caught.value.errno is not None


def test_file_that_cannot_be_opened_is_explained(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(path.parent / "gone" / path.name)
    with pytest.raises(LabError, match=r"could not be written: unable to open.*LABKIT_DB"):
        Store(path).begin(**ENTRY)


def test_rows_come_back_as_they_were(path: Path) -> None:
    store = Store(path, now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    sweep_id = store.begin(**ENTRY)
    rows = (row(0, marks=["cpu-shared"], refused_by_errno={"EMSGSIZE": 1}), row(1, pps=None))
    gap = Missed(point=2, repeat=0, levels={"batch": 64}, gap=Gap(error="E", reason="µs"))
    for entry in (*rows, gap):
        store.keep(sweep_id, entry)
    results = store.load(sweep_id)
    assert results.rows == rows
    assert results.gaps == (gap,)
    assert results.factors == {"batch": (None, 64)}
    assert results.environment == {"labkit": "0"}
    (listed,) = store.sweeps()
    assert (listed.created_at, listed.state, listed.planned) == ("2026-01-02T00:00:00+00:00", "running", 2)


def test_not_a_number_is_stored_as_absent(path: Path) -> None:
    store = Store(path)
    store.keep(store.begin(**ENTRY), row(environment={"steal": math.nan}))
    assert store.load(1).trials[0].environment == {"steal": None}


def test_file_waits_for_the_disk_and_lets_readers_in(path: Path) -> None:
    store = Store(path)
    store.begin(**ENTRY)
    with opened(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with store._database.writing() as session:
        pragmas = {
            name: session.connection().exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("synchronous", "foreign_keys", "busy_timeout")
        }
        assert len(Store(path).sweeps()) == 1
    assert pragmas == {"synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_newer_store_is_refused_and_untouched(path: Path) -> None:
    Store(path).begin(**ENTRY)
    with opened(path) as connection:
        connection.execute("UPDATE schema_version SET version = ?", (STORE_VERSION + 1,))
        connection.execute("PRAGMA user_version = 7")
    before = path.read_bytes()
    for use in (
        lambda: Store(path).begin(**ENTRY),
        lambda: Store(path).load(1),
        lambda: Store(path).sweeps(),
        lambda: slow_sweep(Meter()).run(path, progress=False, resume=True),
    ):
        with pytest.raises(ResultIncompatibleError) as caught:
            use()
        assert f"schema {STORE_VERSION + 1}" in str(caught.value)
        assert f"writes {STORE_VERSION}" in str(caught.value)
    assert path.read_bytes() == before


def test_newer_trial_record_is_refused(path: Path) -> None:
    store = Store(path)
    store.keep(store.begin(**ENTRY), row(schema_version=SCHEMA_VERSION + 1))
    with pytest.raises(ResultIncompatibleError, match=f"schema {SCHEMA_VERSION + 1}"):
        store.load(1)


@pytest.mark.parametrize("kind", ["text", "other database"])
def test_foreign_file_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    if kind == "text":
        path.write_text("not a database, but longer than its header would be " * 9)
    else:
        with opened(path) as connection:
            connection.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    with pytest.raises(ResultIncompatibleError, match="thing"):
        Store(path).begin(**ENTRY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:", "nosuch://place/db", "://", ""])
def test_address_that_keeps_nothing_is_refused(address: str) -> None:
    with pytest.raises(WorkloadError, match="LABKIT_DB"):
        Store(address)


def test_same_place_twice_says_that_two_write_one_sweep(path: Path) -> None:
    store = Store(path)
    sweep_id = store.begin(**ENTRY)
    store.keep(sweep_id, row())
    with pytest.raises(LabError, match="another process"):
        store.keep(sweep_id, row())
    assert len(store.load(sweep_id).rows) == 1


def test_unknown_sweep_lists_those_that_are_there(path: Path) -> None:
    store = Store(path)
    store.begin(**ENTRY)
    with pytest.raises(WorkloadError, match=r"no sweep 9.*\[1\]"):
        store.load(9)


def test_disk_that_takes_no_more_is_explained(path: Path) -> None:
    store = Store(path)
    sweep_id = store.begin(**ENTRY)
    with opened(path) as connection:
        connection.execute("DROP TABLE trials")
    with pytest.raises(LabError, match=r"results\.sqlite could not be written.*LABKIT_DB"):
        store.keep(sweep_id, row())


def test_newest_unfinished_sweep_of_the_same_kind_is_found(path: Path) -> None:
    store = Store(path)
    kind = {name: ENTRY[name] for name in ("rig", "plan", "workload", "made_with")}
    first, second, third = (store.begin(**ENTRY) for _ in range(3))
    store.mark(third, "finished")
    store.mark(first, "cancelled")
    assert store.unfinished(**kind) == second
    assert store.unfinished(**{**kind, "workload": {"flow": "b"}}) is None
    assert store.unfinished(**{**kind, "made_with": {"seed": 2}}) is None


def test_two_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    both_write(path)


def both_write(path: Path) -> None:
    command = [sys.executable, "-m", "tests.sweep_fakes", str(path)]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.PIPE,
    }
    writers = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
    said = [writer.communicate("\n" * 200, timeout=60)[1] for writer in writers]
    assert said == ["", ""]
    store = Store(path)
    assert {entry.state for entry in store.sweeps()} == {"finished"}
    for entry in store.sweeps():
        places = {(row.point, row.repeat) for row in store.load(entry.sweep_id).rows}
        assert len(places) == entry.planned == 100
    assert len(store.sweeps()) == 2


def test_stored_trial_is_the_flat_object_that_users_rely_on(path: Path) -> None:
    store = Store(path)
    store.keep(store.begin(**ENTRY), row())
    with opened(path) as connection:
        (record,) = connection.execute("SELECT record FROM trials").fetchone()
    assert msgspec.json.decode(record) == trial().as_json()


@pytest.mark.parametrize("record", ["{bad", "{}", "[]", '{"schema_version": "1"}'])
def test_damaged_trial_record_names_its_place(path: Path, record: str) -> None:
    store = Store(path)
    sweep_id = store.begin(**ENTRY)
    store.keep(sweep_id, row(point=3))
    with opened(path) as connection:
        connection.execute("UPDATE trials SET record = ?", (record,))
    with pytest.raises(ResultIncompatibleError, match=r"damaged (JSON|\()|point 3, .* is damaged"):
        store.load(sweep_id)


@pytest.mark.parametrize("place", ["/dev/null", "/"])
def test_store_that_is_no_file_is_refused_and_nothing_lies_beside_it(place: str) -> None:
    with pytest.raises(WorkloadError, match="is no file"):
        Store(place).begin(**ENTRY)
    assert not Path(f"{place}-journal").exists()
