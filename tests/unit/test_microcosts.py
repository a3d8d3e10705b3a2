"""Microcosts: operations really done, values summed up by one rule, a result that `expect` takes as it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit import _native
from labkit.analysis.microcosts import Microcost, Microcosts, microcost
from labkit.cli import main
from labkit.engines import overhead
from labkit.engines.overhead import Asked, Meter, RawCost, RawCosts
from labkit.errors import WorkloadError
from labkit.experiment import microcosts as experiment

CPU = max(os.sched_getaffinity(0))
NAMES = [each.name for each in _native.microcosts()]
AUDIT = {"verdict": "look", "bad": [], "look": ["smt"], "unknown": []}


def raw(name: str, values: Iterable[float]) -> RawCost:
    return RawCost(name=name, how="how", source="C++", rounds_ns=list(values))


def costs_of(*costs: Microcost) -> Microcosts:
    return Microcosts(costs=costs, cpu=1, involuntary_switches=3, machine={"cpu_model": "X"}, audit=AUDIT)


@pytest.fixture
def found() -> Microcosts:
    return costs_of(
        microcost(raw("lock", [5.0, 5.0, 6.0]), why_missing=""),
        microcost(raw("shared_line", []), why_missing="only CPU 1 is allowed here"),
    )


class FakeCore:
    """Stands in for the native module: operations that cost what a table says, disturbed at some blocks."""

    OPERATIONS_PER_TURN = 8
    COSTS_NS = {"loop": 0.8, "lock": 5.1, "shared_line": 60.0}  # noqa: RUF012

    def __init__(self) -> None:
        self.blocks = 0
        self.silent_after = 10**9

    def microcosts(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name, how="how", source="C++") for name in ("loop", "lock")]

    def shared_line(self) -> SimpleNamespace:
        return SimpleNamespace(name="shared_line", how="line", source="std::atomic")

    def microcost_block(self, name: str, count: int, cpu: int) -> SimpleNamespace:
        self.blocks += 1
        extra = 40_000 if self.blocks % 3 == 0 else 0  # a tick or a neighbour
        elapsed_ns = self.COSTS_NS[name] * count + extra
        return SimpleNamespace(elapsed_ns=elapsed_ns, done=count, involuntary_switches=int(extra > 0))

    def shared_line_block(self, count: int, cpu: int, other_cpu: int, within_ns: int) -> SimpleNamespace:
        block = self.microcost_block("shared_line", count, cpu)
        block.done = count if self.blocks < self.silent_after else count - 2
        return block


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> FakeCore:
    fake = FakeCore()
    monkeypatch.setattr(overhead, "_native", fake)
    return fake


def test_quickest_block_of_a_round_counts_and_the_loop_is_subtracted(core: FakeCore) -> None:
    told = overhead.measure(Asked(cpu=0, other_cpu=1, rounds=4))
    values = {cost.name: cost.rounds_ns for cost in told.costs}
    assert values == {
        "loop": pytest.approx([0.8] * 4),
        "lock": pytest.approx([5.0] * 4),
        "shared_line": pytest.approx([60.0] * 4),
    }
    assert told.involuntary_switches > 0


def test_without_a_second_cpu_the_line_has_no_value(core: FakeCore) -> None:
    told = overhead.measure(Asked(cpu=0, other_cpu=None, rounds=2))
    assert {cost.name: len(cost.rounds_ns) for cost in told.costs} == {"loop": 2, "lock": 2, "shared_line": 0}


def test_a_silent_second_cpu_is_asked_no_more(core: FakeCore) -> None:
    core.silent_after = 0
    told = overhead.measure(Asked(cpu=0, other_cpu=1, rounds=50))
    assert {cost.name: len(cost.rounds_ns) for cost in told.costs}["shared_line"] == 0
    each_round = 2 * overhead.BLOCKS
    assert core.blocks < 50 * each_round + 100


def test_blocks_grow_until_they_last_long_enough(core: FakeCore) -> None:
    meter = Meter(Asked(cpu=0, other_cpu=None, rounds=2))
    core.COSTS_NS = {"slow": 1e6, "free": 0.0}
    meter.quickest_ns("slow")
    grown = core.blocks
    meter.quickest_ns("free")  # ends, though no count is ever long enough
    assert grown == 1 + overhead.BLOCKS
    assert core.blocks < grown + 30 + overhead.BLOCKS


def test_number_is_the_median_and_lies_in_its_interval() -> None:
    told = microcost(raw("lock", [5.0, 5.2, 5.1, 9.0, 5.1]), why_missing="")
    assert (told.ns, told.rounds, told.why_missing) == (5.1, 5, None)
    assert told.low is not None
    assert told.high is not None
    assert 5.0 <= told.low <= 5.1 <= told.high <= 9.0
    assert told == microcost(raw("lock", [5.0, 5.2, 5.1, 9.0, 5.1]), why_missing="")


def test_what_was_not_measured_is_none_with_its_reason_and_not_in_the_mapping(found: Microcosts) -> None:
    missing = found.costs[1]
    assert (missing.ns, missing.low, missing.rounds) == (None, None, 0)
    assert missing.why_missing == "only CPU 1 is allowed here"
    assert dict(found) == {"lock": 5.0}
    assert len(found) == 1
    with pytest.raises(KeyError):
        found["shared_line"]


def test_text_names_every_operation_and_what_the_audit_says(found: Microcosts) -> None:
    lines = found.text().splitlines()
    assert lines[0].split()[:3] == ["lock", "5.00", "ns"]
    assert lines[1].split(maxsplit=1) == ["shared_line", "not measured  only CPU 1 is allowed here"]
    assert lines[2] == "CPU 1, lost 3 times meanwhile; audit: look (smt)"


def test_expect_takes_the_result_as_it_is(found: Microcosts) -> None:
    told = lk.expect({"lock": -2}, settings={"rx_usecs": 30}, microcosts=found)
    assert told.operations_ns == pytest.approx(-10)
    assert told.parts[0].source == "sourced: measured on this machine"
    assert lk.expect({"lock": 3}, "veth", microcosts=found).expected_ns == pytest.approx(15)


def test_expect_keeps_what_it_knows_of_operations_that_are_not_measured() -> None:
    """A store to normal memory is no doorbell: it must not take the place of one's cost."""
    measured = costs_of(*(microcost(raw(name, [1.0, 1.0]), why_missing="") for name in NAMES))
    assert set(measured) & set(lk.OPERATIONS) == {"lock"}
    change = {"doorbell": -1}
    assert lk.expect(change, microcosts=measured).expected_ns == lk.expect(change).expected_ns


