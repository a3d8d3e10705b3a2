"""What settings do on the real e1000e: its ring, its interrupts, its roundings, and the way back."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

import labkit as lk
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.factors import Scalar
from labkit.guest.image import GuestImage
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

COUNT = 60_000
"""Of 20 000 frames the work of one tick is 3 %."""
BIG_FRAMES = 500
ONE_FLOW = lk.Workload(lk.udp_flow(flows=1), engine="pktgen")
SLOWLY = lk.Workload(lk.udp_flow(flows=1), engine="pktgen", rate_pps=8000)
THROUGH_THE_STACK = lk.Workload(lk.udp_flow(), engine="sendmmsg")


def in_force(rig: VmRig) -> dict[str, Scalar]:
    with rig.applied({}) as now:
        return dict(now.accepted)


@pytest.fixture
def unchanged(e1000e: VmRig) -> Iterator[VmRig]:
    """The rig; everything has to be as it was when the test is over."""
    before = in_force(e1000e)
    yield e1000e
    assert in_force(e1000e) == before


def sent_at(rig: VmRig, settings: Mapping[str, Scalar], workload: lk.Workload, count: int) -> lk.Trial:
    """A run under `settings` that loses no frame."""
    with rig.applied(settings):
        trial = rig.run(workload, count=count, duration_s=30)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (count, count, count)
    return trial


def test_a_small_ring_pushes_back_and_from_256_descriptors_on_nothing_does(unchanged: VmRig) -> None:
    trials = {ring: sent_at(unchanged, {"tx_ring": ring}, ONE_FLOW, COUNT) for ring in (64, 128, 256, 1024)}
    restarts = {ring: trial.environment["push_back"] for ring, trial in trials.items()}
    pps = {ring: trial.pps for ring, trial in trials.items()}
    assert restarts[64] > restarts[128] > restarts[256] == restarts[1024] == 0
    assert pps[64] < pps[128] < pps[256]
    assert pps[1024] == pytest.approx(pps[256], rel=0.02)


@pytest.mark.parametrize("settings", [{}, {"rx_usecs": 100}, {"rx_usecs": 1000}])
def test_no_frame_is_lost_however_long_pktgen_sends(unchanged: VmRig, settings: dict[str, Scalar]) -> None:
    sent_at(unchanged, settings, ONE_FLOW, COUNT)  # more than all queues on the way hold


def test_a_longer_interval_brings_fewer_interrupts_to_the_far_card(unchanged: VmRig) -> None:
    count = 8000
    interrupts = {
        usecs: sent_at(unchanged, {"rx_usecs": usecs}, SLOWLY, count).environment["port_interrupts"]
        for usecs in (0, 100, 500, 1000)
    }
    assert interrupts[0] == pytest.approx(count, rel=0.02)
    assert interrupts[100] == pytest.approx(interrupts[0], rel=0.01)
    assert interrupts[500] <= count / 2
    assert interrupts[1000] <= count / 4 * 1.01


@pytest.mark.parametrize(
    ("setting", "asked", "accepted"),
    [("tx_ring", 300, 304), ("rx_ring", 1001, 1008), ("tx_ring", 8, 64), ("rx_usecs", 30, 30)],
)
def test_what_the_driver_makes_of_a_value_is_told(
    unchanged: VmRig, setting: str, asked: int, accepted: int
) -> None:
    with unchanged.applied({setting: asked}) as now:
        assert now.asked == {setting: asked}
        assert now.accepted[setting] == accepted
        assert now.effective[setting] in (accepted, None)
        trial = unchanged.run(THROUGH_THE_STACK, count=1000, duration_s=30)
    assert trial.settings_asked == {setting: asked}
    assert trial.settings_accepted[setting] == accepted


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        *(({"rx_usecs": usecs}, errno.EINVAL) for usecs in (2, 5, 6, 7, 8, 9, 1_000_000)),
        ({"mtu": 20_000}, errno.EINVAL),
        ({"tx_ring": 128, "rx_usecs": 2}, errno.EINVAL),
    ],
)
def test_a_refused_value_leaves_the_device_unchanged(
    unchanged: VmRig, asked: dict[str, Scalar], number: int
) -> None:
    with pytest.raises(SettingRefusedError, match=r"^eth0: ") as refused, unchanged.applied(asked):
        pass
    assert refused.value.errno == number


def test_more_than_the_largest_ring_is_refused_before_the_kernel_is_asked(unchanged: VmRig) -> None:
    words = r"^eth0: tx_ring 65536: the device takes 4096 at most"
    with pytest.raises(SettingRefusedError, match=words), unchanged.applied({"tx_ring": 65536}):
        pass


@pytest.mark.parametrize("asked", [{"tx_usecs": 5}, {"adaptive_rx": True}, {"rx_frames": 5}])
def test_what_the_driver_does_not_report_is_not_turned(unchanged: VmRig, asked: dict[str, Scalar]) -> None:
    words = rf"^eth0 does not report '{next(iter(asked))}'"
    with pytest.raises(CapabilityMissingError, match=words), unchanged.applied(asked):
        pass


def test_a_card_without_channels_says_so_by_its_name_and_in_the_kernels_words(unchanged: VmRig) -> None:
    words = r"^eth0 has no setting 'channels': eth0: channels: not supported"
    with pytest.raises(CapabilityMissingError, match=words) as missing, unchanged.applied({"channels": 2}):
        pass
    assert missing.value.errno == errno.EOPNOTSUPP


@pytest.mark.parametrize(
    "asked",
    [
        {"bql_limit_min": 5000, "bql_limit_max": 60_000},
        {"txqueuelen": 500, "qdisc": "pfifo", "qdisc_limit": 100},
        {"tcp_limit_output_bytes": 65_536},
        {"tso": False, "gso": False, "gro": False},
        {"napi_defer_hard_irqs": 2, "gro_flush_timeout_ns": 20_000},
    ],
)
def test_settings_are_read_back_and_put_back(unchanged: VmRig, asked: dict[str, Scalar]) -> None:
    with unchanged.applied(asked) as now:
        assert {name: now.accepted[name] for name in asked} == asked
        again = in_force(unchanged)
        assert {name: again[name] for name in asked} == asked


def test_blocks_within_blocks_lead_back_step_by_step(unchanged: VmRig) -> None:
    with unchanged.applied({"tx_ring": 64, "rx_usecs": 100}):
        with unchanged.applied({"tx_ring": 128}) as inner:
            assert (inner.accepted["tx_ring"], inner.accepted["rx_usecs"]) == (128, 100)
        after = in_force(unchanged)
        assert (after["tx_ring"], after["rx_usecs"]) == (64, 100)


@pytest.mark.parametrize("asked", [{"tx_ring": 128}, {"rx_ring": 512}, {"mtu": 4000}])
def test_the_link_is_there_again_when_the_block_begins(unchanged: VmRig, asked: dict[str, Scalar]) -> None:
    sent_at(unchanged, asked, THROUGH_THE_STACK, 3000)
    sent_at(unchanged, {}, THROUGH_THE_STACK, 3000)


def test_another_mtu_is_both_cards(unchanged: VmRig) -> None:
    long = lk.Workload(lk.udp_flow(frame_bytes=9014), engine="sendmmsg")
    with pytest.raises(LabError, match="1514"):
        unchanged.run(long, count=BIG_FRAMES, duration_s=30)
    assert "The link goes down and up 1 time" in unchanged.preview({"mtu": 9000})
    assert sent_at(unchanged, {"mtu": 9000}, long, BIG_FRAMES).frame_bytes == 9014


@pytest.mark.parametrize("within_s", [0.01, 0.2, 0.6, 1.2])
def test_an_interrupt_at_any_moment_of_a_change_leads_back(unchanged: VmRig, within_s: float) -> None:
    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        with pytest.raises(KeyboardInterrupt), unchanged.applied({"tx_ring": 128, "rx_usecs": 500}):
            signal.pause()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    sent_at(unchanged, {}, THROUGH_THE_STACK, 1000)


def test_two_boots_count_alike(guest_image: GuestImage, guest_cache: Path) -> None:
    seen = []
    for _ in range(2):
        with VmRig("e1000e", cache=guest_cache) as rig:
            ring_256 = sent_at(rig, {}, ONE_FLOW, COUNT)
            ring_64 = sent_at(rig, {"tx_ring": 64}, ONE_FLOW, COUNT)
        seen.append([(each.environment["push_back"], each.pps) for each in (ring_256, ring_64)])
    sys.stdout.write(f"restarts and pps at ring 256 and 64, boot by boot: {seen}\n")
    ((none, pps_256), (some, pps_64)), second = seen
    # where the run falls between two ticks of the guest is the host's doing: a restart in hundreds
    assert second == [
        (none, pytest.approx(pps_256, rel=0.02)),
        (pytest.approx(some, rel=0.02), pytest.approx(pps_64, rel=0.02)),
    ]
    assert none == 0
