"""Senders beside pktgen at full speed: TCP streams, frames for the receive path, deferred doorbells."""

from __future__ import annotations

import msgspec
import pytest

from labkit.paths import data_dir
from labkit.rigs.profiles import load_profiles
from labkit.simnic.config import config_of
from labkit.simnic.loop import simulate
from labkit.simnic.run import Run
from labkit.simnic.sender import Sender, terms

PROFILES = load_profiles(data_dir() / "profiles")
TCP = Sender(engine="tcp", frame_bytes=1514)
FLUSHED_AT_ONCE = 256 / 29
"""A call of 256 frames: 28 doorbells for nine each, and one at its end for the last four."""
SECOND = Run(duration_s=1.0, warmup_s=0.1)


def test_frames_for_the_receive_path_never_meet_the_card() -> None:
    sender = Sender(engine="pktgen", xmit_mode="netif_receive", batch=1024)
    found = simulate(PROFILES["pktgen-receive"], {"tx_ring": 64}, sender, Run(duration_s=0.01))
    assert found.pps == pytest.approx(1e9 / (45.4 + 209 / 1024), rel=1e-3)
    assert found.pps > 14_880_953  # faster than the wire
    assert found.tx_interrupts == (0,)
    assert found.per_cpu[0]["cleaned"] == 0
    assert {share.name for share in found.budget} == {"receive path", "packet buffer"}


def test_an_interrupt_does_not_wait_for_a_segment() -> None:
    def interrupts_each(period_us: int) -> float:
        settings = {"tx_usecs": period_us, "tx_frames": 255, "rx_usecs": 1000, "rx_frames": 255}
        found = simulate(PROFILES["gianfar"], {**settings, "tx_ring": 64}, TCP, SECOND)
        return sum(found.tx_interrupts) / found.sent

    # a hold-off shorter than the 19 us of a segment fires within the next one
    assert interrupts_each(5) == pytest.approx(1.0, abs=0.05)
    assert interrupts_each(100) < 0.3


def test_a_stream_is_the_same_every_time_and_never_stalls() -> None:
    for delay_ns in (10_000.0, 50_000.0, 60_000.0, 300_000.0):
        constants = PROFILES["gianfar"].constants
        delay = msgspec.structs.replace(constants.ack_delay_ns, value=delay_ns)
        profile = msgspec.structs.replace(
            PROFILES["gianfar"], constants=msgspec.structs.replace(constants, ack_delay_ns=delay)
        )
        one, two = (simulate(profile, {"tx_ring": 64}, TCP, SECOND) for _ in range(2))
        assert one == two
        assert one.sent > 40_000


def test_byte_limits_are_kept_where_the_kernel_has_them() -> None:
    with_bql, without = (simulate(PROFILES[name], {}, TCP, SECOND) for name in ("gianfar", "gianfar@image3"))
    assert with_bql.bql_limit_bytes is not None
    assert with_bql.bql_limit_bytes > 0
    assert not config_of(PROFILES["gianfar@image3"], {}, TCP, SECOND).bql
    assert without.pps == pytest.approx(with_bql.pps, rel=0.01)


def test_separate_polls_take_more_interrupts_which_is_no_saving() -> None:
    costs = msgspec.structs.replace(
        PROFILES["gianfar@image2"].constants, segment_ns=PROFILES["gianfar"].constants.segment_ns
    )
    split = msgspec.structs.replace(PROFILES["gianfar@image2"], constants=costs)
    shared, apart = (simulate(profile, {}, TCP, SECOND) for profile in (PROFILES["gianfar"], split))
    assert apart.sent < shared.sent


def test_drivers_defaults_hold_where_nothing_is_set() -> None:
    config = config_of(PROFILES["gianfar"], {}, TCP, SECOND)
    assert (config.tx_moderation.period, config.tx_moderation.frames) == (10_000_000, 16)
    assert (config.rx_moderation.period, config.rx_moderation.frames) == (0, 0)
    assert (config.tx_ring, config.rx_ring) == (256, 256)
    assert config_of(PROFILES["ixgbe"], {}, Sender(engine="pktgen"), SECOND).rx_ring == 512


def test_doorbells_are_put_off_and_the_new_call_is_paid_with_each() -> None:
    sender = Sender(engine="tx_ring", batch=256)
    deferred = simulate(PROFILES["ixgbe-e5-2695@flush-8"], {}, sender, Run(duration_s=0.01))
    counts = deferred.per_cpu[0]
    assert counts["sent"] / counts["bursts"] == pytest.approx(FLUSHED_AT_ONCE, rel=0.001)
    each = {term.name: (term.per, term.ns) for term in terms(PROFILES["ixgbe-e5-2695@flush-8"], sender)}
    assert each["flush call"] == ("burst", 5.8)
    assert "flush call" not in {term.name for term in terms(PROFILES["ixgbe-e5-2695"], sender)}
    assert sum(share.ns_per_packet for share in deferred.budget) == pytest.approx(
        deferred.elapsed_ns / deferred.sent, abs=1
    )


@pytest.mark.parametrize("hypothesis", ["bypass-only", "queue-changes"])
def test_with_these_hypotheses_the_qdisc_path_rings_for_every_frame(hypothesis: str) -> None:
    def bursts(sender: Sender) -> float:
        found = simulate(PROFILES["ixgbe-e5-2695@flush-8"], {}, sender, Run(duration_s=0.05, warmup_s=0.05))
        return found.sent / found.per_cpu[0]["bursts"]

    through = Sender(engine="tx_ring", batch=256, qdisc_bypass=False)
    assert bursts(through) == pytest.approx(FLUSHED_AT_ONCE, rel=0.001)
    assert bursts(msgspec.structs.replace(through, hypotheses=frozenset({hypothesis}))) == 1
    past = Sender(engine="tx_ring", batch=256, hypotheses=frozenset({hypothesis}))
    assert bursts(past) == pytest.approx(FLUSHED_AT_ONCE, rel=0.001)
