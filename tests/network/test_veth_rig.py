"""The veth rig: real packets, three counts, both privileges, and nothing left behind."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from labkit.errors import (
    AgentLostError,
    CapabilityMissingError,
    LabError,
    SettingRefusedError,
    WorkloadError,
)
from labkit.experiment.trial import run_trial
from labkit.records import Sample, Trial, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.captures import pcap_flow, write_pcap
from labkit.traffic.flows import Flow, udp_flow
from labkit.traffic.mixes import imix_flow
from labkit.traffic.table import FrameTable

pytestmark = pytest.mark.network
FLOW = udp_flow(frame_bytes=60, flows=16)
SENDMMSG = Workload(flow=FLOW, engine="sendmmsg")
SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("spinning", flush=True)
while os.getppid() != 1: pass
"""


class GivenFrames:
    """Traffic of ready-made frames, legal or not."""

    def __init__(self, *frames: bytes) -> None:
        self._table = FrameTable.of(frames)
        self.frame_bytes = self._table.longest_bytes

    def with_frame_bytes(self, frame_bytes: int) -> GivenFrames:
        raise WorkloadError(f"given frames cannot become {frame_bytes} bytes long")

    def describe(self) -> dict[str, object]:
        return {"given": len(self._table)}

    def table(self) -> FrameTable:
        return self._table


def agent_pid(rig: VethRig) -> int:
    return rig._client._process.pid  # type: ignore[attr-defined,no-any-return]


