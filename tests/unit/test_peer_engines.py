"""Other packet generators as engines: their command lines, what they are not asked, what is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labkit._native import Progress, StopFlag
from labkit.agent.protocol import Run
from labkit.agent.runner import run_once
from labkit.engines import peer_commands as commands
from labkit.engines import peer_process, peers
from labkit.engines.base import EngineConfig
from labkit.engines.choose import choose
from labkit.engines.choose import peers as all_peers
from labkit.engines.iperf3 import FarEnd
from labkit.engines.peer_process import Child, follow
from labkit.errors import CapabilityMissingError, LabError, WorkloadError
from labkit.factors import PEER_NAMES, PROGRAM_NAMES
from labkit.linux.processes import Times, members_of_group, times_of
from labkit.linux.sockets import listens
from labkit.records import Workload
from labkit.rigs.catalog import DEVICE, VETH, check_engine, check_workload
from labkit.traffic.pcap import read_pcap
from labkit.traffic.table import FrameTable
from tests.sweep_fakes import Flow

FRAME = bytes.fromhex("020000000002020000000001080045") + bytes(45)
ONE = FrameTable.of([FRAME])
CONFIG = EngineConfig(ifindex=1, batch=1, duration_ns=1, cpu=0)
NAMES = [peer.name for peer in all_peers()]


def config(name: str, **more: Any) -> EngineConfig:
    values = {"ifindex": 1, "batch": choose(name).default_batch, "duration_ns": 1, "cpu": 0}
    return EngineConfig(**{**values, **more})


def test_peers_are_known_names_and_engines_of_the_veth_rig_alone() -> None:
    assert set(NAMES) <= set(PEER_NAMES)
    assert set(NAMES) <= set(VETH.engines)
    for name in NAMES:
        with pytest.raises(CapabilityMissingError, match="try rig 'veth'"):
            check_engine(DEVICE, name)


@pytest.mark.parametrize("name", NAMES)
def test_agent_runs_no_other_program_beside_a_device_of_the_machine(name: str) -> None:
    """Not even when it is asked by somebody else than labkit: it may be root there."""
    request = Run(
        engine=name, sink="wire", config=config(name), workers=1, sample_every_ns=1_000_000, peer_counters=[]
    )
    unused: Any = SimpleNamespace(private=False)
    with pytest.raises(CapabilityMissingError, match=f"{name}: other programs.*take rig 'veth'"):
        run_once(unused, unused, ONE, request, unused)


def test_trafgen_sends_on_the_asked_cpu_alone() -> None:
    command = commands.trafgen("/x/trafgen", "veth0", "/y/frames.cfg", 2, None)
    assert command[:7] == ["/x/trafgen", "--dev", "veth0", "--conf", "/y/frames.cfg", "--cpus", "3"]
    assert "--qdisc-path" not in command
    assert "--num" not in command
    assert commands.trafgen("t", "veth0", "f", 0, 7)[-2:] == ["--num", "7"]
    written = commands.trafgen_config(FrameTable.of([b"\x02\xff", b"\x00"]), 2)
    assert written == "cpu(2): { 0x02, 0xff }\ncpu(2): { 0x00 }\n"


def test_tcpreplay_replays_from_memory_without_end() -> None:
    command = commands.tcpreplay("/x/tcpreplay", "veth0", "/y/frames.pcap", None)
    assert command[1:] == ["--intf1=veth0", "--preload-pcap", "--topspeed", "--loop=0", "/y/frames.pcap"]
    assert "--limit=9" in commands.tcpreplay("t", "veth0", "f", 9)


@pytest.mark.parametrize("frames", [1, 3, 1024, 1500])
def test_replayed_frames_are_whole_rounds_of_the_flow(frames: int) -> None:
    once = [bytes([number % 256]) * 60 for number in range(frames)]
    again = commands.replayed(FrameTable.of(once))
    assert len(again) >= commands.MIN_REPLAYED
    assert again == once * (len(again) // frames)


def test_iperf3_sends_the_payload_of_the_frame_without_pacing() -> None:
    command = commands.iperf3_client("i", "192.0.2.2", 18)
    assert command[command.index("--bitrate") + 1] == "0"
    assert command[command.index("--length") + 1] == "18"
    assert "--udp" in command


def test_sendp_is_a_constant_program_in_an_interpreter_of_its_own() -> None:
    assert commands.sendp("veth0", "/y/f.pcap", 5) == [
        *(sys.executable, "-I", "-c", commands.SENDP),
        *("veth0", "/y/f.pcap", "5"),
    ]
    compile(commands.SENDP, "sendp", "exec")


def test_bare_loop_is_given_its_frame() -> None:
    command = commands.bare("/x/bare_gso", 4, 1, 64, FRAME)
    assert command == ["/x/bare_gso", "4", "1", "64", "86400000", "60", FRAME.hex()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "asked",
    [{"rate_pps": 1e3}, {"stamp": True}, {"realtime_priority": 5}, {"ring_frames": 64}],
    ids=lambda asked: next(iter(asked)),
)
def test_what_no_peer_is_asked_is_refused_by_name(name: str, asked: dict[str, Any]) -> None:
    what = "rate" if "rate_pps" in asked else next(iter(asked))
    with pytest.raises(WorkloadError, match=f"{name}: {what}"):
        choose(name).check(ONE, config(name, **asked))


def test_only_trafgen_bypasses_the_qdisc() -> None:
    choose("trafgen").check(ONE, config("trafgen", qdisc_bypass=True))
    with pytest.raises(WorkloadError, match="tcpreplay: qdisc_bypass"):
        choose("tcpreplay").check(ONE, config("tcpreplay", qdisc_bypass=True))


@pytest.mark.parametrize("name", ["iperf3", *(name for name in NAMES if name.startswith("bare_"))])
def test_what_sends_one_frame_takes_one_frame_and_no_count(name: str) -> None:
    with pytest.raises(WorkloadError, match="flows=1"):
        choose(name).check(FrameTable.of([FRAME, FRAME]), config(name))
    with pytest.raises(WorkloadError, match="duration"):
        choose(name).check(ONE, config(name, count=5))


@pytest.mark.parametrize(("name", "package"), [("trafgen", "netsniff-ng"), ("tcpreplay", "tcpreplay")])
def test_program_that_is_not_installed_names_its_debian_package(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "PROGRAMS", str(tmp_path))
    with pytest.raises(CapabilityMissingError, match=f"{name}: not installed.*apt-get install {package}$"):
        choose(name).run(ONE, CONFIG, StopFlag(), Progress())


def test_iperf3_without_a_far_end_says_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "iperf3").touch(mode=0o755)
    monkeypatch.setattr(peers, "PROGRAMS", str(tmp_path))
    with pytest.raises(CapabilityMissingError, match="rig 'veth' with sink 'stack'"):
        choose("iperf3").run(ONE, CONFIG, StopFlag(), Progress())


def test_no_program_is_asked_for_no_frame() -> None:
    """Trafgen takes 0 for no limit."""
    report = choose("trafgen").run(ONE, config("trafgen", count=0), StopFlag(), Progress())
    assert (report.sent, report.ended_by, report.elapsed_ns) == (None, "count", 0)


def test_peer_on_several_cpus_is_refused() -> None:
    with pytest.raises(CapabilityMissingError, match="on one CPU, not on 2"):
        check_workload(VETH, Workload(Flow(), "trafgen", cpus=2))


def test_missing_bare_loop_says_how_to_build_it() -> None:
    with pytest.raises(CapabilityMissingError, match="make setup"):
        peers.bare_program("bare_nothing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("1 0 0 1 60", "batch"),
        ("1 0 1 1 42", "frame: 43 to 9216"),
        ("1 0 1 1 60 00", "two digits a byte"),
        ("1 0", "IFINDEX"),
    ],
)
def test_bare_loop_refuses_in_words(arguments: str, words: str) -> None:
    command = [peers.bare_program("bare_sendmmsg"), *arguments.split()]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert words in done.stderr


class FakeChild:
    """Ends after so many looks, with an exit code."""

    def __init__(self, looks: int, code: int = 0) -> None:
        self._left, self._code, self.asked = looks, code, False

    def ended_within(self, seconds: float) -> bool:
        self._left -= 1
        return self.asked or self._left < 0

    def ask_to_end(self) -> None:
        self.asked = True

    def members(self) -> list[int]:
        return []

    def check_end(self, *, wanted: bool) -> None:
        if not wanted or self._code:
            raise self.failure(f"ended by itself (exit {self._code})")

    def failure(self, what: str) -> LabError:
        return LabError(f"fake {what}")


def counting(*counts: int) -> Callable[[], int]:
    """Those counts one look after the other, the last one for good."""
    left = list(counts)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def ran(child: FakeChild, counted: Callable[[], int], stop: StopFlag | None = None, **asked: Any) -> Any:
    more = {"duration_ns": 10**9, **asked}
    return follow(
        cast("Child", child), counted, EngineConfig(ifindex=1, batch=1, cpu=0, **more), stop or StopFlag()
    )


def test_run_begins_with_the_first_frame_and_lasts_as_asked() -> None:
    course = ran(FakeChild(10**6), counting(5, 5, 5, 5, 6, 9), duration_ns=1)
    assert course.ended_by == "duration"
    assert course.times == Times(0, 0, 0)
    assert 0 < course.end_ns - course.start_ns < 10**10


def test_end_of_a_counted_run_is_the_programs_own() -> None:
    assert ran(FakeChild(3), counting(0, 0, 9), count=9).ended_by == "count"


def test_count_that_was_sent_between_two_looks_is_sent() -> None:
    assert ran(FakeChild(0), counting(0, 0, 9), count=9).ended_by == "count"


@pytest.mark.parametrize(("code", "count"), [(0, None), (1, None), (1, 9)])
def test_program_that_ends_early_is_an_error(code: int, count: int | None) -> None:
    with pytest.raises(LabError, match=re.escape(f"fake ended by itself (exit {code})")):
        ran(FakeChild(3, code), counting(0, 0, 9), count=count)


def test_program_that_never_sends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_process, "START_WITHIN_NS", 0)
    with pytest.raises(LabError, match="sent no frame"):
        ran(FakeChild(10**6), counting(7))


@pytest.mark.parametrize("counts", [(0,), (0, 0, 9)], ids=["before the first frame", "in the middle"])
def test_stop_ends_the_program(counts: tuple[int, ...]) -> None:
    stop, child = StopFlag(), FakeChild(10**6)
    stop.set()
    assert ran(child, counting(*counts), stop).ended_by == "stop"


def test_far_end_reaches_iperf3_alone() -> None:
    from labkit.engines.choose import placed

    far = FarEnd(network=3, ifindex=4)
    assert placed(choose("iperf3"), far) is not choose("iperf3")
    send = choose("send")
    assert placed(send, far) is send


def test_capture_for_a_peer_holds_the_frames_of_the_flow() -> None:
    from labkit.traffic.pcap import pcap_bytes

    frames = FrameTable.of([FRAME, FRAME[::-1]])
    held = read_pcap(pcap_bytes(FrameTable.of(commands.replayed(frames))))
    assert [held.frame(index) for index in range(2)] == [FRAME, FRAME[::-1]]


def process(proc: Path, pid: int, group: int, schedstat: str) -> None:
    task = proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (odd ) name) S 1 {group} {group} 0")
    (task / "schedstat").write_text(schedstat)
    (task / "status").write_text("Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n")


def test_group_and_times_of_processes_are_read(tmp_path: Path) -> None:
    process(tmp_path, 10, 10, "100 20 3\n")
    process(tmp_path, 11, 10, "1 2 3\n")
    process(tmp_path, 12, 12, "1 2 3\n")
    assert sorted(members_of_group(10, tmp_path)) == [10, 11]
    assert times_of([10, 11, 99], tmp_path) == {10: Times(100, 20, 4), 11: Times(1, 2, 4)}


def test_kernel_without_schedstat_tells_no_times(tmp_path: Path) -> None:
    process(tmp_path, 10, 10, "")
    assert times_of([10], tmp_path) == {}


def test_listening_socket_is_seen(tmp_path: Path) -> None:
    table = tmp_path / "thread-self/net"
    table.mkdir(parents=True)
    head = "  sl  local_address rem_address   st tx_queue\n"
    (table / "tcp").write_text(f"{head}   0: 0202C0C0:1451 00000000:0000 0A 0:0\n   1: 00:1452 00:0 01 0:0\n")
    assert listens(5201, tmp_path)
    assert not listens(5202, tmp_path)


def test_program_stands_in_its_own_folder_where_it_may_write(tmp_path: Path) -> None:
    with (
        Child("stander", ["/bin/sh", "-c", "pwd >&2; : > scratch; exit 1"], [0], tmp_path) as child,
        pytest.raises(LabError, match=re.escape(f"its last words: {tmp_path}")),
    ):
        child.check_end(wanted=True)
    assert (tmp_path / "scratch").exists()


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_batch_of_a_program_is_its_own_affair(name: str) -> None:
    with pytest.raises(WorkloadError, match=f"{name}: batch: this program runs here in its own way"):
        choose(name).check(ONE, config(name, batch=4))


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_cpu_that_is_not_allowed_is_refused_with_those_that_are(name: str) -> None:
    asked = config(name, cpu=4095)
    frames = FrameTable.of([bytes(60)])
    with pytest.raises(WorkloadError, match=f"{name}: CPU 4095 is not allowed here; allowed: [0-9]"):
        choose(name).run(frames, asked, StopFlag(), Progress())
