"""Which counter tells what, what marks a trial, and what is proven to have limited it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from labkit.agent.protocol import Measured
from labkit.agent.readings import Reading
from labkit.engines.base import EngineReport
from labkit.records import Sample, Trial
from labkit.rigs.assemble import FROZEN_NS, SAMPLE_EVERY_NS, Asked, trial_of
from labkit.rigs.peer_counter import PeerRule, peer_rule
from labkit.traffic.table import FrameTable

SENT = 1_000_000
SECOND_NS = 1_000_000_000
OTHERHOST = PeerRule(counters=("rx_otherhost_dropped",), note=None)
UNKNOWN_TYPE = PeerRule(counters=("rx_dropped",), note=None)
FOREIGN, OWN, GROUP = bytes.fromhex("020000000002"), bytes.fromhex("026c6b000001"), b"\xff" * 6
AVAILABLE = frozenset({"rx_dropped", "rx_otherhost_dropped"})


def reading(device: int, peer: int, *, tx_dropped: int = 0, qdisc: int = 0, queue: int = 0, softnet: int = 0):
    return Reading(
        device={"tx_packets": device, "rx_packets": device, "tx_dropped": tx_dropped},
        peer={"rx_otherhost_dropped": peer, "rx_dropped": peer},
        peer_queue_dropped=queue,
        qdisc_dropped=qdisc,
        qdisc_queued=0,
        softnet_dropped=softnet,
    )


def trial(rule: PeerRule = OTHERHOST, *, samples_ns: Sequence[int] = (), **changes: Any) -> Trial:
    """A clean second of a million frames, but for `changes` of the request, the report or the measurement."""
    asked: dict[str, Any] = {
        "rig": "veth",
        "engine": "sendmmsg",
        "sink": "stack",
        "frame_bytes": 60,
        "batch": 64,
        "duration_s": 1.0,
        "rate_pps": None,
        "qdisc_bypass": False,
        "settings_asked": {},
        "settings_accepted": {"qdisc": "noqueue"},
        "settings_effective": {"qdisc": "noqueue"},
        "privilege": "userns",
        "environment": {},
        "device_resets": (),
    }
    report: dict[str, Any] = {
        "sent": SENT,
        "refused": 0,
        "refused_by_errno": {},
        "super_packets": None,
        "partial_returns": 0,
        "calls": 15_625,
        "start_ns": 5,
        "end_ns": 5 + SECOND_NS,
        "cpu_ns": SECOND_NS,
        "involuntary_switches": 0,
        "qdisc_bypass": False,
        "fatal_errno": None,
        "ended_by": "duration",
        "gaps": None,
        "burst_frames": None,
    }
    measured: dict[str, Any] = {
        "workers": [],
        "before": reading(7, 9),
        "after": reading(7 + SENT, 9 + SENT),
        "settled": True,
        "carrier": True,
        "cpu": 1,
        "cpus_kept_awake": False,
        "runqueue_wait_ns": 0,
        "steal_ns": 0,
        "kernel_warnings": [],
    }
    for values in (asked, report, measured):
        values |= {name: changes.pop(name) for name in changes.keys() & values.keys()}
    assert not changes
    ifb = asked["sink"] == "ifb"
    measured |= {
        "device": "ifb0" if ifb else "veth0",
        "device_counter": "rx_packets" if ifb else "tx_packets",
        "peer_device": None if ifb else "veth1",
    }
    measured.setdefault("at_end", measured["after"].device)
    still = Sample(at_ns=0, engine_sent=0, engine_refused=0, device_sent=0, peer_received=0)
    sampled = tuple(msgspec.structs.replace(still, at_ns=at_ns) for at_ns in samples_ns)
    return trial_of(Asked(**asked), Measured(report=EngineReport(**report), **measured), rule, sampled)


def test_clean_run_is_reconciled_without_a_mark() -> None:
    clean = trial()
    assert (clean.engine_sent, clean.device_sent, clean.peer_received) == (SENT, SENT, SENT)
    assert (clean.reconciled, clean.difference_reason, clean.marks, clean.limiter) == (True, None, [], None)
    assert (clean.elapsed_ns, clean.pps, clean.ns_per_packet) == (SECOND_NS, SENT, 1000.0)


def test_ifb_counts_at_the_device_alone() -> None:
    after = Reading(
        device={"rx_packets": SENT + 7, "tx_packets": 3, "tx_dropped": 0},
        peer={},
        peer_queue_dropped=None,
        qdisc_dropped=0,
        qdisc_queued=0,
        softnet_dropped=0,
    )
    sunk = trial(PeerRule(counters=(), note="no peer"), sink="ifb", after=after)
    assert (sunk.device_sent, sunk.peer_received, sunk.reconciled) == (SENT, None, None)
    assert sunk.environment["device_counter"] == "ifb0 rx_packets"
    assert "no-carrier" not in sunk.marks


def test_full_queues_at_the_peer_are_no_arrivals() -> None:
    # rx_dropped holds all of them: what the stack dropped, 30 of a full queue, 12 of a full backlog
    after = reading(7 + SENT, 9 + SENT, queue=30, softnet=12)
    counted = trial(UNKNOWN_TYPE, after=after)
    assert (counted.peer_received, counted.peer_dropped) == (SENT - 42, 30)
    assert counted.reconciled is False
    assert "12 vanished between device and peer" in str(counted.difference_reason)


def test_counter_that_went_back_is_unknown_not_negative() -> None:
    assert trial(after=reading(3, 9 + SENT)).device_sent is None


@pytest.mark.parametrize(
    ("changes", "marks"),
    [
        ({"cpu_ns": SECOND_NS // 2, "runqueue_wait_ns": SECOND_NS // 2}, ["cpu-shared"]),
        ({"cpu_ns": SECOND_NS // 2, "runqueue_wait_ns": None}, ["cpu-shared"]),
        # softirq time that the kernel books elsewhere: the thread never waited
        ({"cpu_ns": SECOND_NS // 2, "runqueue_wait_ns": 0}, []),
        ({"cpu_ns": SECOND_NS // 2, "runqueue_wait_ns": None, "rate_pps": 1e6}, []),
        ({"cpu_ns": 1, "runqueue_wait_ns": None, "settings_accepted": {"qdisc": "tbf"}}, []),
        ({"steal_ns": SECOND_NS // 10}, ["cpu-shared"]),
        ({"steal_ns": 20_000_000}, []),
        ({"kernel_warnings": ["veth0: trouble"]}, ["kernel-log"]),
        ({"samples_ns": range(SAMPLE_EVERY_NS, SECOND_NS, SAMPLE_EVERY_NS)}, []),
        ({"samples_ns": (SAMPLE_EVERY_NS, SAMPLE_EVERY_NS + FROZEN_NS)}, []),
        ({"samples_ns": (SAMPLE_EVERY_NS, SAMPLE_EVERY_NS + FROZEN_NS + 1)}, ["frozen"]),
        ({"samples_ns": (FROZEN_NS + 1,)}, ["frozen"]),
        ({"samples_ns": (SECOND_NS - FROZEN_NS - 1,)}, ["frozen"]),
        ({"kernel_warnings": None}, []),
        ({"rate_pps": 2e6}, ["rate-missed"]),
        # met with ena: the device starts again in the middle, and the link looks as before
        ({"device_resets": ["wd_expired"]}, ["device-reset"]),
        ({"carrier": False, "after": reading(7, 9)}, ["no-carrier", "nothing-sent"]),
    ],
)
def test_disturbances_are_marked_and_nothing_else(changes: dict[str, Any], marks: list[str]) -> None:
    assert trial(**changes).marks == marks


@pytest.mark.parametrize(
    ("after", "carrier", "limiter"),
    [
        (reading(7 + SENT - 5, 9 + SENT - 5, qdisc=5, tx_dropped=5), True, "qdisc"),
        (reading(7 + SENT - 5, 9 + SENT - 5, tx_dropped=5), True, "device"),
        (reading(7, 9, tx_dropped=SENT), False, "carrier"),
    ],
)
def test_limiter_is_what_a_counter_proves(after: Reading, carrier: bool, limiter: str) -> None:
    assert trial(after=after, carrier=carrier).limiter == limiter


def frame(destination: bytes, ethertype: str) -> bytes:
    return (destination + bytes(6) + bytes.fromhex(ethertype)).ljust(60, b"\0")


@pytest.mark.parametrize(
    ("frames", "counters"),
    [
        ([frame(FOREIGN, "0800")], ("rx_otherhost_dropped",)),
        ([frame(FOREIGN, "86dd")], ("rx_otherhost_dropped",)),
        ([frame(FOREIGN, "810000070800")], ("rx_otherhost_dropped",)),
        ([frame(FOREIGN, "88b5")], ("rx_dropped",)),
        ([frame(FOREIGN, "810000078100")], ("rx_dropped",)),
        ([frame(FOREIGN, "88a80007810000070800")], ("rx_dropped",)),
        ([frame(FOREIGN, "88a800070800")], ("rx_otherhost_dropped",)),
        ([frame(FOREIGN, "88a80000810000070800")], ("rx_otherhost_dropped",)),
        ([frame(FOREIGN, "0800"), frame(FOREIGN, "88b5")], ("rx_otherhost_dropped", "rx_dropped")),
        ([frame(FOREIGN, "0800"), frame(OWN, "0800")], ()),
        ([frame(GROUP, "0800")], ()),
        ([FOREIGN], ("rx_dropped",)),
    ],
)
def test_peers_counter_follows_from_addresses_and_ethertypes(
    frames: list[bytes], counters: tuple[str, ...]
) -> None:
    rule = peer_rule(FrameTable.of(frames), "02:6c:6b:00:00:01", AVAILABLE)
    assert rule.counters == counters
    assert (rule.note is None) == bool(counters)


def test_kernel_without_the_counter_is_named() -> None:
    rule = peer_rule(FrameTable.of([frame(FOREIGN, "0800")]), "02:6c:6b:00:00:01", frozenset({"rx_dropped"}))
    assert rule.counters == ()
    assert "rx_otherhost_dropped" in str(rule.note)


@pytest.mark.parametrize(
    ("asked_pps", "elapsed_ns", "sent", "missed"),
    [
        (1e6, SECOND_NS, 999_000, False),
        (1e6, SECOND_NS, 998_998, True),
        (1e6, SECOND_NS, 1_001_002, True),
        (1e6, 2 * SECOND_NS, 1_998_001, False),
        (1e6, 2 * SECOND_NS, 1_997_998, True),
        # a millisecond's frames, however short the run
        (1e6, SECOND_NS // 10, 99_000, False),
        (1e6, SECOND_NS // 10, 98_998, True),
        (10.0, SECOND_NS, 9, False),
        (10.0, SECOND_NS, 8, True),
        (10.0, SECOND_NS // 100, 1, True),
    ],
)
def test_rate_is_kept_to_a_thousandth_or_a_millisecond(
    asked_pps: float, elapsed_ns: int, sent: int, missed: bool
) -> None:
    made = trial(
        rate_pps=asked_pps,
        sent=sent,
        after=reading(7 + sent, 9 + sent),
        end_ns=5 + elapsed_ns,
        duration_s=elapsed_ns / SECOND_NS,
    )
    assert ("rate-missed" in made.marks) is missed


def test_paced_run_tells_its_gaps_and_both_rates() -> None:
    gaps = [(992, 50), (1024, 49), (65_536, 1)]
    told = trial(rate_pps=1e6, gaps=gaps, burst_frames=3, sent=SENT).environment["pacing"]
    assert told == {
        "gap_p50_ns": round((992 * 1023) ** 0.5),
        "gap_p99_ns": round((1024 * 1087) ** 0.5),
        "burst_frames": 3,
        "asked_pps": 1e6,
        "achieved_pps": float(SENT),
    }
    assert "pacing" not in trial().environment
    assert trial(rate_pps=1e6, gaps=[], burst_frames=1).environment["pacing"]["gap_p50_ns"] is None