@pytest.fixture(params=["own", "userns"])
def rig(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[VethRig]:
    if request.param == "userns":
        monkeypatch.setenv("LABKIT_USERNS", "1")
    with VethRig() as made:
        yield made


def test_three_independent_counts_agree(rig: VethRig) -> None:
    trial = run_trial(rig, SENDMMSG, duration_s=0.3)
    assert trial.engine_sent == trial.device_sent == trial.peer_received
    assert trial.engine_sent > 1000
    assert trial.peer_dropped == trial.device_dropped == trial.qdisc_dropped == 0
    assert trial.reconciled is True
    assert trial.difference_reason is None
    assert trial.environment["peer_counter"] == "veth1 rx_otherhost_dropped"
    forced = os.environ.get("LABKIT_USERNS") == "1" or os.geteuid() != 0
    assert trial.privilege == ("userns" if forced else "root")


@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring", "gso", "af_xdp"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1001])
def test_exactly_the_asked_count_arrives(rig: VethRig, engine: str, count: int) -> None:
    trial = run_trial(rig, Workload(flow=FLOW, engine=engine), count=count, warmup_s=0)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (count, count, count)
    assert trial.reconciled is True


def test_super_packets_are_counted_as_what_the_device_makes_of_them(rig: VethRig) -> None:
    workload = Workload(flow=FLOW, engine="gso", batch=50)
    for sink in ("stack", "ifb"):
        on_sink = msgspec.structs.replace(workload, sink=sink)
        cut_up = run_trial(rig, on_sink, count=1000, warmup_s=0)
        with rig.applied({"tx_udp_segmentation": True}) as applied:
            assert applied.accepted["tx_udp_segmentation"] is True
            whole = run_trial(rig, on_sink, count=1000, warmup_s=0)
        assert (cut_up.segments_sent, cut_up.engine_sent, cut_up.device_sent) == (1000, 1000, 1000)
        assert (whole.segments_sent, whole.engine_sent, whole.device_sent) == (1000, 20, 20)
        assert cut_up.reconciled is whole.reconciled is (True if sink == "stack" else None)
        for trial, packets in ((cut_up, "frames"), (whole, "super-packets")):
            assert trial.environment["device_packets_are"] == packets
            assert (trial.environment["super_packets"], trial.environment["burst_frames"]) == (20, 50)


def test_paced_super_packets_keep_the_rate_of_their_frames(rig: VethRig) -> None:
    workload = Workload(flow=FLOW, engine="gso", rate_pps=5000)
    with rig.applied({"tx_udp_segmentation": True}):
        trial = run_trial(rig, workload, duration_s=0.5)
    assert trial.segments_sent is not None
    assert trial.device_sent is not None
    assert trial.device_sent * 3 < trial.segments_sent <= 2600
    assert trial.reconciled is True


def test_ring_of_the_asked_size_sends_from_the_rig(rig: VethRig) -> None:
    workload = Workload(flow=FLOW, engine="tx_ring", ring_frames=256, qdisc_bypass=True)
    trial = run_trial(rig, workload, count=2000, warmup_s=0)
    assert (trial.engine_sent, trial.peer_received, trial.batch) == (2000, 2000, 256)
    assert trial.environment["path"] == "qdisc bypass"


def test_paced_and_stamped_run_tells_so(rig: VethRig) -> None:
    workload = Workload(flow=FLOW, engine="sendmmsg", rate_pps=20_000, stamp=True)
    trial = run_trial(rig, workload, count=400, warmup_s=0)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (400, 400, 400)
    assert (trial.environment["stamp"], trial.environment.get("realtime_priority")) == (True, None)
    told = trial.environment["pacing"]
    assert (told["burst_frames"], told["asked_pps"]) == (1, 20_000)
    assert 0 < told["gap_p50_ns"] <= told["gap_p99_ns"]
    assert told["achieved_pps"] == trial.pps


def test_real_time_priority_is_recorded_or_refused_with_what_it_takes(rig: VethRig) -> None:
    workload = Workload(flow=FLOW, engine="tx_ring", realtime_priority=1)
    own_limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    if rig.run(Workload(flow=FLOW, engine="send"), count=1).privilege == "userns" and own_limit == 0:
        with pytest.raises(CapabilityMissingError, match="CAP_SYS_NICE in the initial user namespace"):
            rig.run(workload, count=100)
        assert rig.run(Workload(flow=FLOW, engine="send"), count=5).device_sent == 5
    else:
        trial = rig.run(workload, count=100)
        assert (trial.device_sent, trial.environment["realtime_priority"]) == (100, 1)


@pytest.mark.parametrize("sink", ["stack", "ifb"])
def test_af_xdp_sends_past_the_qdisc_of_the_rig_and_says_so(rig: VethRig, sink: str) -> None:
    workload = Workload(flow=FLOW, engine="af_xdp", sink=sink)
    with rig.applied({"qdisc": "tbf", "qdisc_limit": 3000, "qdisc_rate_bps": 1_000_000}):
        trial = run_trial(rig, workload, count=2000, warmup_s=0)
    assert (trial.engine_sent, trial.device_sent, trial.batch) == (2000, 2000, 256)
    assert trial.peer_received == (2000 if sink == "stack" else None)
    assert trial.reconciled is (True if sink == "stack" else None)
    assert trial.environment["path"] == "qdisc bypass"
    assert trial.environment["buffers"] == "copied by the kernel"


def test_af_xdp_keeps_a_rate_and_ends_in_time(rig: VethRig) -> None:
    trial = run_trial(rig, Workload(flow=FLOW, engine="af_xdp", rate_pps=5000), duration_s=0.5)
    assert trial.device_sent is not None
    assert 0 < trial.device_sent <= 2600
    assert trial.reconciled is True


def test_af_xdp_wants_a_queue_for_each_cpu(rig: VethRig) -> None:
    workload = Workload(flow=FLOW, engine="af_xdp", cpus=2)
    with pytest.raises(CapabilityMissingError, match=r"no queue 1; .*tx_channels"):
        rig.run(workload, count=1000)
    with rig.applied({"rx_channels": 2, "tx_channels": 2}):
        trial = run_trial(rig, workload, count=1001, warmup_s=0)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (1001, 1001, 1001)


def test_vlan_ipv6_and_unknown_ethertypes_are_counted_at_the_peer(rig: VethRig) -> None:
    head = bytes.fromhex("020000000002020000000001")
    for frames in (
        udp_flow(frame_bytes=64, flows=4, vlan=7),
        udp_flow(frame_bytes=64, flows=4, vlan=(30, 7)),
        udp_flow(frame_bytes=64, flows=4, vlan=(0, 7)),
        GivenFrames(head + bytes.fromhex("8100 0001 8100 0001 0800") + bytes(1496)),
        GivenFrames(head + bytes.fromhex("88a8 0001 0800") + bytes(1496)),
        udp_flow(frame_bytes=80, flows=4, ipv6=True),
        GivenFrames(head + bytes.fromhex("88b5") + bytes(46)),
        GivenFrames(head + bytes.fromhex("88b5") + bytes(46), FLOW.table().frame(0)),
    ):
        trial = run_trial(rig, Workload(flow=frames, engine="sendmmsg"), count=500, warmup_s=0)
        assert trial.peer_received == 500, trial.environment["peer_counter"]
        assert trial.reconciled is True


def test_mix_and_capture_arrive_whole_and_tell_their_mean(rig: VethRig, tmp_path: Path) -> None:
    write_pcap(imix_flow(4), tmp_path / "mix.pcap")
    for flow in (imix_flow(4), pcap_flow(tmp_path / "mix.pcap")):
        trial = run_trial(rig, Workload(flow=flow, engine="sendmmsg"), count=600, warmup_s=0)
        assert (trial.device_sent, trial.peer_received, trial.reconciled) == (600, 600, True)
        assert trial.frame_bytes == 1514
        assert trial.environment["flow"]["mean_wire_bytes"] == pytest.approx(4582 / 12)


def test_tagged_frames_are_let_through_up_to_the_kernels_own_limit(rig: VethRig) -> None:
    for vlan, longest in ((7, 1518), ((30, 7), 1514)):
        for frame_bytes, refused in ((longest, 0), (longest + 1, 20)):
            workload = Workload(flow=udp_flow(frame_bytes, flows=4, vlan=vlan), engine="send")
            trial = run_trial(rig, workload, count=20, warmup_s=0, check=False)
            assert (trial.device_sent, trial.engine_refused) == (20 - refused, refused)
            if refused:
                with pytest.raises(WorkloadError, match=f"largest legal frame has {longest} bytes"):
                    rig.check(workload)


def test_frames_to_the_peers_own_mac_are_not_verified(rig: VethRig) -> None:
    own = udp_flow(frame_bytes=60, flows=1, dst_mac="02:6c:6b:00:00:01")
    trial = run_trial(rig, Workload(flow=own, engine="sendmmsg"), count=100, warmup_s=0)
    assert trial.device_sent == 100
    assert trial.peer_received is None
    assert trial.reconciled is None
    assert "not verified at the peer" in str(trial.difference_reason)


def test_ifb_sink_counts_at_the_device_only(rig: VethRig) -> None:
    trial = run_trial(rig, Workload(flow=FLOW, engine="sendmmsg", sink="ifb"), count=640, warmup_s=0)
    assert trial.device_sent == trial.engine_sent == 640
    assert trial.peer_received is None
    assert trial.reconciled is None
    assert trial.sink == "ifb"


def test_live_samples_come_5_to_10_times_a_second(rig: VethRig) -> None:
    seen: list[Sample] = []
    trial = rig.run(SENDMMSG, duration_s=1.0, on_sample=seen.append)
    assert 5 <= len(seen) <= 10
    assert tuple(seen) == trial.samples
    for earlier, later in itertools.pairwise(seen):
        assert later.at_ns > earlier.at_ns
        assert later.engine_sent > earlier.engine_sent
    assert seen[-1].engine_sent <= trial.engine_sent
    assert seen[-1].peer_received is not None
    assert seen[-1].peer_received > 0


def test_stop_from_another_thread_ends_the_run(rig: VethRig) -> None:
    timer = threading.Timer(0.2, rig.stop)
    timer.start()
    trial = rig.run(SENDMMSG, duration_s=30)
    timer.join()
    assert trial.environment["ended_by"] == "stop"
    assert trial.elapsed_ns < 10e9


def test_frame_over_the_mtu_is_refused_before_anything_is_sent(rig: VethRig) -> None:
    with rig.applied({"mtu": 1000}), pytest.raises(WorkloadError, match="1014"):
        run_trial(rig, Workload(flow=udp_flow(frame_bytes=1015), engine="sendmmsg"))
    with pytest.raises(WorkloadError, match="1514"):
        run_trial(rig, Workload(flow=udp_flow(frame_bytes=1515), engine="send"))
    assert run_trial(
        rig, Workload(flow=udp_flow(frame_bytes=1514), engine="send"), count=5, warmup_s=0
    ).reconciled


def test_bad_frame_among_good_ones_is_counted_by_errno(rig: VethRig) -> None:
    good = FLOW.table().frame(0)
    frames = GivenFrames(*[good] * 10, good + bytes(1940), *[good] * 53)
    trial = rig.run(Workload(flow=frames, engine="sendmmsg"), count=64, check=False)
    assert (trial.engine_sent, trial.engine_refused) == (63, 1)
    assert trial.refused_by_errno == {"EMSGSIZE": 1}
    assert trial.partial_returns == 1
    assert trial.reconciled is True
    assert "EMSGSIZE 1" in str(trial.difference_reason)


@pytest.mark.parametrize("bypass", [False, True])
def test_peer_down_sends_nothing_and_says_so_on_both_paths(*, bypass: bool) -> None:
    with VethRig(peer_carrier=False) as rig:
        workload = Workload(flow=FLOW, engine="sendmmsg", qdisc_bypass=bypass)
        with pytest.raises(LabError, match="no carrier"):
            run_trial(rig, workload)
        trial = run_trial(rig, workload, count=4, warmup_s=0, check=False)
    assert trial.engine_sent == (0 if bypass else 4)
    assert trial.engine_refused == (4 if bypass else 0)
    assert trial.device_sent == 0
    assert {"no-carrier", "nothing-sent"} <= set(trial.marks)
    assert trial.limiter == "carrier"
    assert trial.ns_per_packet is None
    assert trial.reconciled is True
    assert "no carrier: the peer was down" in str(trial.difference_reason)


def test_full_qdisc_drops_are_counted_and_named(rig: VethRig) -> None:
    flow = udp_flow(frame_bytes=1000, flows=1)
    shaped = {"qdisc": "tbf", "qdisc_rate_bps": 1_000_000, "qdisc_limit": 3000}
    with rig.applied(shaped) as applied:
        assert shaped.items() <= applied.accepted.items()
        trial = run_trial(rig, Workload(flow=flow, engine="sendmmsg"), count=64, warmup_s=0)
        bypassing = Workload(flow=flow, engine="sendmmsg", qdisc_bypass=True)
        bypassed = run_trial(rig, bypassing, count=64, warmup_s=0)
    assert trial.engine_sent < 64
    assert trial.engine_sent + trial.engine_refused <= 64
    assert set(trial.refused_by_errno) == {"ENOBUFS"}
    assert trial.qdisc_dropped == trial.engine_refused + trial.partial_returns
    assert trial.limiter == "qdisc"
    assert trial.settings_accepted["qdisc"] == "tbf"
    assert (bypassed.engine_sent, bypassed.device_sent, bypassed.qdisc_dropped) == (64, 64, 0)


SLOW_QUEUE = {"qdisc": "tbf", "qdisc_rate_bps": 8_000_000, "qdisc_limit": 2_000_000}
"""Takes 16 000 frames/s of 60 bytes, and holds two seconds of them."""


@pytest.mark.parametrize("sink", ["stack", "ifb"])
def test_frames_left_in_a_queue_mark_their_run_and_stay_out_of_the_next(rig: VethRig, sink: str) -> None:
    with rig.applied(SLOW_QUEUE):
        left = rig.run(Workload(flow=FLOW, engine="sendmmsg", sink=sink), duration_s=0.2)
        assert "unsettled" in left.marks
        assert left.reconciled is (False if sink == "stack" else None)
        assert "still in the queue" in str(left.difference_reason)
        after = rig.run(Workload(flow=FLOW, engine="sendmmsg", sink=sink), count=10)
        assert (after.engine_sent, after.device_sent) == (10, 10)


def test_frames_that_leave_a_queue_behind_the_senders_end_mark_the_run(rig: VethRig) -> None:
    with rig.applied({**SLOW_QUEUE, "qdisc_limit": 40_000}):
        trial = rig.run(SENDMMSG, duration_s=0.2)
    assert trial.reconciled is True
    assert "unsettled" in trial.marks
    assert "unsettled" not in rig.run(SENDMMSG, duration_s=0.2).marks


def test_spinner_is_noticed_beside_a_queue_too(rig: VethRig) -> None:
    measured: list[Trial] = []
    cpu = max(os.sched_getaffinity(0))
    spinner = subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)], stdout=subprocess.PIPE)
    try:
        assert spinner.stdout is not None
        assert spinner.stdout.readline() == b"spinning\n"
        with rig.applied({"qdisc": "pfifo"}):
            measured.append(rig.run(SENDMMSG, duration_s=0.3))
    finally:
        spinner.kill()
        spinner.wait()
        if spinner.stdout is not None:
            spinner.stdout.close()
    assert "cpu-shared" in measured[0].marks


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        ({"qdisc": "pfifo"}, 1000),
        ({"qdisc": "pfifo", "qdisc_limit": 100}, 100),
        ({"qdisc": "pfifo", "txqueuelen": 77}, 77),
        ({"qdisc": "bfifo"}, 1000 * 1514),
        ({"qdisc": "bfifo", "qdisc_limit": 100_000}, 100_000),
    ],
)
@pytest.mark.parametrize("sink", ["stack", "ifb"])
def test_qdisc_reads_back_and_lets_frames_through(
    rig: VethRig, asked: dict[str, str | int], limit: int, sink: str
) -> None:
    workload = Workload(FLOW, engine="sendmmsg", sink=sink)
    rig.run(workload, count=1)
    with rig.applied(asked) as applied:
        assert applied.accepted["qdisc_limit"] == limit
        assert rig.run(workload, count=640).device_sent == 640
        assert rig.run(workload, count=640).settings_accepted["qdisc"] == asked["qdisc"]
    with rig.applied({}) as now:
        assert (now.accepted["qdisc"], now.accepted["txqueuelen"]) == ("noqueue", 1000)


