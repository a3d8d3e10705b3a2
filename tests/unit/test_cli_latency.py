"""`labkit latency`, and what `run` and `sweep` tell of several CPUs, pace and sink, over stand-ins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labkit.cli import main, show
from labkit.experiment import latency as latencies
from labkit.experiment.latency import LatencyAtLoad, LatencyPoint
from labkit.records import Trial, Workload
from labkit.results.results import Measured, Results
from tests.sweep_fakes import FakeRig, trial

LATENCY = {"p50": 4_000, "p90": 5_000, "p99": 9_000, "p99.9": 40_000, "p99.99": 90_000, "max": 120_000}
SINK = {
    "lost": 2,
    "duplicates": 0,
    "reordered": 1,
    "corrupted": None,
    "foreign": 3,
    "kernel_dropped": 0,
    "latency_ns": LATENCY,
    "latency_note": None,
}
NO_LATENCY = SINK | {"latency_ns": None, "latency_note": "frames carry no running number"}

Run = Callable[..., tuple[int, str, str]]


class Asked:
    """Stands for the measurement, and remembers what it was asked."""

    def __init__(self) -> None:
        self.workload: Workload | None = None
        self.more: dict[str, Any] = {}

    def __call__(self, rig: Any, workload: Workload, *, shares: Sequence[float], **more: Any) -> Any:
        self.workload, self.more = workload, more | {"shares": shares}
        points = [
            LatencyPoint(
                share=share,
                asked_pps=share * 1e6,
                latency_ns=LATENCY if share < 0.9 else None,
                reason=None if share < 0.9 else "marked rate-missed",
                trial=msgspec.structs.replace(trial(pps=share * 1e6), environment={"sink": SINK}),
            )
            for share in shares
        ]
        return LatencyAtLoad(found_pps=1e6, found=trial(), points=tuple(points))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    stands = Asked()
    monkeypatch.setattr(latencies, "latency_at_load", stands)
    monkeypatch.setattr("labkit.rigs.choose.rig", lambda name, **parameters: FakeRig())
    return stands


@pytest.fixture
def labkit(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


def test_latency_asks_for_three_loads_into_a_ring_and_tells_microseconds(asked: Asked, labkit: Run) -> None:
    code, out, err = labkit("latency", "--engine", "send", "--set", "txqueuelen=100", "--duration", "0.5")
    assert (code, err) == (0, "")
    assert asked.workload is not None
    assert (asked.workload.engine, asked.workload.sink) == ("send", "rx_ring")
    assert asked.more == {"shares": (0.1, 0.5, 0.9), "settings": {"txqueuelen": 100}, "duration_s": 0.5}
    first, _, *rows = out.splitlines()
    assert first == "1 000 000 pps arrived unpaced"
    wanted = ["0.1", "100", "000", "100", "000", "2", "4.0", "5.0", "9.0", "40.0", "90.0", "120.0"]
    assert rows[0].split() == wanted
    assert rows[2].split()[-6:] == [show.DASH] * 6
    assert rows[3] == "load 0.9: marked rate-missed"


def test_latency_as_json_holds_each_load_with_its_trial(asked: Asked, labkit: Run) -> None:
    told = json.loads(labkit("latency", "--load", "0.2,0.4", "--sink", "socket", "--json")[1])
    assert told["found_pps"] == 1e6
    assert [point["share"] for point in told["points"]] == [0.2, 0.4]
    assert told["points"][0]["latency_ns"] == LATENCY
    assert told["points"][0]["trial"]["environment"]["sink"]["lost"] == 2
    assert asked.workload is not None
    assert asked.workload.sink == "socket"


def test_latency_is_drawn_into_a_page(asked: Asked, labkit: Run, tmp_path: Path) -> None:
    page = tmp_path / "new" / "latency.html"
    _, _, err = labkit("latency", "--plot", str(page))
    assert err == f"labkit: written to {page}\n"
    assert "plotly" in page.read_text().lower()


@pytest.mark.parametrize(
    ("words", "why"),
    [(("--rate", "1000"), "leave out --rate"), (("--load", "half"), "--load 'half': give parts")],
)
def test_latency_that_makes_no_sense_is_refused_and_runs_nothing(
    asked: Asked, labkit: Run, words: tuple[str, ...], why: str
) -> None:
    code, _, err = labkit("latency", *words)
    assert code == 2
    assert why in err
    assert asked.workload is None


def told(**environment: Any) -> list[str]:
    return show.trial_text(msgspec.structs.replace(trial(), environment=environment)).splitlines()


def test_run_tells_how_even_a_paced_sender_was() -> None:
    pacing = {"gap_p50_ns": 100_123, "gap_p99_ns": 140_000, "burst_frames": 3}
    line = "  gaps between calls 100 123 ns in the median, 140 000 ns p99; longest burst 3"
    assert line in told(pacing=pacing)


def test_run_tells_each_cpus_part() -> None:
    workers = [
        {"cpu": 3, "sent": 5, "pps": 812_345.4, "cpu_ns_per_packet": 1_231.04},
        {"cpu": 2, "sent": None, "pps": None, "cpu_ns_per_packet": None},
    ]
    lines = told(workers=workers)
    assert "  CPU 3: 812 345 pps, 1 231.0 ns a packet" in lines
    assert f"  CPU 2: {show.DASH} pps, {show.DASH} ns a packet" in lines


def test_run_tells_what_the_sink_saw_and_how_late() -> None:
    lines = told(sink=SINK)
    assert "  sink: lost 2   duplicates 0   reordered 1   foreign 3   kernel dropped 0" in lines
    assert lines[-1].startswith("  µs from when a frame was due: p50 4.0   p90 5.0")
    assert told(sink=NO_LATENCY)[-1] == "  no latency: frames carry no running number"


def swept(rates: dict[Any, list[Trial]], **factors: Any) -> Results:
    rows = tuple(
        Measured(point=0, repeat=repeat, levels={"cpus": cpus, **dict.fromkeys(factors, 1)}, trial=each)
        for cpus, trials in rates.items()
        for repeat, each in enumerate(trials)
    )
    return Results(
        sweep_id=None,
        rig="fake",
        state="finished",
        factors={"cpus": tuple(rates), **factors},
        rows=rows,
        gaps=(),
        environment={},
    )


def test_sweep_over_cpus_tells_the_efficiency_of_each() -> None:
    lines = show.sweep_text(swept({1: [trial(pps=1e6)] * 2, 2: [trial(pps=1.5e6)] * 2})).splitlines()
    head = next(number for number, line in enumerate(lines) if "efficiency" in line)
    assert lines[head + 1].split() == ["1", "1", "000", "000", "1.000", show.DASH, show.DASH]
    assert lines[head + 2].split() == ["2", "750", "000", "0.750", "0.750", "0.750"]


def test_sweep_that_cannot_tell_an_efficiency_has_no_such_table() -> None:
    disturbed = msgspec.structs.replace(trial(), marks=["cpu-shared"])
    for results in (
        swept({1: [trial()], 2: [trial()]}, batch=(1, 2)),
        swept({2: [trial()]}),
        swept({1: [disturbed], 2: [disturbed]}),
    ):
        assert "efficiency" not in show.sweep_text(results)
