"""Figures of explanations: each part with its source, bars that follow each other, rows that stay apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

import labkit as lk
from labkit.plots.waterfall import waterfall
from tests.sweep_fakes import trial


@pytest.fixture(scope="module")
def told() -> Any:
    flow = lk.udp_flow(frame_bytes=60, flows=1)
    with lk.rig("sim:ixgbe") as rig, rig.applied({"tx_ring": 512, "rx_usecs": 1}):
        return lk.explain(rig.run(lk.Workload(flow, engine="pktgen")), measured_ns=260.0)


def bars(figure: Any) -> list[dict[str, Any]]:
    data = json.loads(figure.to_json())["data"]
    return [
        {"start": start, "ns": ns, "row": row, "hover": hover, "group": trace["name"]}
        for trace in data
        for start, ns, row, hover in zip(
            trace["base"], trace["x"], trace["y"], trace["customdata"], strict=True
        )
    ]


def test_each_bar_begins_where_the_last_one_ended_and_the_whole_is_their_sum(told: Any) -> None:
    drawn = sorted(
        (bar for bar in bars(lk.waterfall(told)) if bar["group"] != "whole"), key=lambda b: b["start"]
    )
    end = 0.0
    for bar in drawn:
        assert bar["start"] == pytest.approx(end, abs=0.05)
        end = bar["start"] + bar["ns"]
    assert end == pytest.approx(260.0, abs=0.05)
    (whole,) = (bar for bar in bars(lk.waterfall(told)) if bar["group"] == "whole")
    assert whole["ns"] == 260.0


def test_each_bar_names_its_source_in_short_and_under_the_pointer_in_full(told: Any) -> None:
    drawn = {bar["row"].partition("<br>")[0]: bar for bar in bars(waterfall(told))}
    assert {"doorbell", "cleaning", "interrupts", "waiting for the ring", "unexplained"} <= drawn.keys()
    for share in told.budget:
        if share.name in drawn:
            assert share.source[:20] in drawn[share.name]["row"]
            assert share.source in drawn[share.name]["hover"].replace("<br>", " ")
    assert drawn["waiting for the ring"]["group"] == "waiting"
    assert drawn["unexplained"]["group"] == "unexplained"


def test_the_wires_own_time_stands_at_four_speeds(told: Any) -> None:
    layout = json.loads(lk.waterfall(told).to_json())["layout"]
    assert [round(line["x0"], 2) for line in layout["shapes"]] == [67.2, 26.88, 16.8, 6.72]
    assert layout["annotations"][0]["text"] == "10G: 67.20"


def test_lines_of_the_wire_that_lie_on_each_other_share_a_label() -> None:
    slow = lk.explain(trial(rig="veth", device_sent=10**6, cpu_ns=10**9, pps=8e5))
    notes = json.loads(lk.waterfall(slow).to_json())["layout"]["annotations"]
    assert [note["text"] for note in notes] == ["10G: 67.20", "25G to 100G: 27 to 7"]


def test_a_trial_that_sent_nothing_gives_a_figure_that_says_so() -> None:
    empty = lk.explain(trial(pps=None, ns_per_packet=None, device_sent=None))
    layout = json.loads(lk.waterfall(empty).to_json())["layout"]
    assert layout["annotations"][0]["hovertext"] == "nothing was sent"


def test_rings_with_the_same_name_keep_rows_of_their_own(told: Any) -> None:
    veth = lk.explain(trial(rig="veth"))
    figure = json.loads(lk.ring_zones([told, told.ring, veth]).to_json())
    assert figure["data"][0]["y"] == [0, 1]
    assert [
        sum(parts) for parts in zip(*(zone["x"] for zone in figure["data"]), strict=True)
    ] == pytest.approx([512, 512])
    assert all(note["text"] == "waits 0.02 µs" for note in figure["layout"]["annotations"])