@pytest.mark.parametrize("sink", ["stack", "ifb"])
def test_mtu_below_ipv6s_least_and_back_lets_no_stray_frame_out(rig: VethRig, sink: str) -> None:
    workload = Workload(flow=FLOW, engine="send", sink=sink)
    rig.run(workload, count=1)
    for _ in range(4):
        with rig.applied({"mtu": 1000}):
            rig.run(workload, count=1)
        trial = rig.run(workload, duration_s=0.3)
        assert trial.device_sent == trial.engine_sent, trial.difference_reason


def test_settings_are_put_back(rig: VethRig) -> None:
    with (
        pytest.raises(RuntimeError, match="mine"),
        rig.applied({"mtu": 9000, "qdisc": "pfifo", "qdisc_limit": 7}),
    ):
        raise RuntimeError("mine")
    with rig.applied({}) as now:
        trial = rig.run(SENDMMSG, count=1)
    assert trial.settings_asked == {}
    assert trial.settings_accepted == now.accepted
    assert (now.accepted["mtu"], now.accepted["qdisc"], now.accepted["qdisc_limit"]) == (
        1500,
        "noqueue",
        None,
    )
    with pytest.raises(WorkloadError, match="1514"):
        rig.check(Workload(flow=udp_flow(frame_bytes=9014), engine="send"))


