"""From raw counters to a trial: speeds are the device's, doubts are marked, each path says its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from labkit.agent.protocol import Measured, Run
from labkit.agent.readings import Reading
from labkit.agent.runner import _sample
from labkit.engines.base import EngineConfig, EngineReport
from labkit.records import Trial
from labkit.rigs.assemble import Asked, trial_of
from labkit.rigs.peer_counter import PeerRule

SECOND_NS = 1_000_000_000
OTHERHOST = "rx_otherhost_dropped"
ASKED = Asked(
    rig="veth",
    engine="sendmmsg",
    sink="stack",
    frame_bytes=60,
    batch=64,
    duration_s=1.0,
    rate_pps=None,
    qdisc_bypass=False,
    settings_asked={},
    settings_accepted={"qdisc": "noqueue"},
    settings_effective={"qdisc": "noqueue"},
    privilege="userns",
    environment={},
)
REPORT = EngineReport(
    sent=0,
    refused=0,
    refused_by_errno={},
    super_packets=None,
    partial_returns=0,
    calls=1,
    start_ns=0,
    end_ns=SECOND_NS,
    cpu_ns=SECOND_NS,
    involuntary_switches=0,
    qdisc_bypass=False,
    fatal_errno=None,
    ended_by="duration",
)


def reading(tx_packets: int, tx_dropped: int = 0, peer: int = 0) -> Reading:
    return Reading(
        device={"tx_packets": tx_packets, "tx_dropped": tx_dropped},
        peer={OTHERHOST: peer},
        peer_queue_dropped=0,
        qdisc_dropped=0,
        qdisc_queued=0,
        softnet_dropped=0,
    )


def measured_run(after: Reading, *, carrier: bool = True, **did: Any) -> Measured:
    """A run between counters at 0 and `after`."""
    return Measured(
        workers=[],
        report=msgspec.structs.replace(REPORT, **did),
        before=reading(0),
        device="veth0",
        device_counter="tx_packets",
        peer_device="veth1",
        at_end=after.device,
        after=after,
        settled=True,
        carrier=carrier,
        cpu=0,
        cpus_kept_awake=False,
        runqueue_wait_ns=0,
        steal_ns=0,
        kernel_warnings=[],
    )


def trial(after: Reading, *, carrier: bool = True, asked: dict[str, Any] | None = None, **did: Any) -> Trial:
    rule = PeerRule(counters=(OTHERHOST,), note=None)
    measured = measured_run(after, carrier=carrier, **did)
    return trial_of(msgspec.structs.replace(ASKED, **(asked or {})), measured, rule, ())


def test_engine_that_says_0_while_the_device_counts_is_overruled_and_unreconciled() -> None:
    # xdp-project/xdp-tools issue #482
    made = trial(reading(5000, peer=5000), sent=0)
    assert (made.engine_sent, made.device_sent, made.pps) == (0, 5000, 5000)
    assert made.reconciled is False
    assert "device counted 5000 more than the engine sent" in str(made.difference_reason)
    assert made.marks == []


def test_frames_that_the_engine_sent_and_no_counter_saw_are_no_speed() -> None:
    # appneta/tcpreplay issues #1078, #1108
    made = trial(reading(0, tx_dropped=4), sent=4, carrier=False)
    assert (made.engine_sent, made.device_sent, made.device_dropped, made.pps) == (4, 0, 4, 0)
    assert made.ns_per_packet is None
    assert made.marks == ["no-carrier", "nothing-sent"]
    assert made.limiter == "carrier"
    assert made.difference_reason == "device dropped 4 (no carrier: the peer was down)"


@pytest.mark.parametrize("fault", [{"sent": 4}, {"refused": 4, "refused_by_errno": {"ENOBUFS": 4}}])
def test_peer_down_gives_the_same_words_on_both_paths(fault: dict[str, Any]) -> None:
    made = trial(reading(0, tx_dropped=4), carrier=False, **fault)
    assert "device dropped 4 (no carrier: the peer was down)" in str(made.difference_reason)
    assert (made.limiter, made.pps, made.ns_per_packet) == ("carrier", 0, None)


@pytest.mark.parametrize(
    ("asked", "granted", "path"),
    [
        (True, True, "qdisc bypass"),
        (False, False, "qdisc path"),
        (True, False, "qdisc path (this kernel refused the bypass)"),
    ],
)
def test_trial_says_which_path_its_frames_took(asked: bool, granted: bool, path: str) -> None:
    # netsniff-ng/netsniff-ng issue #136
    made = trial(reading(1, peer=1), sent=1, asked={"qdisc_bypass": asked}, qdisc_bypass=granted)
    assert made.environment["path"] == path


def test_rate_that_was_not_reached_is_marked_and_not_the_limit() -> None:
    # appneta/tcpreplay issue #235
    made = trial(reading(57_609, peer=57_609), sent=57_609, asked={"rate_pps": 150_000.0})
    assert made.marks == ["rate-missed"]
    assert (made.rate_pps, made.pps, made.limiter) == (150_000, 57_609, None)
    reached = trial(reading(150_000, peer=150_000), sent=150_000, asked={"rate_pps": 150_000.0})
    assert (reached.marks, reached.limiter) == ([], "pacing")


def test_live_sample_of_a_counter_that_fell_is_unknown_and_sampling_goes_on() -> None:
    # netsniff-ng/netsniff-ng issue #74
    request = Run(
        engine="sendmmsg",
        sink="stack",
        workers=1,
        config=EngineConfig(ifindex=1, batch=1, count=1),
        sample_every_ns=1,
        peer_counters=[OTHERHOST],
    )
    counts = iter(
        [({"tx_packets": 3}, {OTHERHOST: 7}), ({"tx_packets": 9}, {}), ({"tx_packets": 9}, {OTHERHOST: 8})]
    )
    host: Any = SimpleNamespace(
        read_links=lambda _sink: next(counts),
        counter=lambda _sink: ("veth0", "tx_packets", "veth1"),
        byte_limits=lambda _sink: None,
    )
    before = reading(5, peer=5)
    senders: Any = SimpleNamespace(sent=0, refused=0)
    samples = [_sample(host, request, before, senders, 0) for _ in range(3)]
    seen = [(sample.device_sent, sample.peer_received) for sample in samples]
    assert seen == [(None, 2), (4, None), (4, 3)]


@pytest.mark.parametrize(
    ("device_sent", "engine_sent", "packets"),
    [(6400, 6400, "frames"), (100, 100, "super-packets"), (99, 100, "super-packets"), (6399, 6400, "frames")],
)
def test_super_packets_are_compared_in_the_unit_that_the_device_counts(
    device_sent: int, engine_sent: int, packets: str
) -> None:
    made = trial(reading(device_sent, peer=device_sent), sent=6400, super_packets=100)
    assert (made.segments_sent, made.engine_sent, made.device_sent) == (6400, engine_sent, device_sent)
    assert made.environment["device_packets_are"] == packets
    assert made.reconciled is (device_sent == engine_sent)


@pytest.mark.parametrize(("whole", "device_sent"), [(False, 127), (True, 127), (False, 60)])
def test_queue_that_cut_super_packets_up_dropped_frames(whole: bool, device_sent: int) -> None:
    # tbf drops frames of a super-packet that it reports as taken, so fewer leave than were sent
    after = msgspec.structs.replace(reading(device_sent, peer=device_sent), qdisc_dropped=2000 - device_sent)
    refused = {"refused": 1290, "refused_by_errno": {"ENOBUFS": 1290}}
    settings = {"settings_accepted": {"tx_udp_segmentation": whole}}
    made = trial(after, asked=settings, sent=710, super_packets=71, **refused)
    assert (made.engine_sent, made.environment["device_packets_are"]) == (710, "frames")
    assert (made.reconciled, made.limiter) == (True, "qdisc")


def test_rate_of_super_packets_is_that_of_their_frames() -> None:
    paced = {"rate_pps": 6400.0}
    kept = trial(reading(100, peer=100), asked=paced, sent=6400, super_packets=100)
    missed = trial(reading(100, peer=100), asked=paced, sent=5000, super_packets=100)
    assert ("rate-missed" in kept.marks, "rate-missed" in missed.marks) == (False, True)


def test_frames_that_went_alone_have_no_segments() -> None:
    made = trial(reading(10, peer=10), sent=10)
    assert made.segments_sent is None
    assert "device_packets_are" not in made.environment


def test_trial_of_an_engine_that_cannot_count_tells_what_was_handed_over() -> None:
    made = trial(reading(1000, peer=1000), sent=None, attempted=1000)
    assert (made.engine_sent, made.device_sent, made.reconciled) == (None, 1000, True)
    assert (made.environment["handed_over"], made.difference_reason) == (1000, None)
    assert "handed_over" not in trial(reading(10, peer=10), sent=10).environment


def test_success_of_such_an_engine_is_no_speed_when_the_device_sent_nothing() -> None:
    made = trial(reading(0), sent=None, attempted=6_000_000)
    assert (made.pps, made.ns_per_packet, made.reconciled) == (0, None, False)
    assert "nothing-sent" in made.marks
