"""TCP streams without a network: netperf's arithmetic, trials, refusals, and how a rate moves."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit._native import Progress, StopFlag
from labkit.analysis.streams import FEWEST, Oscillation, oscillation, oscillation_of
from labkit.cli.stream_text import stream_lines
from labkit.counters.streams import (
    cpu_percent,
    demand_of_utilisation,
    service_demand_us_per_kb,
    throughput_mbit,
)
from labkit.engines.base import EngineConfig
from labkit.engines.choose import choose, placed
from labkit.engines.stream_records import StreamReport
from labkit.engines.tcp import interval_ns, reader_cpu
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError, WorkloadError
from labkit.experiment.bench import device_mbit, usual_engines
from labkit.factors import STREAM_NAMES
from labkit.linux.machine import cpu_busy_ns
from labkit.paths import data_dir
from labkit.records import RigInfo, Sample, Trial, Workload
from labkit.rigs.assemble import trial_of
from labkit.rigs.catalog import DEVICE, VETH, check_setting, check_workload
from labkit.rigs.lacking import why_not
from labkit.rigs.streams import RULE, flow_of, frame_bytes_of
from labkit.rigs.veth import _value
from labkit.traffic.flows import udp_flow
from labkit.traffic.table import FrameTable
from tests.unit.test_assemble import ASKED, SECOND_NS, measured_run, reading

MS = 1_000_000
FLOW = udp_flow(60, 1)
ONE = FrameTable.of([bytes(60)])
STREAM = StreamReport(
    message_bytes=16_384,
    bytes_sent=125_000_000,
    bytes_received=125_000_000,
    drained=True,
    retransmits=3,
    rtt_us=100,
    cwnd_segments=10,
    mss_bytes=1448,
    data_segments=86_326,
    waits=7,
    written_ns=SECOND_NS - 2 * MS,
    send_cpu_ns=600 * MS,
    receive_cpu_ns=300 * MS,
    send_cpu=1,
    receive_cpu=0,
    busy_send_ns=750 * MS,
    busy_receive_ns=400 * MS,
    device_bytes=131_000_000,
    device_ns=SECOND_NS,
    intervals=[(100 * MS * step, 12_500_000 * step) for step in range(1, 11)],
)


def stream_trial(stream: StreamReport = STREAM, **did: Any) -> Trial:
    """A trial of engine tcp whose stream was `stream`."""
    measured = measured_run(reading(2000), sent=None, stream=stream, **did)
    asked = msgspec.structs.replace(ASKED, engine="tcp", frame_bytes=1514, batch=1)
    return trial_of(asked, measured, RULE, ())


# ---------------------------------------------------------------- netperf's arithmetic

with (data_dir() / "published/gianfar_netperf.csv").open() as published:
    GIANFAR = list(csv.DictReader(published))


@pytest.mark.parametrize(
    "row", GIANFAR, ids=lambda row: f"{row['image']}-{row['coalescing'][:3]}-{row['run']}"
)
@pytest.mark.parametrize("side", ["local", "remote"])
def test_service_demand_of_every_published_run_is_its_utilisation_of_one_cpu(
    row: dict[str, str], side: str
) -> None:
    """The p1010 has one core, and its netperf was told of one at the other side: percent are of one CPU."""
    percent, demand = float(row[f"cpu_{side}_pct"]), float(row[f"sdem_{side}_us_per_kb"])
    mbit = float(row["throughput_mbit"])
    low, high = (demand_of_utilisation(percent + off, mbit - off) for off in (-0.005, 0.005))
    assert low - 0.0005 <= demand <= high + 0.0005
    assert demand_of_utilisation(percent, mbit, cpus=2) == pytest.approx(2 * demand, rel=2e-3)


def test_figures_of_counts_are_those_of_utilisation_and_throughput() -> None:
    mbit, percent = throughput_mbit(125_000_000, 2 * SECOND_NS), cpu_percent(SECOND_NS, 2 * SECOND_NS)
    assert (mbit, percent) == (500.0, 50.0)
    demand = service_demand_us_per_kb(SECOND_NS, 125_000_000)
    assert demand == pytest.approx(8.192)
    assert demand == pytest.approx(demand_of_utilisation(50.0, 500.0))


def test_figures_without_time_or_bytes_are_unknown_and_not_0() -> None:
    assert throughput_mbit(5, 0) is None
    assert cpu_percent(5, 0) is None
    assert service_demand_us_per_kb(5, 0) is None
    assert throughput_mbit(0, SECOND_NS) == 0.0


def test_busy_time_of_a_cpu_leaves_out_idling_waiting_and_what_was_stolen(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(
        "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 1 2 4 1000 1000 8 16 1000 1 2\ncpu10 5 5\n"
    )
    assert cpu_busy_ns(1, tmp_path) == 31 * 10 * MS
    assert cpu_busy_ns(0, tmp_path) == 0
    assert cpu_busy_ns(2, tmp_path) is None
    assert cpu_busy_ns(10, tmp_path) is None


# ---------------------------------------------------------------- what a trial tells


def test_trial_of_a_stream_tells_what_netperf_does_by_the_published_names() -> None:
    trial = stream_trial()
    told = trial.environment["tcp"]
    assert told["throughput_mbit"] == 1000.0
    assert (told["cpu_local_pct"], told["cpu_remote_pct"]) == (75.0, 40.0)
    assert told["sdem_local_us_per_kb"] == pytest.approx(demand_of_utilisation(75.0, 1000.0))
    assert told["sdem_remote_us_per_kb"] == pytest.approx(demand_of_utilisation(40.0, 1000.0))
    assert set(GIANFAR[0]) & set(told) == {
        *("throughput_mbit", "cpu_local_pct", "cpu_remote_pct"),
        *("sdem_local_us_per_kb", "sdem_remote_us_per_kb"),
    }
    assert (told["bytes_sent"], told["bytes_received"], told["retransmits"]) == (125_000_000, 125_000_000, 3)
    assert told["intervals"][0] == [100 * MS, 12_500_000]
    assert (told["drain_ns"], told["device_mbit"]) == (2 * MS, 1048.0)
    assert "both ends are one machine" in told["cpus_are"]


def test_packets_of_a_stream_are_the_device_s_and_bytes_are_what_is_held_together() -> None:
    trial = stream_trial()
    assert (trial.device_sent, trial.pps, trial.engine_sent, trial.peer_received) == (2000, 2000, None, None)
    assert (trial.reconciled, trial.difference_reason) == (True, None)
    assert trial.segments_sent == 86_326
    assert trial.environment["device_packets_are"] == "super-packets"


def test_packets_no_longer_than_frames_are_not_called_super_packets() -> None:
    assert (
        "device_packets_are"
        not in stream_trial(msgspec.structs.replace(STREAM, device_bytes=2_000_000)).environment
    )


@pytest.mark.parametrize(
    ("changes", "did", "words"),
    [
        ({"bytes_received": 124_999_999}, {}, "1 bytes written and never read: still on their way"),
        ({"bytes_received": 125_000_002}, {}, "2 bytes read more than were written"),
        ({"drained": False}, {}, "every byte was read, but the stream's end never came"),
        (
            {"drained": False, "receive_errno": "ECONNRESET", "bytes_received": 0},
            {},
            r"reading ended early \(ECONN",
        ),
        ({"drained": False}, {"fatal_errno": "EPIPE"}, r"^writing ended early \(EPIPE\)$"),
    ],
)
def test_stream_that_is_not_whole_is_not_reconciled_and_says_why(
    changes: dict[str, Any], did: dict[str, Any], words: str
) -> None:
    trial = stream_trial(msgspec.structs.replace(STREAM, **changes), **did)
    assert trial.reconciled is False
    with pytest.raises(LabError, match=words):
        raise LabError(str(trial.difference_reason))


def test_sender_that_waits_for_its_reader_is_not_called_disturbed() -> None:
    assert stream_trial(cpu_ns=1, end_ns=3 * SECOND_NS).marks == []
    assert (
        "cpu-shared"
        in trial_of(ASKED, measured_run(reading(10), cpu_ns=1, end_ns=3 * SECOND_NS), RULE, ()).marks
    )


def test_one_cpu_for_both_has_no_remote_figures() -> None:
    told = stream_trial(msgspec.structs.replace(STREAM, receive_cpu=None, busy_receive_ns=None)).environment[
        "tcp"
    ]
    assert (told["cpu_remote_pct"], told["sdem_remote_us_per_kb"]) == (None, None)
    assert "share one CPU" in told["cpus_are"]


def test_busy_time_is_never_more_than_the_run_though_ticks_are_coarse() -> None:
    told = stream_trial(msgspec.structs.replace(STREAM, busy_send_ns=SECOND_NS + 10 * MS)).environment["tcp"]
    assert told["cpu_local_pct"] == 100.0


def test_stream_of_another_program_is_told_by_the_device_alone() -> None:
    seen = StreamReport(message_bytes=16_384, send_cpu=1, device_bytes=125_000_000, device_ns=SECOND_NS)
    trial = stream_trial(seen)
    told = trial.environment["tcp"]
    assert told["device_mbit"] == device_mbit(trial) == 1000.0
    assert {told[name] for name in ("throughput_mbit", "cpu_local_pct", "bytes_sent", "bytes_received")} == {
        None
    }
    assert trial.reconciled is None
    assert "no counter of the receiving device tells apart" in str(trial.difference_reason)
    assert stream_lines(trial) == ["  1 000.0 Mbit/s by the sending device, headers included"]


def test_trial_of_frames_says_nothing_of_streams() -> None:
    trial = trial_of(ASKED, measured_run(reading(10)), RULE, ())
    assert "tcp" not in trial.environment
    assert stream_lines(trial) == []


def test_frames_of_a_stream_are_as_long_as_the_mtu_allows() -> None:
    assert frame_bytes_of("tcp", ONE, {"mtu": 9000}) == 9014
    assert frame_bytes_of("tcp", ONE, {}) == 60
    assert frame_bytes_of("sendmmsg", ONE, {"mtu": 9000}) == 60


def test_lines_for_people_hold_throughput_cost_bytes_and_movement() -> None:
    cost, counted, movement = stream_lines(stream_trial())
    assert cost == (
        "  1 000.0 Mbit/s to the reader; CPU local 75.0 %, remote 40.0 %; "
        "service demand 6.144 and 3.277 us/KB"
    )
    assert counted == "  bytes written 125 000 000   read 125 000 000   segments sent again 3"
    assert movement.startswith("  within the run: median 1 000 Mbit/s")


def test_lines_of_a_short_run_say_that_it_is_too_short() -> None:
    trial = stream_trial(msgspec.structs.replace(STREAM, intervals=STREAM.intervals[:3]))
    assert "2 whole intervals behind the first" in stream_lines(trial)[-1]


# ---------------------------------------------------------------- what is refused


def config(**more: Any) -> EngineConfig:
    return EngineConfig(**{"ifindex": 1, "batch": 1, "duration_ns": 1, **more})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"rate_pps": 5.0}, "its acknowledgements are its clock; leave rate_pps out"),
        ({"batch": 64}, "the stack makes its frames; leave batch out"),
        ({"stamp": True}, "leave stamp out"),
        ({"qdisc_bypass": True}, "leave qdisc_bypass out"),
        ({"realtime_priority": 5}, "leave realtime_priority out"),
        ({"message_bytes": 0}, "message_bytes 0: give 1 to 16777216"),
        ({"message_bytes": 2**24 + 1}, "give 1 to 16777216"),
        ({"duration_ns": None}, "neither count nor duration"),
    ],
)
def test_stream_refuses_what_it_cannot_be_asked(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        choose("tcp").check(ONE, config(**asked))


def test_stream_of_iperf3_refuses_a_count_and_writes_without_bytes() -> None:
    engine = choose("iperf3_tcp")
    engine.check(ONE, config(cpu=0, message_bytes=1))
    for asked, words in (({"count": 5}, "give a duration"), ({"message_bytes": 0}, "give 1 to")):
        with pytest.raises(WorkloadError, match=f"iperf3_tcp.*{words}"):
            engine.check(ONE, config(cpu=0, **asked))


def test_lengths_of_a_mix_are_not_told_as_those_of_a_stream() -> None:
    mix = lk.imix_flow()
    assert flow_of("sendmmsg", mix) == mix.describe()
    told = flow_of("tcp", mix)
    assert "mean_wire_bytes" not in told
    assert "shortest_frame_bytes" not in told
    assert told["packet"] == mix.describe()["packet"]


@pytest.mark.parametrize("name", STREAM_NAMES)
def test_stream_without_a_far_end_says_where_there_is_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.engines.iperf3_tcp.shutil.which", lambda *_, **__: "/bin/true")
    monkeypatch.setattr("labkit.engines.peers.socket.if_indextoname", lambda _: "lo")
    with pytest.raises(CapabilityMissingError, match=f"{name}: needs a server.*rig 'veth' with sink 'stack'"):
        placed(choose(name), None).run(ONE, config(), StopFlag(), Progress())


@pytest.mark.parametrize("name", STREAM_NAMES)
@pytest.mark.parametrize("sink", ["ifb", "rx_ring", "socket", "xdp_drop"])
def test_stream_ends_in_the_stack_alone(name: str, sink: str) -> None:
    with pytest.raises(CapabilityMissingError, match=f"sink '{sink}' has none; take sink 'stack'"):
        check_workload(VETH, Workload(FLOW, name, sink=sink))
    check_workload(VETH, Workload(FLOW, name, sink="stack", message_bytes=1500))


def test_stream_goes_to_a_port_where_a_rig_has_its_far_end_there() -> None:
    guest = RigInfo(name="vm:x", title="", engines=("tcp",), sinks=("port", "stack", "rx_ring"), factors=())
    check_workload(guest, Workload(FLOW, "tcp", sink="port"))
    with pytest.raises(CapabilityMissingError, match="sink 'rx_ring' has none; take sink 'port'"):
        check_workload(guest, Workload(FLOW, "tcp", sink="rx_ring"))


def test_several_streams_and_writes_of_nothing_are_refused() -> None:
    with pytest.raises(CapabilityMissingError, match=r"is one stream .* not 2 of them; leave cpus out"):
        check_workload(VETH, Workload(FLOW, "tcp", cpus=2))
    with pytest.raises(WorkloadError, match="message_bytes 0: give 1 or more"):
        check_workload(VETH, Workload(FLOW, "tcp", message_bytes=0))


def test_interface_of_this_machine_has_no_stream_for_want_of_a_reader() -> None:
    with pytest.raises(CapabilityMissingError, match="no engine 'tcp': a stream needs somebody to read it"):
        check_workload(DEVICE, Workload(FLOW, "tcp"))
    named = RigInfo(name="nic:eth9", title="", engines=("send",), sinks=("wire",), factors=())
    with pytest.raises(CapabilityMissingError, match="take rig 'veth'"):
        check_workload(named, Workload(FLOW, "tcp"))


@pytest.mark.parametrize("name", ["bql_limit_min", "bql_limit_max"])
def test_veth_says_that_it_has_no_byte_queue_limits_and_who_has(name: str) -> None:
    with pytest.raises(
        CapabilityMissingError, match=r"veth has no byte queue limits.*'vm:e1000e', or 'sim:gianfar'"
    ):
        check_setting(VETH, name)
    assert why_not("veth", "setting 'rx_usecs'") is None


def test_veth_takes_a_limit_of_bytes_below_a_tcp_socket_that_is_above_0() -> None:
    assert _value("tcp_limit_output_bytes", 4096) == 4096
    with pytest.raises(SettingRefusedError, match="tcp_limit_output_bytes 0 is outside 1"):
        _value("tcp_limit_output_bytes", 0)


def test_comparisons_of_all_engines_leave_streams_out() -> None:
    assert not set(STREAM_NAMES) & set(usual_engines(VETH))
    assert "sendmmsg" in usual_engines(VETH)


# ---------------------------------------------------------------- who reads, and how often it is counted


@pytest.mark.parametrize(
    ("sender", "allowed", "reader"), [(1, {0, 1}, 0), (0, {0, 1, 2}, 1), (3, {3}, 3), (None, {2, 5}, 2)]
)
def test_reader_has_the_first_cpu_that_does_not_send(
    sender: int | None, allowed: set[int], reader: int
) -> None:
    assert reader_cpu(sender, allowed) == reader


@pytest.mark.parametrize(
    ("duration_ns", "ms"),
    [
        (None, 100),
        (SECOND_NS, 50),
        (20 * SECOND_NS, 100),
        (SECOND_NS // 5, 10),
        (1, 1),
        (6000 * SECOND_NS, 1000),
    ],
)
def test_arrivals_are_counted_ten_times_a_second_or_twenty_times_a_run(
    duration_ns: int | None, ms: int
) -> None:
    assert interval_ns(duration_ns) == ms * MS


# ---------------------------------------------------------------- how a rate moves


def of_rates(rates: list[float], step_ns: int = 100 * MS) -> Oscillation:
    """The oscillation of a run whose intervals had `rates`, behind a first one that nobody looks at."""
    count, points = 0.0, [(step_ns, 0)]
    for number, rate in enumerate(rates, 2):
        count += rate * step_ns / SECOND_NS
        points.append((number * step_ns, round(count)))
    return oscillation_of(points, unit="frames/s")


def test_steady_rate_does_not_swing() -> None:
    seen = of_rates([600_000.0] * 20)
    assert (seen.median, seen.low, seen.high) == (600_000, 600_000, 600_000)
    assert (seen.swing, seen.variation, seen.period_s, seen.turns) == (0.0, 0.0, None, 0)
    assert seen.text().endswith("0% of the median; 0 turns in 20 intervals of 100 ms, no period")


def test_square_wave_between_500_and_700_is_seen_with_its_period() -> None:
    seen = of_rates([(500_000.0, 700_000.0)[place // 4 % 2] for place in range(48)])
    assert (seen.low, seen.high) == (500_000, 700_000)
    assert seen.swing == pytest.approx(1 / 3, rel=0.21)
    assert seen.variation == pytest.approx(1 / 6, rel=0.05)
    assert seen.period_s == pytest.approx(0.8)
    assert seen.turns == 11 - 1


def test_sine_in_noise_is_seen_with_its_period() -> None:
    draw = random.Random(7)
    seen = of_rates([6e5 + 1e5 * math.sin(place / 10 * math.tau) + draw.gauss(0, 3e4) for place in range(80)])
    assert seen.period_s == pytest.approx(1.0, abs=0.1)


def test_noise_has_no_period_and_turns_at_two_of_three() -> None:
    found = 0
    for seed in range(200):
        draw = random.Random(seed)
        seen = of_rates([draw.gauss(6e5, 5e4) for _ in range(50)])
        found += seen.period_s is not None
        assert 22 < seen.turns < 44  # 2/3 of 48, give or take four standard deviations
        assert seen.variation == pytest.approx(1 / 12, rel=0.5)
    assert found <= 6


def test_trend_is_no_period_and_has_no_turns() -> None:
    seen = of_rates([5e5 + 1e4 * place for place in range(30)])
    assert (seen.period_s, seen.turns) == (None, 0)
    assert seen.swing is not None
    assert seen.swing > 0.3


def test_wave_that_does_not_come_twice_is_no_period() -> None:
    assert of_rates([6e5 + 1e5 * math.sin(place / 40 * math.tau) for place in range(44)]).period_s is None


def test_nothing_at_all_has_no_swing() -> None:
    seen = of_rates([0.0] * 12)
    assert (seen.median, seen.swing, seen.variation, seen.period_s) == (0, None, None, None)


def test_first_and_cut_off_intervals_are_left_out() -> None:
    points = [(100 * MS, 1), *((100 * MS * step, 1000 * step) for step in range(2, 12)), (1_110 * MS, 11_001)]
    seen = oscillation_of(points, unit="frames/s")
    assert len(seen.rates) == 10
    assert seen.rates[-1] == 10_000


def test_too_few_intervals_are_refused_in_words() -> None:
    with pytest.raises(LabError, match=f"{FEWEST - 1} whole intervals behind the first, .* needs {FEWEST}"):
        of_rates([1.0] * (FEWEST - 1))
    of_rates([1.0] * FEWEST)
    with pytest.raises(LabError, match="0 whole intervals"):
        oscillation_of([], unit="frames/s")


def test_stream_s_own_bytes_are_what_oscillates() -> None:
    seen = oscillation(stream_trial())
    assert seen.unit == "Mbit/s"
    assert seen.median == pytest.approx(1000.0)
    assert len(seen.rates) == 9


@pytest.mark.parametrize("counter", ["peer_received", "device_sent", "engine_sent"])
def test_samples_of_any_trial_are_looked_at_by_what_counts_there(counter: str) -> None:
    names = ("peer_received", "device_sent", "engine_sent")
    samples = tuple(
        Sample(
            at_ns=step * 100 * MS,
            engine_refused=None,
            **{name: step * 50 if name == counter else None for name in names},
        )
        for step in range(1, 15)
    )
    trial = msgspec.structs.replace(stream_trial(), environment={}, samples=samples)
    seen = oscillation(trial)
    assert (seen.unit, seen.median) == ("frames/s", 500)
    with pytest.raises(LabError, match="0 whole intervals"):
        oscillation(msgspec.structs.replace(trial, samples=()))