def test_mtu_below_ipv6s_least_and_back_lets_no_frame_of_its_own_through(rig: VethRig) -> None:
    rig.run(Workload(flow=FLOW, engine="sendmmsg", sink="ifb"), count=1)
    with rig.applied({"mtu": 1000}):
        pass
    # the kernel would take IPv6 up again, and send neighbour and multicast messages from an address here
    assert Path(f"/proc/{agent_pid(rig)}/net/if_inet6").read_text() == ""
    assert rig.run(SENDMMSG, count=10).device_sent == 10


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"nosuch": 1}, WorkloadError),
        ({"tx_ring": 512}, CapabilityMissingError),
        ({"qdisc": "nosuch"}, WorkloadError),
        ({"mtu": "large"}, WorkloadError),
        ({"mtu": 67}, SettingRefusedError),
        ({"qdisc": "noqueue", "qdisc_limit": 5}, SettingRefusedError),
        ({"qdisc": "tbf"}, SettingRefusedError),
    ],
)
def test_bad_settings_are_refused_and_change_nothing(
    rig: VethRig, settings: dict[str, str | int], error: type[LabError]
) -> None:
    with pytest.raises(error), rig.applied(settings):
        pytest.fail("applied")
    assert rig.run(SENDMMSG, count=10).reconciled is True


