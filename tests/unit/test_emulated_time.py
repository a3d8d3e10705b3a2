"""Times of an emulated machine are called so wherever they are shown; those of any other are not."""

from __future__ import annotations

import json
from typing import Any

import msgspec

import labkit as lk
from labkit.cli.bench_command import bench_text
from labkit.cli.latency_command import latency_text
from labkit.cli.show import CAVEATS, sweep_text, trial_text
from labkit.experiment.bench import Bench
from labkit.experiment.latency import LatencyAtLoad, LatencyPoint
from labkit.records import EMULATED, Trial
from labkit.results.results import Measured, Results
from tests import sweep_fakes

BQL = {
    "state": "at work",
    "limit_bytes": {"first": 3000, "max": 3000, "last": 3000},
    "limit_min": 0,
    "limit_max": 9000,
}


def trial(*, emulated: bool, settings: dict[str, Any] | None = None) -> Trial:
    """One of a guest, or the same of a machine that nobody emulates."""
    found = sweep_fakes.trial(settings=settings, rig="vm:e1000e" if emulated else "nic:eth8")
    sample = msgspec.structs.replace(found.samples[0], bql_limit_bytes=3000, bql_inflight_bytes=500)
    environment = {"cpu": 0, "bql": BQL, **({"emulated": True} if emulated else {})}
    return msgspec.structs.replace(found, environment=environment, samples=(sample, sample))


def results(*, emulated: bool) -> Results:
    rows = []
    for ring in (64, 128):
        for usecs in (3, 500):
            levels = {"tx_ring": ring, "rx_usecs": usecs}
            rows.append(
                Measured(point=0, repeat=0, levels=levels, trial=trial(emulated=emulated, settings=levels))
            )
    return Results(
        sweep_id=None,
        rig=rows[0].trial.rig,
        state="finished",
        factors={"tx_ring": (64, 128), "rx_usecs": (3, 500)},
        rows=tuple(rows),
        gaps=(),
        environment={},
    )


def latency(one: Trial) -> LatencyAtLoad:
    point = LatencyPoint(share=0.5, asked_pps=5e5, latency_ns={"p50": 900}, reason=None, trial=one)
    return LatencyAtLoad(found_pps=1e6, found=one, points=(point,))


def shown(*, emulated: bool) -> list[str]:
    """Every place where people meet the numbers."""
    found = results(emulated=emulated)
    one = found.trials[0]
    explained = lk.explain(one)
    compared = Bench(ratios=(), absent=(), caveat=EMULATED if emulated else None)
    figures: list[Any] = [
        lk.heatmap(found, x="rx_usecs", y="tx_ring"),
        lk.lines(found, x="tx_ring", by="rx_usecs"),
        lk.waterfall(explained),
        lk.latency_curves(latency(one)),
        lk.bench_plot(compared),
        lk.bql_over_time(one),
    ]
    expected = lk.expect({"lock": -2}, one, microcosts={"lock": 8.0})
    texts = [repr(one), trial_text(one), repr(found), sweep_text(found), found._repr_html_()]
    texts += [explained.text(), explained.measured_by, explained._repr_markdown_(), expected.text()]
    texts += [latency_text(latency(one)), bench_text(compared, None)]
    return texts + [json.loads(figure.to_json())["layout"]["title"]["text"] for figure in figures]


def test_emulated_times_are_called_so_everywhere() -> None:
    assert [text for text in shown(emulated=True) if EMULATED not in text] == []


def test_no_other_time_is_called_so() -> None:
    assert [text for text in shown(emulated=False) if EMULATED in text] == []


def test_tables_say_what_that_means() -> None:
    for text in (sweep_text(results(emulated=True)), latency_text(latency(trial(emulated=True)))):
        assert text.splitlines()[-1] == CAVEATS[EMULATED]
