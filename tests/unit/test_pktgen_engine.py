"""Engine pktgen on fake kernels: what is sent, refused, changed without a word, cut short and left behind."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit._native import Progress, StopFlag
from labkit.agent.workers import Senders, merged
from labkit.engines import pktgen_run
from labkit.engines.base import EngineConfig, EngineReport, PktgenConfig, Together
from labkit.engines.choose import choose
from labkit.engines.pktgen import PktgenEngine, busiest
from labkit.engines.pktgen_told import DeviceTold
from labkit.errors import CapabilityMissingError, LabError, RigBusyError, SettingRefusedError, WorkloadError
from labkit.linux.pktgen import Pktgen, ProcFiles
from labkit.linux.pktgen_commands import COMMANDS, Asked, ask
from labkit.linux.processes import Times
from labkit.records import Frames
from tests import pktgen_fakes
from tests.pktgen_fakes import FakePktgen, Interface

FLOW = lk.udp_flow(60, flows=64).table()
CONFIG = EngineConfig(ifindex=2, batch=1, count=20_000, cpu=0)
KERNELS = ("6.1", "6.12")


def engine(fake: FakePktgen) -> PktgenEngine:
    return PktgenEngine(lambda: fake, lambda _: "eth0", lambda _: None)


def config(commands: str | None = None, /, **asked: Any) -> EngineConfig:
    own = {name: asked.pop(name) for name in ("clone_skb", "xmit_mode", "delay_ns") if name in asked}
    return msgspec.structs.replace(CONFIG, **asked, pktgen=PktgenConfig(commands=commands, **own))


def send(fake: FakePktgen, asked: EngineConfig, frames: Frames = FLOW) -> EngineReport:
    return engine(fake).run(frames, asked, StopFlag(), Progress())


def told(report: EngineReport) -> DeviceTold:
    assert report.pktgen is not None
    (device,) = report.pktgen.devices
    return device


def written(fake: FakePktgen) -> list[str]:
    """Commands to devices."""
    return [line for name, line in fake.written if "@" in name]


def nothing_left(fake: FakePktgen) -> bool:
    return not fake.devices and not any(thread.devices for thread in Pktgen(fake).threads().values())


@pytest.mark.parametrize("kernel", KERNELS)
def test_default_flow_is_sent_as_often_as_asked_and_nothing_stays_behind(kernel: str) -> None:
    fake = FakePktgen(kernel)
    report = send(fake, CONFIG)
    assert (report.sent, report.refused, report.ended_by, report.fatal_errno) == (20_000, 0, "count", None)
    assert report.elapsed_ns > 0
    assert report.qdisc_bypass
    assert told(report).accepted == []
    assert told(report).early is None
    assert written(fake)[0].startswith("src_mac ")
    assert {"count 20000", "clone_skb 100000", "burst 1", "xmit_mode start_xmit"} <= set(written(fake))
    assert [line for name, line in fake.written if name == "pgctrl"] == ["start"]
    assert nothing_left(fake)


def test_report_has_the_kernels_own_time_and_rate() -> None:
    fake = FakePktgen()
    progress = Progress()
    report = engine(fake).run(FLOW, CONFIG, StopFlag(), progress)
    assert told(report).pps == pytest.approx(20_000 * 1e9 / report.elapsed_ns, rel=0.001)
    assert told(report).idle_ns == 7000
    assert report.start_ns % 1000 == report.end_ns % 1000 == 0
    assert (progress.sent, progress.refused) == (20_000, 0)


def test_without_a_count_it_runs_for_the_duration_and_is_stopped_once() -> None:
    fake = FakePktgen()
    progress = Progress()
    report = engine(fake).run(FLOW, config(count=None, duration_ns=60_000_000), StopFlag(), progress)
    assert written(fake)[1] == "count 0"
    assert (report.ended_by, told(report).early) == ("duration", None)
    assert report.elapsed_ns >= 59_000_000
    assert report.sent == progress.sent
    # a stop to what has stopped is a warning in the kernel's log
    assert [line for name, line in fake.written if name == "pgctrl"] == ["start", "stop"]


def test_stop_ends_the_run_within_a_look() -> None:
    fake, stop = FakePktgen(), StopFlag()
    watcher = threading.Thread(target=_stop_when_running, args=(fake, stop))
    watcher.start()
    report = engine(fake).run(FLOW, config(count=None, duration_ns=10**15), stop, Progress())
    watcher.join()
    assert (report.ended_by, told(report).early) == ("stop", None)
    assert nothing_left(fake)


def _stop_when_running(fake: FakePktgen, stop: StopFlag) -> None:
    for _ in range(10_000_000):
        if any(device.running for device in list(fake.devices.values())):
            break
    stop.set()


def test_stop_before_the_start_ends_it_too() -> None:
    fake, stop = FakePktgen(), StopFlag()
    stop.set()
    report = engine(fake).run(FLOW, config(count=None, duration_ns=10**15), stop, Progress())
    assert report.ended_by == "stop"


@pytest.mark.parametrize("count", [1, 1001, 99_999])
def test_count_needs_be_no_multiple_of_clone_skb(count: int) -> None:
    report = send(FakePktgen(), config(count=count, clone_skb=1000))
    assert (report.sent, told(report).beyond_count) == (count, 0)


def test_burst_is_not_cut_and_the_frames_beyond_the_count_are_told() -> None:
    fake = FakePktgen(eth0=Interface(overshoots=True))
    report = send(fake, config(batch=32, clone_skb=1000))
    assert (report.sent, report.ended_by, told(report).beyond_count) == (20_031, "count", 31)


def test_count_of_none_sends_none_though_none_is_forever_to_pktgen() -> None:
    fake = FakePktgen()
    report = send(fake, config(count=0))
    assert (report.sent, report.ended_by, fake.written) == (0, "count", [])


def test_frames_up_the_receive_path_are_counted_and_their_drops_are_no_refusals() -> None:
    fake = FakePktgen()
    report = send(fake, config(xmit_mode="netif_receive", batch=16))
    assert (report.sent, report.refused, told(report).errors) == (20_000, 0, 20_000)
    assert not report.qdisc_bypass
    assert "clone_skb 0" in written(fake)


def test_queue_xmit_passes_the_qdisc() -> None:
    fake = FakePktgen()
    assert not send(fake, config(xmit_mode="queue_xmit")).qdisc_bypass
    # one buffer twice in a qdisc is a crash (kernel 6.1)
    assert "clone_skb 0" in written(fake)
    assert send(fake, config(xmit_mode="queue_xmit", clone_skb=1)).sent == 20_000


def test_rate_is_ratep_where_the_kernel_makes_the_nearest_gap_of_it_and_else_the_gap() -> None:
    fake = FakePktgen()
    report = send(fake, config(rate_pps=20_000.0))
    assert "ratep 20000" in written(fake)
    assert told(report).accepted == []
    fake = FakePktgen()
    report = send(fake, config(rate_pps=7_000_000.0))
    assert "delay 143" in written(fake)
    assert told(report).accepted == [("rate_pps 7000000", "6993006.993, a frame each 143 ns")]
    fake = FakePktgen()
    send(fake, config(delay_ns=5000))
    assert "delay 5000" in written(fake)


def test_rate_is_one_of_frames_though_pktgen_waits_once_a_burst() -> None:
    fake = FakePktgen()
    report = send(fake, config(rate_pps=20_000.0, batch=8))
    assert "ratep 2500" in written(fake)
    assert told(report).accepted == []
    fake = FakePktgen()
    report = send(fake, config(rate_pps=7_000_000.0, batch=8))
    assert "delay 1143" in written(fake)
    assert told(report).accepted == [("rate_pps 7000000", "6999125.109, 8 frames each 1143 ns")]
    fake = FakePktgen()
    send(fake, config(delay_ns=5000, batch=8))
    assert "delay 40000" in written(fake)
    with pytest.raises(WorkloadError, match="give 0 to 268435455; pktgen waits once a burst"):
        send(FakePktgen(), config(delay_ns=2**28, batch=8))
    with pytest.raises(WorkloadError, match="give 4 to 1e"):
        send(FakePktgen(), config(rate_pps=3.0, batch=8))


def test_workers_beyond_the_queues_share_them_for_the_kernel_would_warn() -> None:
    fake = FakePktgen(eth0=Interface(queues=2))
    sender = PktgenEngine(lambda: fake, lambda _: "eth0", lambda _: 2)
    configs = [config(cpu=cpu, queue=queue, count=5) for queue, cpu in enumerate((1, 0, 1))]
    reports = sender.run_all(FLOW, configs, StopFlag(), [Progress() for _ in configs])
    assert [told(report).name for report in reports] == ["eth0@lk0", "eth0@lk1", "eth0@lk2"]
    assert [told(report).accepted for report in reports] == [[], [], []]
    maps = [(name, line) for name, line in fake.written if line.startswith("queue_map_max")]
    assert maps == [
        ("eth0@lk0", "queue_map_max 0"),
        ("eth0@lk1", "queue_map_max 1"),
        ("eth0@lk2", "queue_map_max 0"),
    ]


def test_own_commands_come_last_and_win() -> None:
    fake = FakePktgen()
    send(fake, config("udp_dst_min 7; flag UDPSRC_RND; vlan_id 5; vlan_id 4096"))
    assert written(fake)[-4:] == ["udp_dst_min 7", "flag UDPSRC_RND", "vlan_id 5", "vlan_id 4096"]


@pytest.mark.parametrize(
    ("commands", "pair"),
    [
        ("min_pkt_size 10", ("min_pkt_size 10", "42")),
        ("queue_map_max 7", ("queue_map_max 7", "0")),
        ("vlan_id 5", ("frame_bytes 60", "62")),
    ],
)
def test_what_the_kernel_changed_without_a_word_is_told(commands: str, pair: tuple[str, str]) -> None:
    assert pair in told(send(FakePktgen(), config(commands))).accepted


def test_queue_of_a_worker_beyond_the_devices_queues_is_told() -> None:
    report = send(FakePktgen(), config(queue=3))
    assert told(report).accepted == [("queue_map_min 3", "0"), ("queue_map_max 3", "0")]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("commands", "error", "words"),
    [
        ("node 7", SettingRefusedError, "no error .*kernel: ERROR: node not possible"),
        ("vlan_p 3", SettingRefusedError, "kernel: ERROR: vlan_p must be 0-7"),
        ("vlan_cfi 1", SettingRefusedError, "kernel: ERROR: vlan_cfi must be 0-1"),
        ("svlan_id 5", SettingRefusedError, "reported no error; it needs a vlan_id before it$"),
        (
            "vlan_id 5; svlan_id 6; svlan_id 4096; svlan_id 6",
            SettingRefusedError,
            "'svlan_id 6' was not taken.*needs a vlan_id before it$",
        ),
        ("flag !IPV6; svlan_p 1", CapabilityMissingError, "does not know it .*No such parameter"),
        ("mpls 0001000a", CapabilityMissingError, "'mpls 0001000a': this kernel's pktgen does not know it"),
    ],
)
def test_refusal_is_an_error_with_the_kernels_words_though_the_write_succeeded(
    kernel: str, commands: str, error: type[LabError], words: str
) -> None:
    fake = FakePktgen(kernel)
    with pytest.raises(error, match=words):
        send(fake, config(commands))
    assert nothing_left(fake)


def test_flag_that_this_kernel_lacks_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(CapabilityMissingError, match=r"does not know it; it has IPSRC_RND, .*NODE_ALLOC"):
        send(FakePktgen("6.1"), config("flag SHARED"))


@pytest.mark.parametrize("number", [524, errno.EOPNOTSUPP])
@pytest.mark.parametrize(
    ("asked", "instead"), [({}, "clone_skb 0"), ({"clone_skb": 0, "batch": 8}, "batch 1")]
)
def test_device_that_sends_no_buffer_twice_is_told_by_either_errno(
    number: int, asked: dict[str, int], instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pktgen_fakes, "ENOTSUPP", number)
    fake = FakePktgen(eth0=Interface(shares_buffers=False))
    with pytest.raises(CapabilityMissingError, match=f"sent twice; give {instead}") as refused:
        send(fake, config(**asked))
    assert refused.value.errno == number
    assert nothing_left(fake)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"qdisc_bypass": True}, WorkloadError, "qdisc_bypass: .*leave it out"),
        ({"ring_frames": 64}, WorkloadError, "ring_frames"),
        ({"stamp": True}, WorkloadError, "stamp: it numbers and times each frame"),
        ({"realtime_priority": 5}, WorkloadError, "realtime_priority: its threads are the kernel's"),
        ({"message_bytes": 5}, WorkloadError, "message_bytes"),
        ({"batch": 0}, WorkloadError, "batch 0: this engine takes 1 to 1024"),
        ({"batch": 1025}, WorkloadError, "1 to 1024"),
        ({"xmit_mode": "nosuch"}, WorkloadError, "unknown xmit_mode 'nosuch'; known: start_xmit"),
        ({"clone_skb": -1}, WorkloadError, "clone_skb -1"),
        ({"clone_skb": 1, "xmit_mode": "netif_receive"}, CapabilityMissingError, "frees the buffer"),
        ({"batch": 2, "xmit_mode": "queue_xmit"}, CapabilityMissingError, "one by one"),
        ({"clone_skb": 2, "xmit_mode": "queue_xmit"}, CapabilityMissingError, "crash; leave clone_skb out"),
        ({"delay_ns": -1}, WorkloadError, "delay_ns -1"),
        ({"delay_ns": 2147483647}, WorkloadError, "never send"),
        ({"delay_ns": 5, "rate_pps": 5.0}, WorkloadError, "give one of both"),
        ({"rate_pps": 0.1}, WorkloadError, "whole nanoseconds"),
        ({"rate_pps": 2e9}, WorkloadError, "whole nanoseconds"),
        ({"rate_pps": 0.0}, WorkloadError, "rate 0 pps"),
        ({"count": 10**10}, WorkloadError, "ten digits"),
        ({"cpu": None}, WorkloadError, "no CPU is named"),
        ({"cpu": 7}, CapabilityMissingError, "CPU 7 has no thread"),
    ],
)
def test_request_is_refused_in_words_and_no_device_stays(
    asked: dict[str, Any], error: type[LabError], words: str
) -> None:
    fake = FakePktgen()
    with pytest.raises(error, match=words):
        send(fake, config(**asked))
    assert nothing_left(fake)


def test_mix_goes_with_no_clones_and_never_with_clones_that_were_asked_for() -> None:
    fake = FakePktgen()
    report = send(fake, CONFIG, lk.imix_flow().table())
    assert {"clone_skb 0", "imix_weights 60,7 590,4 1514,1"} <= set(written(fake))
    assert report.pktgen is not None
    assert not report.pktgen.one_size
    for frames, commands in ((lk.imix_flow().table(), None), (FLOW, "imix_weights 42,1 60,2")):
        with pytest.raises(WorkloadError, match=r"frames of several lengths: .* leave clone_skb out"):
            send(FakePktgen(), config(commands, clone_skb=5), frames)
    with pytest.raises(WorkloadError, match="longer than the flow's of 60"):
        send(FakePktgen(), config("imix_weights 60,1 1514,2"))
    with pytest.raises(WorkloadError, match="longer than the flow's of 60"):
        send(FakePktgen(), config("min_pkt_size 61"))


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        (Interface(up=False), "the interface is down; `ip link set eth0 up` first .ENETDOWN"),
        (Interface(ethernet=False), "Ethernet devices and the loopback alone .EINVAL"),
    ],
)
def test_device_that_cannot_be_added_says_what_to_do(interface: Interface, words: str) -> None:
    with pytest.raises(LabError, match=words):
        send(FakePktgen(eth0=interface), CONFIG)
    with pytest.raises(LabError, match=r"no such interface .*ENODEV"):
        send(FakePktgen(eth9=Interface()), CONFIG)


def test_interface_that_is_gone_is_an_error_in_words() -> None:
    with pytest.raises(LabError, match=r"no interface number 2147483647 any more \[ENXIO"):
        PktgenEngine(FakePktgen).run(FLOW, config(ifindex=2**31 - 1), StopFlag(), Progress())


def test_devices_of_somebody_else_are_left_alone_and_named() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_1", b"add_device eth0@hand\n")
    with pytest.raises(RigBusyError, match=r"somebody else has devices on its threads: eth0@hand \(CPU 1\)"):
        send(fake, CONFIG)
    assert list(fake.devices) == ["eth0@hand"]


def test_device_that_a_dead_laboratory_left_is_taken_away_first() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_1", b"add_device eth0@lk0\n")
    assert send(fake, CONFIG).sent == 20_000
    assert nothing_left(fake)


def test_name_that_appears_on_another_thread_meanwhile_is_told() -> None:
    class Racing(FakePktgen):
        def write(self, name: str, text: bytes) -> int:
            if text.startswith(b"add_device"):
                super().write("kpktgend_1", text)
            return super().write(name, text)

    with pytest.raises(LabError, match=r"this name is on one of the threads already; .*EBUSY"):
        send(Racing(), CONFIG)


def test_second_controller_is_refused_while_the_first_one_sends() -> None:
    fake = FakePktgen()
    with fake.held(), pytest.raises(RigBusyError, match="another laboratory sends"):
        send(fake, CONFIG)
    assert send(fake, CONFIG).sent == 20_000


def test_lost_carrier_cuts_the_run_short_and_keeps_its_counts() -> None:
    report = send(FakePktgen(eth0=Interface(loses_carrier_after=700)), CONFIG)
    assert (report.sent, report.ended_by, report.fatal_errno) == (700, "error", None)
    assert "ended by itself after 700 of 20000 frames: the link lost its carrier" in (
        told(report).early or ""
    )


def test_no_frame_and_ok_is_a_link_without_carrier() -> None:
    for asked in (CONFIG, config(count=None, duration_ns=10**9)):
        report = send(FakePktgen(eth0=Interface(carrier=False)), asked)
        assert (report.sent, report.ended_by) == (0, "error")
        assert "no carrier" in (told(report).early or "")


def test_stop_of_somebody_else_is_no_end_by_count_or_duration() -> None:
    fake = FakePktgen()
    fake.after_start.append("stop_of_somebody_else")
    report = send(fake, config(count=None, duration_ns=10**9))
    assert (report.sent, report.ended_by) == (4711, "error")
    assert "somebody stopped it" in (told(report).early or "")


def test_device_that_goes_during_the_run_is_an_error_and_nothing_stays() -> None:
    fake = FakePktgen()
    fake.after_start.append("lose_the_interface")
    with pytest.raises(LabError, match="eth0@lk0: its file is gone; was its interface removed"):
        send(fake, config(count=None, duration_ns=10**9))
    assert nothing_left(fake)


def test_start_that_starts_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pktgen_run, "START_WITHIN_NS", 30_000_000)
    monkeypatch.setattr(pktgen_run, "END_WITHIN_NS", 30_000_000)
    fake = FakePktgen()
    fake.never_starts = True
    with pytest.raises(LabError, match=r"did not return within|no device started"):
        send(fake, CONFIG)


def test_device_that_does_not_go_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pktgen_run, "GONE_WITHIN_NS", 30_000_000)
    fake = FakePktgen()
    fake.looks_until_gone = 10**9
    with pytest.raises(LabError, match="eth0@lk0 did not go within"):
        send(fake, CONFIG)


def test_workers_run_together_each_on_its_thread_and_queue() -> None:
    fake = FakePktgen(eth0=Interface(queues=2))
    configs = [
        config(cpu=1, queue=0, count=501),
        config(cpu=0, queue=1, count=500),
        config(cpu=0, queue=2, count=0),
    ]
    progresses = [Progress() for _ in configs]
    reports = engine(fake).run_all(FLOW, configs, StopFlag(), progresses)
    assert [report.sent for report in reports] == [501, 500, 0]
    assert [progress.sent for progress in progresses] == [501, 500, 0]
    adds = [(name, line) for name, line in fake.written if line.startswith("add_device")]
    assert adds == [("kpktgend_1", "add_device eth0@lk0"), ("kpktgend_0", "add_device eth0@lk1")]
    assert ("eth0@lk1", "queue_map_max 1") in fake.written
    both = merged(reports)
    assert (both.sent, both.ended_by) == (1001, "count")
    assert both.qdisc_bypass
    assert both.pktgen is not None
    assert [device.name for device in both.pktgen.devices] == ["eth0@lk0", "eth0@lk1"]
    assert both.start_ns == min(report.start_ns for report in reports)


def test_agent_runs_the_workers_of_such_an_engine_from_one_thread() -> None:
    fake, ended = FakePktgen(eth0=Interface(queues=2)), threading.Event()
    configs = [config(cpu=1, count=501), config(cpu=0, queue=1, count=500)]
    assert isinstance(engine(fake), Together)
    assert not isinstance(choose("sendmmsg"), Together)
    senders = Senders(engine(fake), FLOW, configs, ended.set)
    senders.start()
    senders.join()
    assert ended.is_set()
    assert senders.ended
    assert [(worker.cpu, worker.report.sent) for worker in senders.reports()] == [(1, 501), (0, 500)]
    assert (senders.sent, senders.refused) == (1001, 0)


def test_failure_of_such_an_engine_is_raised_by_its_reports() -> None:
    senders = Senders(engine(FakePktgen(eth9=Interface())), FLOW, [config(), config(queue=1)], lambda: None)
    senders.start()
    senders.join()
    assert senders.ended
    with pytest.raises(LabError, match="no such interface"):
        senders.reports()


def test_kernel_without_the_module_says_how_to_get_it(tmp_path: Path) -> None:
    with (
        pytest.raises(
            CapabilityMissingError, match=r"`sudo modprobe pktgen`, or take rig 'vm:e1000e'.*'sim:ixgbe'"
        ),
        ProcFiles(tmp_path).held(),
    ):
        pass


def test_real_folder_is_one_write_a_command_and_held_once(tmp_path: Path) -> None:
    """Held by a name of the network namespace: each process sees /proc/net's files as its own."""
    for name in ("pgctrl", "eth0"):
        (tmp_path / name).write_text("before")
    files = ProcFiles(tmp_path)
    assert (files.names(), files.read("eth0")) == (["eth0", "pgctrl"], "before")
    assert files.write("eth0", b"count 5\n") == 8
    with files.held(), pytest.raises(RigBusyError, match="another laboratory"), ProcFiles(tmp_path).held():
        pass
    with files.held():
        pass