@pytest.mark.parametrize(
    ("workload", "error"),
    [
        (Workload(flow=FLOW, engine="nosuch"), WorkloadError),
        (Workload(flow=FLOW, engine="pktgen"), CapabilityMissingError),
        (Workload(flow=FLOW, engine="sendmmsg", sink="nosuch"), WorkloadError),
        (Workload(flow=FLOW, engine="tx_ring", ring_frames=100), WorkloadError),
        (Workload(flow=FLOW, engine="gso", qdisc_bypass=True), WorkloadError),
        (Workload(flow=udp_flow(vlan=7), engine="gso"), WorkloadError),
        (Workload(flow=FLOW, engine="sendmmsg", ring_frames=256), CapabilityMissingError),
        (Workload(flow=FLOW, engine="sendmmsg", batch=0), WorkloadError),
        (Workload(flow=FLOW, engine="sendmmsg", batch=1025), WorkloadError),
        (Workload(flow=FLOW, engine="sendmmsg", rate_pps=0), WorkloadError),
        (Workload(flow=FLOW, engine="sendmmsg", cpu=4095), WorkloadError),
        (Workload(flow=GivenFrames(bytes(13)), engine="sendmmsg"), WorkloadError),
        (Workload(flow=GivenFrames(), engine="sendmmsg"), WorkloadError),
    ],
)
def test_bad_workloads_are_refused_before_anything_is_sent(
    rig: VethRig, workload: Workload, error: type[LabError]
) -> None:
    with pytest.raises(error):
        run_trial(rig, workload)
    trial = run_trial(rig, SENDMMSG, count=10, warmup_s=0)
    assert trial.device_sent == 10


