"""A full device is told by whoever saw it: the queue above it, or the sender that it refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from labkit.agent.protocol import Measured
from labkit.analysis.counted import counted_evidence
from labkit.records import Trial
from labkit.rigs.assemble import trial_of
from labkit.rigs.peer_counter import PeerRule
from labkit.rigs.push_back import pushed_back, seen_above
from labkit.rigs.veth_view import peer_mode_of
from tests.unit.test_assemble import ASKED, OTHERHOST, measured_run, reading


def run(
    *, sent: int = 1000, requeued: tuple[int, int] | None = None, tx_dropped: int = 0, **did: Any
) -> Measured:
    """A run of `sent` packets; `requeued` before and after it."""
    made = measured_run(reading(sent, tx_dropped, peer=sent), sent=sent, **did)
    if requeued is None:
        return made
    before, after = (
        msgspec.structs.replace(each, qdisc_requeued=count)
        for each, count in zip((made.before, made.after), requeued, strict=True)
    )
    return msgspec.structs.replace(made, before=before, after=after)


def trial(made: Measured, *, full: str = "peer", **asked: Any) -> Trial:
    told = seen_above(made)
    own = {"push_back": pushed_back(told), "full": full, "environment": told, **asked}
    rule = PeerRule(counters=(OTHERHOST,), note=None)
    return trial_of(msgspec.structs.replace(ASKED, **own), made, rule, ())


BYPASS = {"qdisc_bypass": True, "refused": 300, "refused_by_errno": {"ENOBUFS": 300}}


def test_frames_that_a_queue_took_back_are_no_loss_and_name_the_limit() -> None:
    made = trial(run(requeued=(5, 1155)), settings_accepted={"qdisc": "pfifo"})
    assert (made.environment["qdisc_requeues"], made.environment["refused_when_full"]) == (1150, None)
    assert (made.limiter, made.reconciled, made.difference_reason) == ("peer", True, None)
    assert "the qdisc took packets back 1,150 times: the device below was full" in counted_evidence(made)


def test_refusals_behind_the_bypass_name_the_limit_while_no_counter_below_moves() -> None:
    made = trial(run(requeued=(0, 0), **BYPASS), settings_accepted={"qdisc": "pfifo"})
    assert made.environment["refused_when_full"] == 300
    assert (made.engine_refused, made.device_dropped, made.qdisc_dropped) == (300, 0, 0)
    assert (made.limiter, made.reconciled) == ("peer", True)
    assert made.difference_reason == "kernel refused 300 (ENOBUFS 300)"


def test_refusals_that_the_device_counted_as_drops_are_its_drops() -> None:
    told = seen_above(run(tx_dropped=300, **BYPASS))
    assert told == {"qdisc_requeues": None, "refused_when_full": 0}
    assert trial(run(tx_dropped=300, **BYPASS)).limiter == "device"


def test_refusals_on_the_way_through_the_queue_prove_no_full_device() -> None:
    made = run(requeued=(0, 0), refused=7, refused_by_errno={"ENOBUFS": 7})
    assert seen_above(made) == {"qdisc_requeues": 0, "refused_when_full": None}
    assert trial(made).limiter is None


def test_refused_frames_that_never_fit_are_no_full_device() -> None:
    made = run(qdisc_bypass=True, refused=7, refused_by_errno={"EMSGSIZE": 7})
    assert seen_above(made)["refused_when_full"] == 0


def test_lost_carrier_explains_refusals_before_a_full_device_does() -> None:
    made = msgspec.structs.replace(run(**BYPASS), carrier=False)
    assert seen_above(made)["refused_when_full"] is None
    assert trial(made).limiter == "carrier"


def test_without_a_queue_nothing_is_known_to_be_pushed_back() -> None:
    assert pushed_back(seen_above(run())) is None


@pytest.mark.parametrize(("qdisc", "limiter"), [("pfifo", "TX ring"), ("bfifo", "TX ring"), ("tbf", "qdisc")])
def test_fifo_that_ran_over_below_a_full_device_is_not_the_limit(qdisc: str, limiter: str) -> None:
    made = run(requeued=(0, 9))
    after = msgspec.structs.replace(made.after, qdisc_dropped=40)
    made = msgspec.structs.replace(made, after=after)
    assert trial(made, full="TX ring", settings_accepted={"qdisc": qdisc}).limiter == limiter


@pytest.mark.parametrize(("own", "known"), [(3, 3), (0, 0), (None, 8)])
def test_drivers_own_counter_comes_before_the_queues(own: int | None, known: int) -> None:
    observed = {"qdisc_requeues": 8, "refused_when_full": None, "push_back": own}
    assert pushed_back(observed) == known


def with_napi(made: Measured, packets: int | None) -> Measured:
    before = msgspec.structs.replace(made.before, peer_napi_packets=None if packets is None else 50)
    after = msgspec.structs.replace(made.after, peer_napi_packets=None if packets is None else 50 + packets)
    return msgspec.structs.replace(made, before=before, after=after)


@pytest.mark.parametrize(
    ("mode", "packets", "proved"),
    [
        ("backlog", 0, True),
        ("backlog", 1000, False),
        ("napi", 1000, True),
        ("napi", 0, False),
        ("napi-threaded", 1000, True),
        ("napi-threaded", 999, False),
        ("mixed", 0, None),
        (None, 0, None),
        ("napi", None, None),
    ],
)
def test_way_into_the_peer_is_proved_by_what_its_napi_took_in(
    mode: str | None, packets: int | None, proved: bool | None
) -> None:
    made = with_napi(run(), packets)
    told = peer_mode_of(made, sink="stack", asked={"peer": "napi"}, accepted={"peer": mode})
    assert (told["asked"], told["accepted"], told["xdp_packets"]) == ("napi", mode, packets)
    assert told["proved"] is proved
    assert ("note" in told) is (proved is False)
    if proved is False:
        assert (
            told["note"] == f"peer is {mode} by its settings, but its NAPI took {packets} of 1000 packets in"
        )


def test_nothing_sent_and_a_sink_with_a_napi_of_its_own_prove_no_mode() -> None:
    empty = with_napi(run(sent=0), 0)
    assert peer_mode_of(empty, sink="stack", asked={}, accepted={"peer": "napi"})["proved"] is None
    by_program = with_napi(run(), 1000)
    told = peer_mode_of(by_program, sink="xdp_drop", asked={}, accepted={"peer": "backlog"})
    assert (told["asked"], told["proved"]) == (None, None)