def test_time_of_the_busiest_thread_of_a_name_is_the_senders() -> None:
    """Each network namespace has a thread of the same name."""
    before = {10: Times(5, 1, 1), 11: Times(100, 0, 0), 12: Times(0, 0, 0)}
    after = {10: Times(905, 11, 4), 11: Times(120, 0, 0), 13: Times(10**9, 0, 0)}
    assert busiest(before, after) == Times(900, 10, 3)
    assert busiest({}, after) is None


KERNEL_REFUSALS = [
    ("rate", "0", SettingRefusedError, "the kernel read 1 bytes of it"),
    ("ratep", "0", SettingRefusedError, "0 is no rate"),
    ("dst_mac", "zz", SettingRefusedError, r"'dst_mac zz' was refused \[EINVAL"),
    ("xmit_mode", "nosuch", CapabilityMissingError, "does not know it; it has start_xmit, netif_receive"),
    ("flag", "NOSUCH", CapabilityMissingError, "does not know it; it has .*UDPCSUM"),
    ("xmit_mode", "netif_receive", CapabilityMissingError, "clone_skb is set"),
    ("imix_weights", "60,1", SettingRefusedError, "clone_skb above 0 goes neither with imix_weights"),
    ("spi2", "5", CapabilityMissingError, "does not know it"),
    ("tos", "zz", SettingRefusedError, "kernel: ERROR: tos must be 00-ff"),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("name", "value", "error", "words"), KERNEL_REFUSALS, ids=str)