@pytest.mark.parametrize(
    "length",
    [
        {"duration_s": 0.0},
        {"duration_s": float("nan")},
        {"duration_s": float("inf")},
        {"duration_s": 1e300},
        {"count": -1},
        {"count": 2**63},
        {"count": 1.5},
    ],
)
def test_run_without_length_is_refused_and_the_rig_lives_on(rig: VethRig, length: dict[str, Any]) -> None:
    (name,) = length
    with pytest.raises(WorkloadError, match=f"{name} .*: give"):
        run_trial(rig, SENDMMSG, **length)
    assert rig.run(SENDMMSG, count=10).device_sent == 10


def test_settings_of_numpy_reach_the_kernel_as_plain_numbers(rig: VethRig) -> None:
    with rig.applied({"mtu": np.int64(9000)}) as applied:  # type: ignore[dict-item]
        assert applied.asked == {"mtu": 9000}
        assert applied.accepted["mtu"] == 9000
        assert rig.run(SENDMMSG, count=10).as_json()["settings_asked"] == {"mtu": 9000}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "asked",
    [
        {"duration_s": float("nan")},
        {"duration_s": float("inf")},
        {"duration_s": 1e300},
        {"duration_s": "1"},
        {"count": 2**70},
        {"count": 1.5},
        {"workload": Workload(flow=FLOW, engine="sendmmsg", cpu=2**40)},
    ],
)
def test_no_odd_value_reaches_the_agent(rig: VethRig, asked: dict[str, Any], check: bool) -> None:
    with pytest.raises(WorkloadError):
        rig.run(**{"workload": SENDMMSG, **asked}, check=check)
    assert rig.run(SENDMMSG, count=10).device_sent == 10


@pytest.mark.parametrize("rate_pps", [5.0, 50.0])
def test_slow_rates_come_out_as_asked_however_the_run_ends(rig: VethRig, rate_pps: float) -> None:
    slow = Workload(flow=FLOW, engine="sendmmsg", rate_pps=rate_pps)
    for length in ({"duration_s": 0.4}, {"duration_s": 60, "count": int(rate_pps * 0.4)}):
        assert rig.run(slow, **length).pps == pytest.approx(rate_pps, rel=0.02)


