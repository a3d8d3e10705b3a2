"""Machines that nobody measured are called so wherever their numbers are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

import labkit as lk
from labkit.cli.show import sweep_text, trial_text
from labkit.results.results import Measured, Results
from labkit.rigs.catalog import known_rigs
from labkit.rigs.choose import simulated_rig
from tests.unit.test_sim_rig import workload


def results(rig: str) -> Results:
    rows = []
    for ring in (512, 1024):
        for usecs in (10, 20):
            levels = {"tx_ring": ring, "rx_usecs": usecs}
            with simulated_rig(rig) as opened, opened.applied(levels):
                trial = opened.run(workload(), duration_s=0.01)
            rows.append(Measured(point=0, repeat=0, levels=levels, trial=trial))
    return Results(
        sweep_id=None,
        rig=rig,
        state="finished",
        factors={"tx_ring": (512, 1024), "rx_usecs": (10, 20)},
        rows=tuple(rows),
        gaps=(),
        environment={},
    )


def shown(found: Results) -> list[str]:
    """Every place where people meet the numbers."""
    trial = found.trials[0]
    explained = lk.explain(trial)
    figures: list[Any] = [
        lk.heatmap(found, x="rx_usecs", y="tx_ring"),
        lk.lines(found, x="tx_ring", by="rx_usecs"),
        lk.waterfall(explained),
    ]
    texts = [repr(trial), trial_text(trial), repr(found), sweep_text(found), _first(explained.text())]
    texts += [_first(explained._repr_markdown_()), _first(lk.expect({"lock": -1}, trial).text())]
    return texts + [json.loads(figure.to_json())["layout"]["title"]["text"] for figure in figures]


def _first(text: str) -> str:
    """Its first line: sources further down say what-if of single numbers."""
    return text.partition("\n")[0]


@pytest.mark.parametrize("rig", ["sim:generic-25g", "sim:generic-100g"])
def test_machine_that_nobody_measured_is_called_so_everywhere(rig: str) -> None:
    assert [info.title for info in known_rigs() if info.name == rig and "what-if" in info.title]
    assert [text for text in shown(results(rig)) if "what-if" not in text] == []


def test_machine_that_was_measured_is_not_called_so() -> None:
    assert [text for text in shown(results("sim:ixgbe")) if "what-if" in text] == []