def test_what_the_kernel_refuses_when_nobody_asked_beforehand(
    kernel: str, name: str, value: str, error: type[LabError], words: str
) -> None:
    fake = FakePktgen(kernel)
    fake.write("kpktgend_0", b"add_device eth0\n")
    fake.write("eth0", b"clone_skb 7\n")
    pktgen = Pktgen(fake)
    command = COMMANDS.get(name) or msgspec.structs.replace(COMMANDS["spi"], name=name, answer=name)
    with pytest.raises(error, match=words) as refused:
        pktgen.ask("eth0", Asked(command, value))
    # an answer to an earlier command is not repeated as if it were the kernel's word on this one
    assert "OK:" not in str(refused.value)
    # a short write is a refusal; the rest is never written
    assert fake.written[-1] == ("eth0", f"{name} {value}")


def test_answer_to_an_earlier_command_is_not_told_as_one_to_this() -> None:
    class Deaf(FakePktgen):
        def write(self, name: str, text: bytes) -> int:
            return len(text) if text.startswith(b"frags") else super().write(name, text)

    fake = Deaf()
    fake.write("kpktgend_0", b"add_device eth0\n")
    fake.write("eth0", b"count 5\n")
    with pytest.raises(SettingRefusedError, match="'frags 3' was not taken") as refused:
        Pktgen(fake).ask("eth0", ask("frags", 3))
    assert refused.value.kernel_text is None


