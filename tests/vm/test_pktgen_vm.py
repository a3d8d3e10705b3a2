"""The kernel's pktgen in an emulated machine: what it sends arrives, what it refuses or changes is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError, WorkloadError
from labkit.guest.image import GuestImage
from labkit.records import Trial
from labkit.rigs.vm import VmRig
from tests.vm.boot import boot

pytestmark = pytest.mark.vm

FRAMES = 5001
"""No multiple of a burst, nor of clone_skb."""


def send(rig: VmRig, flow: Any = None, count: int | None = FRAMES, **asked: Any) -> Trial:
    length: dict[str, Any] = {"duration_s": asked.pop("duration_s", 30)}
    workload = lk.Workload(lk.udp_flow() if flow is None else flow, engine="pktgen", **asked)
    return rig.run(workload, count=count, **length)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"clone_skb": 0},
        {"clone_skb": 1000},
        {"xmit_mode": "queue_xmit"},
        {"xmit_mode": "queue_xmit", "clone_skb": 1},
        {"pktgen": "flag UDPSRC_RND; flag UDPCSUM; flag NO_TIMESTAMP; tos 0a; skb_priority 3"},
        {"flow": lk.imix_flow()},
        {"flow": lk.udp_flow(1514)},
        {"flow": lk.udp_flow(80, vlan=(5, 6))},
        {"flow": lk.udp_flow(90, ipv6=True)},
    ],
    ids=lambda asked: "-".join(asked) or "usual",
)
def test_every_frame_arrives_at_the_second_card(e1000e: VmRig, asked: dict[str, Any]) -> None:
    trial = send(e1000e, **asked)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (FRAMES, FRAMES, FRAMES)
    assert trial.reconciled
    assert (trial.difference_reason, trial.marks) == (None, [])
    assert trial.environment["ended_by"] == "count"
    told = trial.environment["pktgen"]
    assert told["accepted"] == []
    assert trial.pps == pytest.approx(told["pps"], rel=0.001)
    path = "qdisc path" if asked.get("xmit_mode") == "queue_xmit" else "qdisc bypass"
    assert trial.environment["path"] == path


def test_burst_may_go_beyond_the_count_and_every_frame_of_it_arrives(e1000e: VmRig) -> None:
    trial = send(e1000e, batch=32, clone_skb=1000)
    assert FRAMES <= (trial.engine_sent or 0) < FRAMES + 32
    assert trial.engine_sent == trial.device_sent == trial.peer_received
    assert trial.environment["pktgen"]["beyond_count"] == (trial.engine_sent or 0) - FRAMES
    assert trial.reconciled


def test_frames_up_the_receive_path_are_counted_there_and_nothing_leaves(e1000e: VmRig) -> None:
    trial = send(e1000e, xmit_mode="netif_receive", batch=16, count=4800)
    assert (trial.sink, trial.environment["device_counter"]) == ("stack", "softnet processed")
    assert (trial.engine_sent, trial.device_sent, trial.engine_refused) == (4800, 4800, 0)
    assert trial.peer_received is None
    assert "own receive path" in str(trial.difference_reason)
    assert trial.environment["pktgen"]["errors"] == 4800


def test_run_without_a_count_ends_by_its_duration_and_shows_itself_meanwhile(e1000e: VmRig) -> None:
    trial = send(e1000e, count=None, duration_s=0.4)
    assert trial.environment["ended_by"] == "duration"
    assert trial.elapsed_ns == pytest.approx(400_000_000, rel=0.05)
    assert trial.engine_sent == trial.device_sent == trial.peer_received
    sent = [sample.engine_sent or 0 for sample in trial.samples]
    assert sent == sorted(sent)
    assert any(0 < each < (trial.engine_sent or 0) for each in sent)
    assert trial.marks == []


def test_rate_is_kept_and_a_gap_of_no_whole_nanoseconds_is_told(e1000e: VmRig) -> None:
    trial = send(e1000e, rate_pps=30_000.0, count=1500)
    assert trial.pps == pytest.approx(30_000, rel=0.002)
    (told,) = trial.environment["pktgen"]["accepted"]
    assert told["asked"] == "rate_pps 30000"
    assert "33333 ns" in told["accepted"]


def test_rate_is_kept_by_bursts_too(e1000e: VmRig) -> None:
    trial = send(e1000e, rate_pps=10_000.0, batch=8, count=2000)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (2000, 2000, 2000)
    assert trial.elapsed_ns == pytest.approx(249 * 800_000, abs=800_000)
    assert trial.marks == []


def test_outer_tag_without_an_inner_one_is_refused(e1000e: VmRig) -> None:
    with pytest.raises(SettingRefusedError, match="it needs a vlan_id before it"):
        send(e1000e, pktgen="svlan_id 5")


def test_queue_beyond_the_cards_is_told_and_warned_of(e1000e: VmRig) -> None:
    trial = send(e1000e, pktgen="queue_map_max 7")
    assert trial.environment["pktgen"]["accepted"] == [{"asked": "queue_map_max 7", "accepted": "0"}]
    assert trial.marks == ["kernel-log"]
    assert trial.reconciled


def test_tag_of_ones_own_makes_short_frames_longer(e1000e: VmRig) -> None:
    trial = send(e1000e, flow=lk.udp_flow(60), pktgen="vlan_id 5")
    assert trial.frame_bytes == 62
    assert {"asked": "frame_bytes 60", "accepted": "62"} in trial.environment["pktgen"]["accepted"]


@pytest.mark.parametrize(
    ("commands", "error", "words"),
    [
        ("node 1000", SettingRefusedError, "ERROR: node not possible"),
        ("vlan_p 3", SettingRefusedError, "ERROR: vlan_p must be 0-7"),
        ("flag NOSUCH", WorkloadError, "no flag is called that"),
        ("bogus 3", WorkloadError, "no command is called 'bogus'"),
    ],
)
def test_refusal_is_told_in_the_kernels_words_and_the_next_run_is_as_before(
    e1000e: VmRig, commands: str, error: type[LabError], words: str
) -> None:
    with pytest.raises(error, match=words):
        send(e1000e, pktgen=commands)
    assert send(e1000e, count=10).engine_sent == 10


def test_loopback_like_limits_of_the_mode_are_refused_before_anything_is_sent(e1000e: VmRig) -> None:
    with pytest.raises(CapabilityMissingError, match="frees the buffer"):
        send(e1000e, xmit_mode="netif_receive", clone_skb=5)
    with pytest.raises(CapabilityMissingError, match="one by one"):
        send(e1000e, xmit_mode="queue_xmit", batch=8)
    with pytest.raises(CapabilityMissingError, match="cannot be queued again"):
        send(e1000e, xmit_mode="queue_xmit", clone_skb=5)
    with pytest.raises(WorkloadError, match="nothing to sink 'port'"):
        send(e1000e, xmit_mode="netif_receive", sink="port")
    with pytest.raises(CapabilityMissingError, match="own receive path"):
        send(e1000e, sink="stack")


def test_same_run_takes_the_same_time_again(e1000e: VmRig) -> None:
    first, second = send(e1000e, count=100_000), send(e1000e, count=100_000)
    assert first.engine_sent == second.engine_sent == 100_000
    assert first.pps == pytest.approx(second.pps, rel=0.02)


def test_kernel_survives_controllers_that_race_and_labkit_sends_behind_them(guest_image: GuestImage) -> None:
    script = Path(__file__).with_name("pktgen_race.py")
    said = boot(guest_image, [sys.executable, "-I", str(script), "eth0", "2"], cpus=2)
    told = json.loads(said.port)
    assert told["sent"] == 2000
    assert told["kernel_log"] == []
    for act in ("add done", "remove done", "write done", "add: Device or resource busy"):
        assert told["met"][act] > 0
    assert "BUG" not in said.console
