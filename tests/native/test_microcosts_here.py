"""Microcosts on this machine: operations really done, by a process of their own. No time is asserted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import labkit as lk
from labkit import _native
from labkit.engines import overhead
from labkit.engines.overhead import Asked
from labkit.errors import LabError

CPU = max(os.sched_getaffinity(0))
NAMES = [each.name for each in _native.microcosts()]


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_is_really_done_as_often_as_asked(name: str) -> None:
    assert [_native.microcost_block(name, count, CPU).done for count in (0, 8, 8_000)] == [0, 8, 8_000]


def test_locked_operations_stand_beside_their_unlocked_twins() -> None:
    assert {"lock", "add", "lock_cmpxchg", "cmpxchg", "lock_xchg", "load_store"} <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "count", "words"), [("locks", 8, "no operation 'locks'"), ("lock", 9, "multiple of 8")]
)
def test_native_refuses_what_it_does_not_know(name: str, count: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _native.microcost_block(name, count, CPU)


def test_native_refuses_a_cpu_that_is_not_allowed_and_names_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"CPU 1000 is not allowed here; allowed: \d"):
        _native.microcost_block("lock", 8, 1000)


def test_this_machine_has_a_cost_for_everything_but_perhaps_the_shared_line() -> None:
    told = lk.microcosts(rounds=2)
    assert {cost.name for cost in told.costs} == {*NAMES, "shared_line"}
    assert set(NAMES) <= set(told)
    assert all(cost.rounds == 2 for cost in told.costs if cost.name in NAMES)
    (line,) = (cost for cost in told.costs if cost.name == "shared_line")
    assert (line.ns is None) == (line.why_missing is not None)
    assert told.cpu == CPU
    assert told.audit["verdict"] in {"ok", "unknown", "look", "bad"}


def test_nothing_is_timed_in_the_process_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("timed here")

    monkeypatch.setattr(_native, "microcost_block", refuse)
    monkeypatch.setattr(_native, "shared_line_block", refuse)
    assert "lock" in lk.microcosts(rounds=2)


def test_measuring_process_loads_neither_numpy_nor_pandas() -> None:
    code = (
        "import sys, labkit.engines.overhead; print(sorted({'numpy', 'pandas', 'scapy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_measuring_process_that_fails_is_told_with_its_last_word() -> None:
    with pytest.raises(LabError, match=r"ended with 1: ValueError: CPU 1000 is not allowed here; allowed: "):
        overhead.measure_apart(Asked(cpu=1000, other_cpu=None, rounds=2))


def test_measuring_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "LIMIT_S", 0.001)
    with pytest.raises(LabError, match="gave no values within"):
        overhead.measure_apart(Asked(cpu=CPU, other_cpu=None, rounds=1_000))


def test_measuring_process_that_tells_something_else_is_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    with pytest.raises(LabError, match="told no values"):
        overhead.measure_apart(Asked(cpu=CPU, other_cpu=None, rounds=2))