def test_shared_buffers_are_not_given_up_while_clones_are_sent() -> None:
    with pytest.raises(SettingRefusedError, match="buffers that are not shared are sent once"):
        send(FakePktgen("6.12"), config("flag !SHARED"))
    assert send(FakePktgen("6.12"), config("flag !SHARED", clone_skb=0)).sent == 20_000


def test_sizes_that_the_kernel_has_no_room_for_are_refused_by_its_errno() -> None:
    fake = FakePktgen()
    fake.write("kpktgend_0", b"add_device eth0\n")
    with pytest.raises(WorkloadError, match=r"no room for so many \[E2BIG"):
        Pktgen(fake).ask("eth0", ask("imix_weights", " ".join(["60,1"] * 21)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_clamped_burst_is_told(kernel: str) -> None:
    fake = FakePktgen(kernel)
    fake.write("kpktgend_0", b"add_device eth0\n")
    pktgen = Pktgen(fake)
    assert pktgen.ask("eth0", ask("burst", 0)) == "1"
    assert pktgen.ask("eth0", ask("pkt_size", 10)) == "42"
    assert pktgen.ask("eth0", ask("imix_weights", "10,1")) == "42,1"
    assert pktgen.ask("eth0", ask("dst_mac", "02:00:00:00:00:AB")) is None