def test_figure_shows_each_value_with_its_interval_and_why_one_is_missing(found: Microcosts) -> None:
    drawn: dict[str, Any] = json.loads(lk.microcost_bars(found).to_json())
    (bars,) = drawn["data"]
    assert (bars["x"], bars["y"]) == ([5.0], ["lock: 5.00"])
    assert bars["error_x"]["array"] == [found.costs[0].high - 5.0]  # type: ignore[operator]
    (note,) = drawn["layout"]["annotations"]
    assert (note["y"], note["hovertext"]) == (1, "only CPU 1 is allowed here")


@pytest.mark.parametrize("cpu", [-1, 10**6, 2**70, True, "1", 1.5])
def test_cpu_that_is_none_is_refused_with_those_that_are(cpu: Any) -> None:
    with pytest.raises(WorkloadError, match=rf"CPU {cpu} does not exist or is not allowed .*: .*{CPU}"):
        lk.microcosts(cpu=cpu)


def test_cpu_that_exists_but_is_not_allowed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(
        WorkloadError, match="CPU 1 does not exist or is not allowed to this process; allowed: 0"
    ):
        lk.microcosts(cpu=1)


@pytest.mark.parametrize("rounds", [0, 1, -5, 1_001, 2.5, True, "9"])
def test_rounds_that_make_no_sense_are_refused(rounds: Any) -> None:
    with pytest.raises(WorkloadError, match="rounds: give 2 to 1000"):
        lk.microcosts(rounds=rounds)


def test_partner_is_the_nearest_cpu_of_another_core(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/system/cpu/cpu2/topology"
    folder.mkdir(parents=True)
    (folder / "thread_siblings_list").write_text("2-3\n")
    assert experiment.partner_of(2, {0, 1, 2, 3}, tmp_path) == (1, "CPUs 2 and 1, of two cores")
    assert experiment.partner_of(2, {2, 3}, tmp_path) == (3, "CPUs 2 and 3, threads of one core")
    assert experiment.partner_of(0, {0, 5}, tmp_path) == (
        5,
        "CPUs 0 and 5; whether they are of one core is not known",
    )
    assert experiment.partner_of(2, {2}, tmp_path) == (
        None,
        "only CPU 2 is allowed here, and a line is shared by two",
    )


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Requests that reach the measuring process, which a table stands in for."""
    asked_for: list[Asked] = []

    def answer(asked: Asked) -> RawCosts:
        asked_for.append(asked)
        return RawCosts(costs=[raw("lock", [5.0] * asked.rounds)], involuntary_switches=0)

    monkeypatch.setattr(experiment, "measure_apart", answer)
    return asked_for


def test_command_prints_a_line_an_operation(
    measured: list[Asked], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "microcosts", "--cpu", str(CPU))
    assert (code, err) == (0, "")
    assert out.startswith("lock ")
    assert f"CPU {CPU}, lost 0 times meanwhile; audit:" in out
    assert [(asked.cpu, asked.rounds) for asked in measured] == [(CPU, 100)]


def test_command_prints_json_alone(measured: list[Asked], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "microcosts", "--json")
    told = json.loads(out)
    assert (code, err, told["cpu"]) == (0, "", CPU)
    (cost,) = told["costs"]
    assert set(cost) == set(Microcost.__struct_fields__)
    assert msgspec.convert(cost, Microcost).ns == 5.0
    assert {"costs", "machine", "audit", "involuntary_switches"} <= told.keys()


@pytest.mark.parametrize("words", [["--cpu", "99999"], ["--cpu", "-1"], ["--cpu", "one"], ["extra"]])
def test_command_refuses_what_makes_no_sense(
    words: list[str], measured: list[Asked], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "microcosts", *words)
    assert (code, out) == (2, "")
    assert err
    assert not measured