def test_run_shorter_than_a_frames_slot_is_marked(rig: VethRig) -> None:
    trial = rig.run(Workload(flow=FLOW, engine="sendmmsg", rate_pps=0.1), duration_s=0.1)
    assert trial.device_sent == 1
    assert "rate-missed" in trial.marks


def test_paced_run_reaches_the_asked_rate(rig: VethRig) -> None:
    trial = run_trial(rig, Workload(flow=FLOW, engine="sendmmsg", rate_pps=5000), duration_s=0.5)
    assert trial.pps == pytest.approx(5000, rel=0.01)
    assert trial.limiter == "pacing"
    assert "rate-missed" not in trial.marks


def test_rate_out_of_reach_is_marked(rig: VethRig) -> None:
    trial = run_trial(rig, Workload(flow=FLOW, engine="sendmmsg", rate_pps=1e9), duration_s=0.1)
    assert "rate-missed" in trial.marks
    assert trial.limiter is None


def test_killed_agent_raises_at_once_with_what_was_measured(rig: VethRig) -> None:
    samples: list[Sample] = []

    def kill_at_second(sample: Sample) -> None:
        samples.append(sample)
        if len(samples) == 2:
            os.kill(agent_pid(rig), signal.SIGKILL)

    started = time.monotonic()
    with pytest.raises(AgentLostError, match="killed by signal 9") as told:
        rig.run(SENDMMSG, duration_s=30, on_sample=kill_at_second)
    assert time.monotonic() - started < 5
    assert list(told.value.samples) == samples


def test_agent_is_gone_after_close() -> None:
    with VethRig() as rig:
        pid = agent_pid(rig)
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


def test_agent_carries_no_heavy_library(rig: VethRig) -> None:
    rig.run(SENDMMSG, count=1)
    maps = Path(f"/proc/{agent_pid(rig)}/maps").read_text()
    for library in ("numpy", "pandas", "scapy", "sqlalchemy"):
        assert library not in maps


def test_flow_with_a_vlan_tag_may_be_four_bytes_longer(rig: VethRig) -> None:
    tagged = udp_flow(frame_bytes=1518, flows=1, vlan=5)
    assert run_trial(rig, Workload(flow=tagged, engine="send"), count=3, warmup_s=0).reconciled is True
    with pytest.raises(WorkloadError, match="1518"):
        rig.check(Workload(flow=udp_flow(frame_bytes=1519, flows=1, vlan=5), engine="send"))


def test_scapy_flow_runs_as_given(rig: VethRig) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(dst="198.51.100.2") / UDP(dport=9)
    assert run_trial(rig, Workload(flow=Flow(packet), engine="send"), count=3, warmup_s=0).reconciled is True


@pytest.mark.parametrize("count", [1001, 1, 0])
def test_several_senders_send_exactly_what_was_asked_together(count: int) -> None:
    # netsniff-ng/netsniff-ng issue #75: runs of several workers fell short of the count
    with VethRig() as rig:
        trial = rig.run(msgspec.structs.replace(SENDMMSG, cpus=2), count=count)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (count, count, count)
    assert trial.reconciled is True
    sent = [worker["sent"] for worker in trial.environment["workers"]]
    assert sent == [count - count // 2, count // 2]


def test_several_senders_have_a_cpu_each_and_stop_together() -> None:
    with VethRig() as rig:
        trial = rig.run(msgspec.structs.replace(SENDMMSG, cpus=2), duration_s=0.2)
    workers = trial.environment["workers"]
    assert len({worker["cpu"] for worker in workers}) == 2
    assert sum(worker["sent"] for worker in workers) == trial.engine_sent == trial.device_sent
    assert all(worker["pps"] > 0 and worker["cpu_ns_per_packet"] > 0 for worker in workers)


def test_stop_between_the_call_of_run_and_its_first_frame_is_not_lost(
    rig: VethRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = rig._client.load

    def stop_then_load(frames: Any) -> None:
        rig.stop()
        load(frames)

    monkeypatch.setattr(rig._client, "load", stop_then_load)
    trial = rig.run(SENDMMSG, duration_s=60)
    assert trial.environment["ended_by"] == "stop"
