"""Whether the counts agree, and where they part."""

from __future__ import annotations

import msgspec
import pytest

from labkit.counters.reconcile import Counts, difference_reason, reconciled

CLEAN = Counts(
    engine_sent=1000,
    engine_refused=0,
    partial_returns=0,
    qdisc_dropped=0,
    qdisc_queued=0,
    device_sent=1000,
    device_dropped=0,
    peer_received=1000,
    peer_dropped=0,
)


def counts(**changes: int | None) -> Counts:
    return msgspec.structs.replace(CLEAN, **changes)


def reason(
    told: Counts, refused: dict[str, int] | None = None, *, carrier: bool = True, note: str | None = None
) -> str | None:
    return difference_reason(
        told, refused_by_errno=refused or {}, fatal_errno=None, carrier=carrier, peer_note=note
    )


def test_equal_counts_agree_and_need_no_reason() -> None:
    assert reconciled(CLEAN) is True
    assert reason(CLEAN) is None


def test_frames_that_vanish_between_device_and_peer_come_out_unreconciled() -> None:
    lossy = counts(peer_received=990)
    assert reconciled(lossy) is False
    assert reason(lossy) == "10 vanished between device and peer"


def test_frames_still_in_the_queue_are_never_reconciled_and_named() -> None:
    left = counts(device_sent=900, peer_received=900, qdisc_queued=100)
    assert reconciled(left) is False
    assert reason(left) == "100 still in the queue when counting ended"


def test_peer_drops_are_reconciled_with_a_reason() -> None:
    dropped = counts(peer_received=990, peer_dropped=10)
    assert reconciled(dropped) is True
    assert reason(dropped) == "peer dropped 10 in its receive queue"


def test_refused_frame_is_reconciled_whether_or_not_the_device_counted_it() -> None:
    uncounted = counts(engine_sent=63, engine_refused=1, partial_returns=1, device_sent=63, peer_received=63)
    counted = msgspec.structs.replace(uncounted, device_dropped=1)
    assert reconciled(uncounted) is True
    assert reconciled(counted) is True
    assert reason(uncounted, {"EMSGSIZE": 1}) == "kernel refused 1 (EMSGSIZE 1)"


def test_drops_of_a_full_queue_are_refusals_and_those_behind_partial_returns() -> None:
    # appneta/tcpreplay issue #131: attempted 14206889 = sent 14195990 + refused 10899
    full = counts(
        engine_sent=14_195_990,
        engine_refused=10_899,
        partial_returns=2,
        qdisc_dropped=10_901,
        device_sent=14_195_990,
        peer_received=14_195_990,
    )
    assert reconciled(full) is True
    assert reason(full, {"ENOBUFS": 10_899}) == "kernel refused 10899 (ENOBUFS 10899); qdisc dropped 10901"
    assert reconciled(msgspec.structs.replace(full, qdisc_dropped=10_902)) is False


def test_no_carrier_drops_everything_yet_reconciles() -> None:
    down = counts(engine_sent=4, device_sent=0, device_dropped=4, peer_received=0)
    assert reconciled(down) is True
    assert reason(down, carrier=False) == "device dropped 4 (no carrier: the peer was down)"


def test_device_count_below_the_engine_without_drops_is_unreconciled() -> None:
    lost = counts(device_sent=900, peer_received=900)
    assert reconciled(lost) is False
    assert reason(lost) == "100 sent by the engine never counted at the device"


def test_device_count_above_the_engine_is_unreconciled() -> None:
    strange = counts(device_sent=1001, peer_received=1001)
    assert reconciled(strange) is False
    assert reason(strange) == "device counted 1 more than the engine sent"


@pytest.mark.parametrize(
    "missing", ["qdisc_dropped", "device_sent", "device_dropped", "peer_received", "peer_dropped"]
)
def test_missing_count_is_unknown_not_agreement(missing: str) -> None:
    assert reconciled(counts(**{missing: None})) is None


def test_unverified_peer_says_why() -> None:
    blind = counts(peer_received=None, peer_dropped=None)
    assert reason(blind, note="it has no peer") == "not verified at the peer: it has no peer"


def test_engine_that_cannot_count_leaves_device_and_peer_to_agree() -> None:
    told = counts(engine_sent=None)
    assert reconciled(told) is True
    assert reconciled(counts(engine_sent=None, peer_received=999)) is False
    assert "the engine cannot count what it sent" in str(reason(told))


def handed_over(attempted: int, **changes: int | None) -> Counts:
    return counts(engine_sent=None, attempted=attempted, **changes)


def test_engine_that_knows_only_what_it_handed_over_agrees_by_that() -> None:
    assert reconciled(handed_over(1000)) is True
    assert reason(handed_over(1000)) is None
    dropped = handed_over(1007, device_dropped=7)
    assert reconciled(dropped) is True
    assert reason(dropped) == "device dropped 7 (the receiving side refused them)"


def test_nothing_of_what_was_handed_over_names_the_likely_cause() -> None:
    nothing = handed_over(1000, device_sent=0, peer_received=0)
    assert reconciled(nothing) is False
    said = reason(nothing)
    assert said is not None
    assert said.startswith("1000 handed over by the engine never counted at the device (a veth sends XDP")
    assert "turn on setting gro, or take sink 'xdp_drop'" in said
    assert "no carrier" in (reason(nothing, carrier=False) or "")


@pytest.mark.parametrize(
    ("attempted", "words"),
    [
        (1005, "5 handed over by the engine never counted at the device (a device without room"),
        (995, "device counted 5 more than the engine handed over"),
    ],
)
def test_part_of_what_was_handed_over_is_told_with_its_number(attempted: int, words: str) -> None:
    assert reconciled(handed_over(attempted)) is False
    assert (reason(handed_over(attempted)) or "").startswith(words)
