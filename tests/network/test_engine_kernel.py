"""Native engines and their Python twins against a real kernel: the same claims for both."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable

import pytest

from labkit._native import Progress, StopFlag, monotonic_ns
from labkit.engines.base import Engine, EngineConfig, EngineReport
from labkit.engines.choose import choose
from labkit.engines.reference import twins
from labkit.errors import LabError, WorkloadError
from labkit.traffic.table import FrameTable
from tests.network.private import Veth, in_private_network, veth_pair

pytestmark = pytest.mark.network

ENGINES: dict[str, Engine] = {twin.name: choose(twin.name) for twin in twins()} | {
    f"{twin.name}-twin": twin for twin in twins()
}
every_engine = pytest.mark.parametrize("name", list(ENGINES))
every_frame_engine = pytest.mark.parametrize(
    "name", [name for name in ENGINES if ENGINES[name].name != "gso"]
)
every_queued_engine = pytest.mark.parametrize(
    "name", [name for name in ENGINES if ENGINES[name].name != "af_xdp"]
)
every_queued_frame_engine = pytest.mark.parametrize(
    "name", [name for name in ENGINES if ENGINES[name].name not in {"gso", "af_xdp"}]
)
every_batch_engine = pytest.mark.parametrize("name", ["sendmmsg", "sendmmsg-twin", "tx_ring", "tx_ring-twin"])


def frame(frame_bytes: int, *, ethertypes: bytes = b"\x08\x00") -> bytes:
    """A UDP frame to and from addresses that nobody has, cut off where it is too short for one."""
    head = bytes.fromhex("020000000001020000000002") + ethertypes
    ip_bytes = max(28, frame_bytes - len(head))
    head += struct.pack("!BBHIBBH8x", 0x45, 0, ip_bytes, 0, 64, 17, 0)
    head += struct.pack("!4H", 9, 9, ip_bytes - 20, 1)
    return head.ljust(frame_bytes, b"\0")[:frame_bytes]


def tagged(frame_bytes: int) -> bytes:
    return frame(frame_bytes, ethertypes=b"\x81\x00\x00\x05\x08\x00")


def send(name: str, veth: Veth, frames: list[bytes], **asked: object) -> EngineReport:
    engine = ENGINES[name]
    table = FrameTable.of(frames)
    values = {"ifindex": veth.ifindex, "batch": engine.usual_batch(table)} | asked
    progress = Progress()
    report = engine.run(table, EngineConfig(**values), StopFlag(), progress)
    assert (progress.sent, progress.refused) == (report.sent, report.refused)
    return report


@every_frame_engine
@pytest.mark.parametrize("count", [0, 1, 3, 63, 64, 65, 1001])
@in_private_network
def test_exactly_count_frames_reach_the_device(name: str, count: int) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60), frame(61), frame(62)], count=count)
        assert report.sent == veth.counter("tx_packets") == count
        whole, rest = divmod(count, 3)
        assert veth.counter("tx_bytes") == whole * 183 + [0, 60, 121][rest]
        assert (report.refused, report.partial_returns, report.ended_by) == (0, 0, "count")


@every_frame_engine
@pytest.mark.parametrize(
    ("mtu", "sent_frame", "refused_frame"),
    [
        (1500, frame(1514), frame(1515)),
        (1500, tagged(1518), tagged(1519)),
        (3000, frame(3014), frame(3015)),
        (68, frame(82), frame(83)),
    ],
    ids=["1514", "tagged-1518", "3014", "82"],
)
@in_private_network
def test_mtu_and_header_and_one_tag_is_the_longest_frame(
    name: str, mtu: int, sent_frame: bytes, refused_frame: bytes
) -> None:
    sends_up_to_mtu(name, mtu, sent_frame, refused_frame)


# a buffer of AF_XDP ends at a page
@every_queued_frame_engine
@in_private_network
def test_jumbo_frame_ends_at_its_mtu_too(name: str) -> None:
    sends_up_to_mtu(name, 9000, frame(9014), frame(9015))


def sends_up_to_mtu(name: str, mtu: int, sent_frame: bytes, refused_frame: bytes) -> None:
    with veth_pair() as veth:
        veth.set_mtu(mtu)
        report = send(name, veth, [sent_frame, refused_frame], count=2)
        assert (report.sent, report.refused_by_errno) == (1, {"EMSGSIZE": 1})
        assert veth.counter("tx_bytes") == len(sent_frame)


@every_frame_engine
@in_private_network
def test_frame_without_a_whole_header_is_refused(name: str) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(13), frame(14)], count=4)
        assert (report.sent, report.refused, report.refused_by_errno) == (2, 2, {"EINVAL": 2})
        assert veth.counter("tx_packets") == 2


@every_batch_engine
@pytest.mark.parametrize("qdisc_bypass", [False, True])
@in_private_network
def test_bad_frame_within_a_batch_is_counted_once_and_skipped(name: str, qdisc_bypass: bool) -> None:
    with veth_pair() as veth:
        frames = [frame(60)] * 10 + [frame(2000)] + [frame(60)] * 53
        report = send(name, veth, frames, count=64, qdisc_bypass=qdisc_bypass)
        assert (report.sent, report.refused, report.partial_returns) == (63, 1, 1)
        assert report.refused_by_errno == {"EMSGSIZE": 1}
        assert report.qdisc_bypass is qdisc_bypass
        # 10 taken, 1 refused, 53 taken
        assert report.calls == 3
        assert veth.counter("tx_packets") == 63


@every_engine
@in_private_network
def test_flow_of_bad_frames_only_still_ends_at_its_count(name: str) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(2000)], count=200)
        assert (report.sent, report.refused_by_errno, report.ended_by) == (0, {"EMSGSIZE": 200}, "count")


@every_queued_frame_engine
@in_private_network
def test_full_queue_refuses_without_ending_the_run(name: str) -> None:
    with veth_pair() as veth:
        veth.ip.tc("add", "tbf", veth.ifindex, handle="1:", rate="1mbit", burst=2000, limit=3000)
        report = send(name, veth, [frame(1000)], count=320)
        assert report.sent + report.refused == 320
        assert report.refused_by_errno == {"ENOBUFS": report.refused}
        assert 0 < report.sent < 60
        assert report.fatal_errno is None
        # a short return hides one more drop: the frame was tried, dropped, and tried again
        queue = veth.ip.get_qdiscs(veth.ifindex)[0]
        dropped = queue.get_nested("TCA_STATS2", "TCA_STATS_QUEUE")["drops"]
        assert dropped == report.refused + report.partial_returns


@every_frame_engine
@in_private_network
def test_bypass_goes_past_the_full_queue(name: str) -> None:
    with veth_pair() as veth:
        veth.ip.tc("add", "tbf", veth.ifindex, handle="1:", rate="1mbit", burst=2000, limit=3000)
        report = send(name, veth, [frame(1000)], count=320, qdisc_bypass=True)
        assert (report.sent, report.refused) == (320, 0)
        assert veth.counter("tx_packets") == 320


@every_queued_engine
@in_private_network
def test_peer_down_looks_sent_through_the_qdisc(name: str) -> None:
    with veth_pair() as veth:
        veth.take_peer_down()
        report = send(name, veth, [frame(60)], count=4)
        assert (report.sent, report.refused) == (4, 0)
        assert veth.counter("tx_packets") == 0
        # the device counts its drops until the kernel has acted on the carrier; noop, its qdisc from then on,
        # drops without a count
        assert veth.counter("tx_dropped") <= 4


@every_queued_frame_engine
@in_private_network
def test_peer_down_refuses_with_bypass(name: str) -> None:
    with veth_pair() as veth:
        veth.take_peer_down()
        report = send(name, veth, [frame(60)], count=4, qdisc_bypass=True)
        assert (report.sent, report.refused_by_errno, report.ended_by) == (0, {"ENOBUFS": 4}, "count")


@every_engine
@in_private_network
def test_own_end_down_is_fatal_and_keeps_the_counts(name: str) -> None:
    with veth_pair() as veth:
        veth.ip.link("set", index=veth.ifindex, state="down")
        report = send(name, veth, [frame(60)], count=100)
        assert (report.sent, report.refused, report.calls) == (0, 0, 1)
        assert (report.fatal_errno, report.ended_by) == ("ENETDOWN", "error")


@every_engine
@in_private_network
def test_interface_that_is_not_there_is_an_error_with_its_errno(name: str) -> None:
    with veth_pair() as veth, pytest.raises(LabError, match=r"ENODEV|ENXIO"):
        send(name, veth, [frame(60)], count=1, ifindex=4321)


@every_batch_engine
@in_private_network
def test_largest_batch_goes_out_in_one_call(name: str) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], count=2048, batch=1024)
        assert (report.sent, report.calls) == (2048, 2)
        with pytest.raises(WorkloadError, match="1 to 1024"):
            send(name, veth, [frame(60)], count=4096, batch=4096)
        assert veth.counter("tx_packets") == 2048


@every_engine
@in_private_network
def test_duration_ends_the_run_in_time(name: str) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], duration_ns=50_000_000)
        assert report.ended_by == "duration"
        # the last call of a loop that looks at the clock before each ends a little before the deadline
        assert 40_000_000 < report.elapsed_ns < 200_000_000
        assert report.sent == veth.counter("tx_packets") > 0
        assert 0 < report.cpu_ns < report.elapsed_ns * 1.05


def stopped(
    name: str, veth: Veth, ready: Callable[[Progress], bool], **asked: object
) -> tuple[EngineReport, int]:
    """Run until another thread stops it once it is `ready`: the report, and how long it went on in ns.

    That is until the engine returns; of twins with a mapped ring only until they have sent their last frame,
    for the kernel waits for other CPUs before it gives such a ring back, and no twin closes apart.
    """
    stop, progress, stopped_at = StopFlag(), Progress(), []
    engine = ENGINES[name]
    values = {"ifindex": veth.ifindex, "batch": engine.default_batch, "duration_ns": 30_000_000_000} | asked

    def stop_when_ready() -> None:
        while not ready(progress):
            threading.Event().wait(0.001)
        stopped_at.append(monotonic_ns())
        stop.set()

    other = threading.Thread(target=stop_when_ready)
    other.start()
    report = engine.run(FrameTable.of([frame(1000)]), EngineConfig(**values), stop, progress)
    returned_at = report.end_ns if name in {"tx_ring-twin", "af_xdp-twin"} else monotonic_ns()
    other.join()
    return report, returned_at - stopped_at[0]


# 10 ms are the engine's; the rest is room for a machine that others use
STOP_LIMIT_NS = 40_000_000


@every_engine
@pytest.mark.parametrize("rate_pps", [None, 2.0, 5000.0])
@in_private_network
def test_stop_from_another_thread_acts_at_once(name: str, rate_pps: float | None) -> None:
    with veth_pair() as veth:
        report, took_ns = stopped(name, veth, lambda progress: progress.sent > 0, rate_pps=rate_pps)
        assert report.ended_by == "stop"
        assert took_ns < STOP_LIMIT_NS
        assert report.sent == veth.counter("tx_packets")


@every_queued_engine
@in_private_network
def test_stop_reaches_a_sender_that_a_slow_queue_holds(name: str) -> None:
    def held(progress: Progress) -> bool:
        before = progress.sent
        threading.Event().wait(0.03)
        return 0 < before == progress.sent

    with veth_pair() as veth:
        # deep enough to take more than the socket's buffer, so the sender sleeps and nothing is refused
        veth.ip.tc("add", "tbf", veth.ifindex, handle="1:", rate="64kbit", burst=2000, limit=1 << 30)
        report, took_ns = stopped(name, veth, held)
        assert (report.ended_by, report.refused, report.fatal_errno) == ("stop", 0, None)
        assert took_ns < STOP_LIMIT_NS
        backlog = veth.ip.get_qdiscs(veth.ifindex)[0].get_nested("TCA_STATS2", "TCA_STATS_QUEUE")["qlen"]
        assert report.sent == veth.counter("tx_packets") + backlog


@every_engine
@pytest.mark.parametrize(
    ("rate_pps", "duration_s", "frames"), [(10.5, 1.0, 11), (0.5, 4.0, 2), (400.0, 0.5, 200)]
)
@in_private_network
def test_paced_run_sends_what_the_rate_says(
    name: str, rate_pps: float, duration_s: float, frames: int
) -> None:
    with veth_pair() as veth:
        report = send(name, veth, [frame(60)], rate_pps=rate_pps, duration_ns=int(duration_s * 1e9))
        assert report.ended_by == "duration"
        assert report.sent == veth.counter("tx_packets")
        # a busy machine may hold a sender up for longer than it makes good; too many frames are always wrong,
        # and how exact the rate is, tests/native and tests/unit tell on a clock of their own
        assert frames // 2 <= report.sent <= frames + max(1, frames // 50)
        assert report.elapsed_ns >= 0.95e9 * duration_s


@every_engine
@in_private_network
def test_pin_holds_during_the_run_only(name: str) -> None:
    with veth_pair() as veth:
        before = os.sched_getaffinity(0)
        report = send(name, veth, [frame(60)], count=100, cpu=max(before))
        assert report.sent == 100
        assert os.sched_getaffinity(0) == before


@every_engine
@in_private_network
def test_cpu_outside_the_allowed_set_is_refused_with_that_set(name: str) -> None:
    with veth_pair() as veth:
        only = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {only})
        with pytest.raises(WorkloadError, match=rf"CPU 900 is not allowed here; allowed: \[?{only}\]?$"):
            send(name, veth, [frame(60)], count=1, cpu=900)
        if only > 0:
            with pytest.raises(WorkloadError, match="CPU 0 is not allowed"):
                send(name, veth, [frame(60)], count=1, cpu=0)
        assert veth.counter("tx_packets") == 0
