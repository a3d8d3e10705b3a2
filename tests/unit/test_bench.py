"""Engines against peers: the sink's rate, what is repeated, what is absent, and what is printed and drawn."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from labkit.analysis.pairs import compare_pairs
from labkit.analysis.sink_rate import sink_rate
from labkit.cli import main
from labkit.cli.bench_command import bench_text
from labkit.errors import AgentLostError, CapabilityMissingError, LabError, WorkloadError
from labkit.experiment import bench as benches
from labkit.experiment.bench import Absent, Bench, PeerRatio, bench, compare
from labkit.experiment.profile import profile
from labkit.experiment.trial import MAX_REPEATS
from labkit.factors import ENGINE_NAMES, SINK_NAMES
from labkit.plots.bench import bench_plot
from labkit.records import RigInfo, Sample, Trial, Workload
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.veth import VethRig
from tests.bench.bench_peers import FLOWS, GOALS, Goal, judged
from tests.sweep_fakes import FakeRig, Flow, trial

MS = 1_000_000


def samples(*counts: int | None, peer: Sequence[int | None] | None = None) -> tuple[Sample, ...]:
    """Samples 50 ms apart."""
    return tuple(
        Sample(
            at_ns=(index + 1) * 50 * MS,
            engine_sent=None,
            engine_refused=None,
            device_sent=count,
            peer_received=peer[index] if peer else None,
        )
        for index, count in enumerate(counts)
    )


def test_rate_is_taken_between_the_second_and_the_last_but_one_moving_sample() -> None:
    assert sink_rate(samples(10, 110, 210, 310, 315), "device_sent") == 200 / 0.1


def test_start_up_and_a_slow_end_are_not_in_the_rate() -> None:
    steady = sink_rate(samples(10, 110, 210, 310, 315), "device_sent")
    assert sink_rate(samples(0, 0, 0, 10, 110, 210, 310, 315, 315, 315), "device_sent") == steady


def test_pause_in_the_middle_is_in_the_rate() -> None:
    assert sink_rate(samples(10, 110, 110, 110, 210, 220), "device_sent") == pytest.approx(100 / 0.15)


def test_each_counter_is_read_by_its_name() -> None:
    both = samples(10, 110, 210, 310, 400, peer=(1, 11, 21, 31, 40))
    assert sink_rate(both, "peer_received") == 200.0
    assert sink_rate(both, "device_sent") == 2000.0


@pytest.mark.parametrize("seen", [(), (5,), (5, 10, 15), (0, 0, 0, 0), (None,) * 6, (7, 7, 7, 7, 7)], ids=str)
def test_too_little_to_tell_is_none(seen: tuple[int | None, ...]) -> None:
    assert sink_rate(samples(*seen), "device_sent") is None


def test_disturbed_pairs_are_made_again_and_not_counted() -> None:
    ours = itertools.cycle([2.0, None, 2.0])
    ratio = compare_pairs(lambda: next(ours), lambda: 1.0, None, pairs=6)
    assert (ratio.median, ratio.pairs, ratio.verdict) == (2.0, 6, "report")


def test_nothing_but_disturbed_pairs_ends_with_words() -> None:
    with pytest.raises(LabError, match="each of 120 pairs was disturbed"):
        compare_pairs(lambda: None, lambda: 1.0, 1.0)


class PeerRig(AgentRig):
    """Answers each engine with its steady rate, some of them marked, without an agent."""

    info = RigInfo(
        name="fake",
        title="",
        engines=("send", "gso", "trafgen", "iperf3"),
        sinks=("stack", "ifb"),
        factors=(),
    )

    def __init__(
        self, steps: dict[str, int], marks: Sequence[list[str]] = ((),), *, peer: bool = True
    ) -> None:  # type: ignore[assignment]
        self.steps, self.peer = steps, peer
        self.marks = itertools.chain(marks, itertools.repeat([]))
        self.ran: list[Workload] = []

    def _checked(self, settings: Any) -> Any: ...
    def _find_rule(self, frames: Any, looked: Any) -> Any: ...
    def check(self, workload: Workload) -> None: ...

    def run(self, workload: Workload, **asked: Any) -> Trial:
        self.ran.append(workload)
        if workload.engine not in self.steps:
            raise CapabilityMissingError(f"{workload.engine}: not installed here")
        counts = [self.steps[workload.engine] * number for number in range(1, 8)]
        seen = samples(*counts, peer=[count // 2 for count in counts] if self.peer else None)
        received = counts[-1] if self.peer else None
        return trial(workload=workload, samples=seen, marks=next(self.marks), peer_received=received)


def test_ratio_is_of_the_sinks_rates_and_both_sides_have_all_but_the_engine_in_common() -> None:
    rig = PeerRig({"gso": 300, "trafgen": 100})
    found = bench(rig, Flow(), sinks=["stack"], engines=["gso"], peers=["trafgen"], cpu=3, pairs=4)
    assert found == Bench(
        ratios=(
            PeerRatio(
                rig="fake", sink="stack", engine="gso", peer="trafgen", ratio=3.0, low=3.0, high=3.0, pairs=4
            ),
        ),
        absent=(),
    )
    assert {(each.sink, each.cpu, each.flow) for each in rig.ran} == {("stack", 3, rig.ran[0].flow)}
    order = [each.engine for each in rig.ran[2:]]
    assert order == ["gso", "trafgen", "trafgen", "gso"] * 2


def test_sink_without_a_peer_is_counted_at_its_device() -> None:
    rig = PeerRig({"gso": 300, "trafgen": 100}, peer=False)
    found = bench(rig, Flow(), sinks=["ifb"], engines=["gso"], peers=["trafgen"], pairs=2)
    assert found.ratios[0].ratio == 3.0


def test_all_own_engines_are_compared_unless_some_are_named() -> None:
    rig = PeerRig({"gso": 300, "trafgen": 100, "send": 50})
    found = bench(rig, Flow(), sinks=["stack"], peers=["trafgen"], pairs=2)
    assert [each.engine for each in found.ratios] == ["send", "gso"]


def test_absent_peer_is_kept_with_its_reason_and_told() -> None:
    told: list[Any] = []
    rig = PeerRig({"gso": 300, "trafgen": 100})
    found = bench(
        rig, Flow(), sinks=["stack"], engines=["gso"], peers=["iperf3", "trafgen"], pairs=2, told=told.append
    )
    missing = Absent(sink="stack", engine="gso", peer="iperf3", reason="iperf3: not installed here")
    assert found.absent == (missing,)
    assert [each.peer for each in found.ratios] == ["trafgen"]
    assert told == [missing, *found.ratios]


def test_disturbed_run_is_repeated_and_its_pair_left_out_when_it_stays_so() -> None:
    disturbed = [["cpu-shared"]] * (1 + MAX_REPEATS)
    rig = PeerRig({"gso": 300, "trafgen": 100}, [[], [], *disturbed])
    ratio = compare(rig, Workload(Flow(), "gso"), Workload(Flow(), "trafgen"), pairs=2)
    assert (ratio.pairs, ratio.median) == (2, 3.0)
    # both beforehand, four tries of the pair that is left out, two pairs
    assert len(rig.ran) == 2 + 4 + 4


def test_run_that_is_too_short_for_a_rate_is_refused() -> None:
    rig = PeerRig({"gso": 300, "trafgen": 100})
    with pytest.raises(WorkloadError, match="a rate needs runs of 0"):
        compare(rig, Workload(Flow(), "gso"), Workload(Flow(), "trafgen"), duration_s=0.1)


def test_lost_agent_and_unknown_names_end_the_bench() -> None:
    class LostRig(PeerRig):
        def run(self, workload: Workload, **asked: Any) -> Trial:
            raise AgentLostError("gone")

    with pytest.raises(AgentLostError):
        bench(LostRig({}), Flow(), sinks=["stack"], engines=["gso"], peers=["trafgen"])
    with pytest.raises(WorkloadError, match="unknown engine 'warp'"):
        bench(PeerRig({}), Flow(), sinks=["stack"], engines=["gso"], peers=["warp"])
    with pytest.raises(WorkloadError, match="unknown sink 'drain'"):
        bench(PeerRig({}), Flow(), sinks=["stack", "drain"], engines=["gso"], peers=["trafgen"])


def test_bench_of_runs_too_short_for_a_rate_ends_before_the_first() -> None:
    rig = PeerRig({"gso": 300, "trafgen": 100})
    for duration_s in (0.1, float("nan")):
        with pytest.raises(WorkloadError, match=r"a rate needs runs of 0\.3 s or more"):
            bench(rig, Flow(), sinks=["stack"], engines=["gso"], duration_s=duration_s)
    assert rig.ran == []


def test_simulated_rig_names_one_with_real_packets() -> None:
    with pytest.raises(CapabilityMissingError, match="take rig 'veth'"):
        bench(FakeRig(), Flow(), sinks=["stack"])


def test_profile_of_another_program_is_refused_for_its_work_would_be_called_others() -> None:
    rig = PeerRig({"trafgen": 100})
    with pytest.raises(CapabilityMissingError, match="'trafgen' is another program"):
        profile(rig, Workload(Flow(), "trafgen"))
    assert rig.ran == []


def ratio_of(engine: str, ratio: float, sink: str = "stack") -> PeerRatio:
    return PeerRatio(
        rig="veth",
        sink=sink,
        engine=engine,
        peer="trafgen",
        ratio=ratio,
        low=ratio * 0.9,
        high=ratio * 1.1,
        pairs=30,
    )


FOUND = Bench(
    ratios=(ratio_of("gso", 2.7), ratio_of("sendmmsg", 0.8, "ifb")),
    absent=(Absent(sink="stack", engine="gso", peer="tcpreplay", reason="tcpreplay: not installed here"),),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asks of the library, which answers with `FOUND`."""
    seen: dict[str, Any] = {}

    class Rig:
        info = SimpleNamespace(sinks=("stack", "ifb"))

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *exc: object) -> None: ...

    def answer(rig: Any, flow: Any, **options: Any) -> Bench:
        seen.update(options, flow=flow)
        for each in (*FOUND.ratios, *FOUND.absent):
            options["told"](each)
        return FOUND

    monkeypatch.setattr("labkit.rigs.choose.rig", lambda name, **parameters: Rig())
    monkeypatch.setattr(benches, "bench", answer)
    return seen


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(("bench", *words))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_json_is_a_list_of_ratios_under_exactly_these_keys(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [set(row) for row in rows] == [
        {"rig", "sink", "engine", "peer", "ratio", "low", "high", "pairs"}
    ] * 2
    assert "gso / tcpreplay, sink stack: tcpreplay: not installed here" in err


@pytest.mark.parametrize(("goal", "code"), [("0.5", 0), ("2.5", 3)])
def test_missed_goal_is_slower_than_asked_for(
    goal: str, code: int, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, "--goal", goal)[0] == code


def test_names_may_be_repeated_or_listed(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    asked_words = "--sink ifb,stack --engine gso --engine send,gso --against trafgen --pairs 5 --cpu 1"
    call(capsys, *asked_words.split())
    assert (asked["sinks"], asked["engines"], asked["peers"]) == (
        ("ifb", "stack"),
        ("gso", "send"),
        ("trafgen",),
    )
    assert (asked["pairs"], asked["cpu"], asked["goal"]) == (5, 1, None)
    assert len(asked["flow"].table()) == 1


def test_table_names_what_is_absent_and_judges_a_goal() -> None:
    lines = bench_text(FOUND, 2.5).splitlines()
    assert lines[1].split() == ["stack", "gso", "trafgen", "2.700", "2.430", "2.970", "30", "undecided"]
    assert lines[2].split()[-1] == "missed"
    assert lines[-1] == "not compared: gso / tcpreplay, sink stack: tcpreplay: not installed here"


def test_plot_has_a_row_a_comparison_on_a_log_axis_with_a_line_at_one() -> None:
    fig = bench_plot(FOUND).to_plotly_json()
    rows = ["gso / trafgen, stack", "sendmmsg / trafgen, ifb", "gso / tcpreplay, stack"]
    assert list(fig["layout"]["yaxis"]["categoryarray"]) == rows
    assert fig["layout"]["xaxis"]["type"] == "log"
    assert [trace["name"] for trace in fig["data"]] == ["sink stack", "sink ifb"]
    assert fig["data"][0]["error_x"]["array"] == pytest.approx([0.27])
    line = fig["layout"]["shapes"][0]
    assert (line["x0"], line["x1"]) == (1, 1)
    notes = [note for note in fig["layout"]["annotations"] if note["text"] == "gap"]
    assert [(note["y"], note["hovertext"]) for note in notes] == [(2, "tcpreplay: not installed here")]


def test_plot_is_written_as_a_page_that_needs_no_network(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "new/bench.html"
    code, _, err = call(capsys, "--plot", str(page))
    assert code == 0
    assert str(page) in err
    text = page.read_text()
    assert r"gso \u002f trafgen, stack" in text  # as plotly writes it
    assert 'src="http' not in text


def test_goals_of_make_bench_name_what_exists_and_each_once() -> None:
    assert {goal.engine for goal in GOALS} | {goal.peer for goal in GOALS} <= ENGINE_NAMES
    assert {goal.sink for goal in GOALS} <= SINK_NAMES
    assert {goal.flow for goal in GOALS} <= set(FLOWS)
    assert len({goal.name for goal in GOALS}) == len(GOALS)


def test_row_of_make_bench_is_a_ratio_or_says_what_lacks_or_that_it_was_disturbed() -> None:
    class GoalRig(PeerRig):
        def applied(self, settings: Any) -> Any:
            return contextlib.nullcontext()

    def row(rig: GoalRig, engine: str) -> Any:
        return judged(cast("VethRig", rig), Goal("user", "stack", engine, "trafgen", 2.5), 2, 2)

    steps = {"gso": 300, "trafgen": 100}
    found = row(GoalRig(steps), "gso")
    assert (found.name, found.median, found.verdict) == ("gso / trafgen, stack, user", 3.0, "met")
    lacks = row(GoalRig(steps), "send")
    assert (lacks.value, lacks.verdict) == ("absent: send: not installed here", "absent")
    shaken = row(GoalRig(steps, [["cpu-shared"]] * 1000), "gso")
    assert shaken.verdict == "undecided"
    assert "disturbed" in shaken.value
