"""Byte queue limits over time: read, simulated, told in words, drawn, turned off and put back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labkit.agent.queue_limits import ByteLimits, byte_limits
from labkit.analysis.queue_limits import bql_series
from labkit.errors import LabError
from labkit.experiment.explain import explain
from labkit.linux.interfaces import NamedInterface
from labkit.linux.processes import owner_of
from labkit.nic.apply import SettingsHost
from labkit.nic.journal import Device, FileJournal
from labkit.nic.queue_knobs import queue_knobs
from labkit.plots.queue_limits import bql_over_time
from labkit.records import Sample, Trial, Workload
from labkit.results.published_results import published_results
from labkit.rigs.choose import rig, simulated_rig
from labkit.rigs.queue_limits import bql_told
from labkit.traffic.flows import udp_flow

WIDE_OPEN_BYTES = 1_879_048_192
FULL = udp_flow(frame_bytes=1514)
STACK = Workload(flow=FULL, engine="sendmmsg")
TCP = Workload(flow=FULL, engine="tcp")
QDISC_RIG = "sim:ixgbe-e5-2695"
FILES = {"limit": 47_024, "inflight": 6_056, "limit_min": 0, "limit_max": WIDE_OPEN_BYTES}


def reading(limit: int, inflight: int = 0, limit_max: int = WIDE_OPEN_BYTES) -> ByteLimits:
    return ByteLimits(
        limit_bytes=limit, inflight_bytes=inflight, limit_min_bytes=0, limit_max_bytes=limit_max
    )


def sample(limit: int | None, inflight: int | None, at_ns: int = 1) -> Sample:
    return Sample(
        at_ns=at_ns,
        engine_sent=1,
        engine_refused=0,
        device_sent=1,
        peer_received=None,
        bql_limit_bytes=limit,
        bql_inflight_bytes=inflight,
    )


def simulated(name: str, workload: Workload, duration_s: float = 0.005, **settings: Any) -> Trial:
    with simulated_rig(name) as opened, opened.applied(settings):
        return opened.run(workload, duration_s=duration_s)


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    folder = tmp_path / "class/net/eth7/queues/tx-0/byte_queue_limits"
    folder.mkdir(parents=True)
    for name, value in FILES.items():
        (folder / name).write_text(f"{value}\n")
    (tmp_path / "class/net/eth8/queues/tx-0").mkdir(parents=True)
    return tmp_path


def test_files_of_the_first_queue_are_read_and_a_device_without_them_has_none(sys: Path) -> None:
    assert byte_limits("eth7", sys) == reading(47_024, 6_056)
    assert byte_limits("eth8", sys) == byte_limits("gone", sys) == ByteLimits()


def test_bytes_in_flight_below_0_are_not_known(sys: Path) -> None:
    inflight = sys / "class/net/eth7/queues/tx-0/byte_queue_limits/inflight"
    inflight.write_text(f"{2**32 - 1514}\n")
    assert byte_limits("eth7", sys).inflight_bytes is None
    inflight.write_text("0\n")
    assert byte_limits("eth7", sys).inflight_bytes == 0


NOTHING = reading(0)


@pytest.mark.parametrize(
    ("ends", "samples", "sent", "state"),
    [
        ([reading(90), reading(90)], [], 0, "at work"),
        ([NOTHING, reading(90)], [], 7, "at work"),
        ([NOTHING, NOTHING], [(0, 1514)], 7, "at work"),
        ([NOTHING, NOTHING], [(0, 0)], 7, "directory without driver support"),
        ([NOTHING, NOTHING], [], 0, None),
        ([NOTHING, NOTHING], [], None, None),
        ([reading(0, limit_max=0)] * 2, [(0, 0)], 7, None),
        ([ByteLimits()] * 2, [(None, None)], 7, "none"),
        ([], [(None, None)], 7, None),
    ],
    ids=[
        "limit of an earlier run",
        "limit that rose",
        "bytes in flight alone",
        "0 throughout",
        "nothing sent",
        "unknown what was sent",
        "held at 0 by limit_max",
        "no directory",
        "nobody could look",
    ],
)
def test_state_says_what_the_readings_prove(
    ends: list[ByteLimits], samples: list[tuple[int | None, int | None]], sent: int | None, state: str | None
) -> None:
    assert bql_told(ends, [sample(*each) for each in samples], sent)["state"] == state


def test_told_are_first_last_least_and_most_of_the_run_and_the_bounds_behind_it() -> None:
    samples = [sample(90, 1514), sample(7_000, 6_056), sample(6_000, 0)]
    assert bql_told([reading(100), reading(5_000)], samples, 9) == {
        "state": "at work",
        "limit_bytes": {"first": 100, "last": 5_000, "min": 90, "max": 7_000},
        "inflight_bytes": {"max": 6_056},
        "limit_min": 0,
        "limit_max": WIDE_OPEN_BYTES,
    }


def test_absent_limits_are_none_and_never_0() -> None:
    told = bql_told([ByteLimits()] * 2, [sample(None, None)], 5)
    assert told == {
        "state": "none",
        "limit_bytes": None,
        "inflight_bytes": None,
        "limit_min": None,
        "limit_max": None,
    }


def test_every_sample_of_a_simulated_stack_tells_limit_and_bytes_in_flight() -> None:
    trial = simulated(QDISC_RIG, STACK)
    limits = [each.bql_limit_bytes for each in trial.samples]
    held = [each.bql_inflight_bytes for each in trial.samples]
    assert len(trial.samples) == 5
    assert None not in limits + held
    assert limits == sorted(limits)
    assert 0 < limits[0] < limits[-1]
    # the frame that goes beyond the limit is still taken
    assert all(limit < each <= limit + 1514 for limit, each in zip(limits, held, strict=True))
    assert trial.environment["bql"]["limit_bytes"] == {
        "first": 0,
        "last": limits[-1],
        "min": 0,
        "max": limits[-1],
    }
    assert trial.environment["bql"]["inflight_bytes"] == {"max": max(held)}
    assert trial.environment["simulated"]["bql_limit_bytes"] == limits[-1]


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("sim:ixgbe", Workload(flow=FULL, engine="pktgen")),
        (QDISC_RIG, msgspec.structs.replace(STACK, qdisc_bypass=True)),
        ("sim:gianfar@image3", TCP),
        ("sim:generic-100g", Workload(flow=udp_flow(frame_bytes=60), engine="receive", rate_pps=100_000)),
    ],
    ids=["pktgen start_xmit", "past the qdisc", "kernel without BQL", "receiver"],
)
def test_sender_that_no_limit_stops_has_none_in_any_sample(name: str, workload: Workload) -> None:
    trial = simulated(name, workload)
    assert trial.samples
    assert {(each.bql_limit_bytes, each.bql_inflight_bytes) for each in trial.samples} == {(None, None)}
    assert trial.environment["bql"]["state"] == "none"
    assert trial.environment["simulated"]["bql_limit_bytes"] is None


def test_simulated_run_of_no_frame_proves_nothing() -> None:
    with simulated_rig(QDISC_RIG) as opened:
        assert opened.run(STACK, count=0).environment["bql"]["state"] is None


def test_huge_limit_min_hands_the_limit_over_to_the_ring_and_back() -> None:
    with simulated_rig(QDISC_RIG) as opened:
        before = opened.run(STACK, duration_s=0.05)
        with opened.applied({"bql_limit_min": WIDE_OPEN_BYTES}):
            off = opened.run(STACK, duration_s=0.05)
        after = opened.run(STACK, duration_s=0.05)
    ring_bytes = 1514 * off.settings_accepted["tx_ring"]
    held = [each.bql_inflight_bytes for each in off.samples]
    assert {each.bql_limit_bytes for each in off.samples} == {WIDE_OPEN_BYTES}
    assert 0.9 * ring_bytes < min(held) <= max(held) <= ring_bytes
    assert max(each.bql_inflight_bytes for each in before.samples) < 0.5 * ring_bytes
    assert (before.limiter, off.limiter) == (None, "TX ring")
    assert after.samples == before.samples
    assert after.settings_accepted["bql_limit_min"] == 0


def test_small_limit_max_is_what_limits() -> None:
    held = simulated(QDISC_RIG, STACK, 0.05, bql_limit_max=20_000)
    assert explain(held).limited_by == "BQL"
    assert held.environment["bql"]["limit_bytes"]["max"] == 20_000


def test_full_queue_of_a_kernel_without_limits_is_the_rings() -> None:
    assert explain(simulated("sim:gianfar@image3", TCP)).limited_by != "BQL"


def test_disabled_limits_are_journalled_and_put_back(sys: Path, tmp_path: Path) -> None:
    eth7 = NamedInterface("eth7", 7)
    owner = owner_of(os.getpid())
    assert owner is not None
    device = Device(netns_inode=1, ifindex=7, ifname="eth7", hardware="02:00:00:00:00:07 at number 7")
    journal = FileJournal(tmp_path / "journal", device, owner)
    host = SettingsHost("eth7", queue_knobs(eth7, sys=sys, proc=tmp_path / "proc"), journal, lambda: True)
    host.apply({"bql_limit_min": WIDE_OPEN_BYTES})
    assert byte_limits("eth7", sys).limit_min_bytes == WIDE_OPEN_BYTES
    kept = [(entry.name, entry.original, entry.accepted) for entry in journal.entries()]
    assert kept == [("bql_limit_min", 0, WIDE_OPEN_BYTES)]
    host.restore(0)
    assert byte_limits("eth7", sys) == reading(47_024, 6_056)
    assert not journal.entries()


@pytest.mark.parametrize(
    ("limit", "left"),
    [(WIDE_OPEN_BYTES, 0), (47_024, 47_024)],
    ids=["held up by limit_min", "found by the kernel"],
)
def test_limit_that_was_wide_open_limits_again_in_the_runs_behind(sys: Path, limit: int, left: int) -> None:
    knob = queue_knobs(NamedInterface("eth7", 7), sys=sys, proc=sys / "proc")["bql_limit_min"]
    knob.write(WIDE_OPEN_BYTES)
    # what dql_completed makes of it with the first packet
    (sys / "class/net/eth7/queues/tx-0/byte_queue_limits/limit").write_text(f"{limit}\n")
    knob.write(0)
    assert byte_limits("eth7", sys).limit_bytes == left
    knob.write(3000)
    assert byte_limits("eth7", sys).limit_bytes == left


def test_series_starts_with_the_reading_before_the_run() -> None:
    trial = simulated(QDISC_RIG, STACK, bql_limit_min=100_000, bql_limit_max=200_000)
    series = bql_series(trial)
    assert series.at_ms == (0.0, *(each.at_ns / 1e6 for each in trial.samples))
    assert series.limit_bytes == (0, *(each.bql_limit_bytes for each in trial.samples))
    assert series.inflight_bytes == (None, *(each.bql_inflight_bytes for each in trial.samples))
    assert series.bounds == (("limit_min", 100_000), ("limit_max", 200_000))
    assert (series.limit_in_sight, series.out_of_sight) == (True, ())
    assert series.text() == "limit 0 -> 200000 bytes, in flight at most 201362 bytes at 5 samples"


def test_figure_has_steps_of_both_and_thin_lines_at_the_bounds() -> None:
    trial = simulated(QDISC_RIG, STACK, bql_limit_min=100_000, bql_limit_max=200_000)
    figure = bql_over_time(trial).to_plotly_json()
    assert [trace["name"] for trace in figure["data"]] == ["limit", "in flight"]
    assert {trace["line"]["shape"] for trace in figure["data"]} == {"hv"}
    assert [list(trace["y"]) for trace in figure["data"]] == [
        list(bql_series(trial).limit_bytes),
        list(bql_series(trial).inflight_bytes),
    ]
    assert [shape["y0"] for shape in figure["layout"]["shapes"]] == [100_000, 200_000]
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["limit_min", "limit_max"]


def test_limit_that_stops_nothing_stands_in_words_and_does_not_flatten_the_rest() -> None:
    trial = simulated(QDISC_RIG, STACK, bql_limit_min=WIDE_OPEN_BYTES)
    figure = bql_over_time(trial).to_plotly_json()
    assert [trace["name"] for trace in figure["data"]] == ["in flight"]
    (note,) = figure["layout"]["annotations"]
    assert "limit_min 1,879,048,192 bytes" in note["text"]
    assert "shapes" not in figure["layout"]


@pytest.mark.parametrize(
    ("name", "workload", "words"),
    [
        ("sim:gianfar@image3", TCP, "eth0 has no byte queue limits"),
        ("sim:ixgbe", Workload(flow=FULL, engine="pktgen"), "went around the qdisc.*queue_xmit"),
    ],
)
def test_run_without_limits_says_why_and_where_to_see_them(name: str, workload: Workload, words: str) -> None:
    with pytest.raises(LabError, match=words):
        bql_over_time(simulated(name, workload))


@pytest.mark.parametrize(
    ("ends", "sent", "words"),
    [
        ([NOTHING, NOTHING], 7, "eth0 has the directory.*7 packets.*netdev_tx_completed_queue"),
        ([NOTHING, NOTHING], 0, "nothing was sent"),
        ([], 7, "could not be looked at"),
        ([reading(90)] * 2, 7, "before its first sample"),
    ],
)
def test_what_is_not_known_is_told_apart_from_what_is_not_there(
    ends: list[ByteLimits], sent: int, words: str
) -> None:
    trial = simulated(QDISC_RIG, STACK)
    told = {**trial.environment, "bql": bql_told(ends, [], sent)}
    changed = msgspec.structs.replace(trial, environment=told, device_sent=sent, samples=())
    with pytest.raises(LabError, match=words):
        bql_series(changed)


def test_published_run_says_nothing_of_its_limits() -> None:
    (first, *_) = published_results("gianfar_netperf").trials
    with pytest.raises(LabError, match="says nothing of byte queue limits"):
        bql_series(first)


def test_what_errors_advise_is_true() -> None:
    with rig("sim:gianfar") as opened:
        assert bql_series(opened.run(TCP, duration_s=0.01)).limit_bytes[-1]
