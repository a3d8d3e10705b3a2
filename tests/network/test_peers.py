"""Other packet generators on the veth rig: what each sends is counted, and nothing of them stays."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.analysis.sink_rate import sink_rate
from labkit.engines.choose import peers
from labkit.engines.peer_process import PROGRAMS
from labkit.errors import AgentLostError, CapabilityMissingError, LabError
from labkit.factors import PROGRAM_NAMES, STREAM_NAMES
from labkit.records import Sample, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow
from tests.network.test_veth_faults import agent_pid, at_peer, wait_until

pytestmark = pytest.mark.network
# a stream sends no frames of the flow: test_engine_tcp.py
NAMES = [peer.name for peer in peers() if peer.name not in STREAM_NAMES]
PATIENCE_S = 20.0
ONE = udp_flow(60, 1)
ETH_P_ALL = 3
KEEPER = "labkit.engines.peer_child"


@functools.cache
def absent(name: str) -> bool:
    return name in PROGRAM_NAMES and name != "sendp" and shutil.which(name, path=PROGRAMS) is None


def installed(name: str) -> None:
    if absent(name):
        pytest.skip(f"no {name}: make system-packages")


def needed(name: str) -> dict[str, bool]:
    """What `name` wants of the rig: live frames reach a peer with a NAPI only, and take root."""
    if name != "bare_xdp_live":
        return {}
    if os.geteuid() != 0:
        pytest.skip("live frames need root")
    return {"gro": True}


def keepers() -> set[int]:
    """Keepers below this process."""
    return {
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and KEEPER in command_of(process) and is_ours(int(process.name))
    }


def is_ours(pid: int) -> bool:
    """Whether this process is the parent of the parent, an agent."""
    return parent_of(parent_of(pid)) == os.getpid()


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def command_of(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "cmdline").read_text()
    return ""


def group_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return None


def group(leader: int) -> set[int]:
    every = (int(process.name) for process in Path("/proc").iterdir() if process.name.isdigit())
    return {pid for pid in every if group_of(pid) == leader}


@pytest.fixture(scope="module", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where agents of this module keep what is temporary."""
    folder = tmp_path_factory.mktemp("peers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def rig(scratch: Path) -> Iterator[VethRig]:
    with VethRig() as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_stays(scratch: Path) -> Iterator[None]:
    yield
    assert (keepers(), list(scratch.iterdir())) == (set(), [])


@pytest.mark.parametrize("name", NAMES)
def test_peer_is_counted_at_device_and_peer_and_counts_nothing_itself(rig: VethRig, name: str) -> None:
    installed(name)
    with rig.applied(needed(name)):
        trial = rig.run(Workload(ONE, name), duration_s=0.6, sample_every_ns=30_000_000)
    assert trial.device_sent
    assert trial.pps
    assert trial.peer_received
    assert (trial.engine_sent, trial.engine_refused, trial.partial_returns) == (None, None, None)
    assert trial.difference_reason is not None
    assert "cannot count what it sent" in trial.difference_reason
    assert {sample.engine_sent for sample in trial.samples} == {None}
    assert sink_rate(trial.samples, "peer_received")
    assert (trial.elapsed_ns or 0) >= 0.6e9
    assert trial.environment["ended_by"] == "duration"
    assert (trial.batch is None) is (name in PROGRAM_NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "iperf3"])
def test_every_frame_of_a_peer_arrives(rig: VethRig, name: str) -> None:
    installed(name)
    with rig.applied(needed(name)):
        trial = rig.run(Workload(ONE, name), duration_s=0.2)
    assert trial.reconciled is True
    assert trial.device_sent == trial.peer_received


def test_iperf3_s_greeting_alone_reaches_its_server(rig: VethRig) -> None:
    installed("iperf3")
    trial = rig.run(Workload(ONE, "iperf3"), duration_s=0.5)
    assert trial.device_sent is not None
    assert trial.peer_received is not None
    assert 0 < trial.device_sent - trial.peer_received < trial.device_sent / 2


@pytest.mark.parametrize("name", ["trafgen", "tcpreplay", "sendp"])
def test_asked_count_is_what_leaves(rig: VethRig, name: str) -> None:
    installed(name)
    trial = rig.run(Workload(udp_flow(60, 3), name), duration_s=20, count=1001)
    assert (trial.device_sent, trial.peer_received) == (1001, 1001)
    assert trial.environment["ended_by"] == "count"


@pytest.mark.parametrize("name", ["trafgen", "tcpreplay", "sendp", "bare_sendmmsg", "bare_gso", "iperf3"])
def test_frames_have_the_length_of_the_flow(rig: VethRig, name: str) -> None:
    installed(name)
    with at_peer(rig) as ip:
        before = received(ip)
        trial = rig.run(Workload(udp_flow(90, 1), name), duration_s=0.2)
        packets, octets = (after - early for after, early in zip(received(ip), before, strict=True))
    assert packets == trial.device_sent
    # iperf3's greeting has frames of other lengths
    assert octets / packets == pytest.approx(90, abs=0.5 if name == "iperf3" else 0)


@pytest.mark.parametrize("name", ["trafgen", "tcpreplay", "sendp"])
def test_frames_arrive_byte_for_byte_in_the_order_of_the_flow(rig: VethRig, name: str) -> None:
    installed(name)
    flow = udp_flow(60, 3)
    with at_peer(rig), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
        tap.bind(("veth1", ETH_P_ALL))
        tap.settimeout(PATIENCE_S)
        rig.run(Workload(flow, name), duration_s=20, count=7)
        seen = [tap.recv(2048) for _ in range(7)]
    table = flow.table()
    assert seen == [table.frame(number % 3) for number in range(7)]


@pytest.mark.parametrize("name", ["bare_sendmmsg", "bare_tx_ring"])
def test_bare_loop_sends_the_frame_of_the_flow(rig: VethRig, name: str) -> None:
    with at_peer(rig), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
        tap.bind(("veth1", ETH_P_ALL))
        tap.settimeout(PATIENCE_S)
        rig.run(Workload(ONE, name), duration_s=0.1)
        assert {tap.recv(2048) for _ in range(10)} == {ONE.table().frame(0)}


@pytest.mark.parametrize("name", ["bare_sendmmsg", "bare_gso"])
def test_bare_loop_goes_on_when_the_device_is_full(name: str) -> None:
    with VethRig(peer="napi-threaded", qdisc="pfifo", qdisc_limit=10) as full:
        trial = full.run(Workload(ONE, name), duration_s=0.3)
    assert trial.environment["ended_by"] == "duration"
    assert trial.device_sent
    assert trial.qdisc_dropped


def received(ip: IPRoute) -> tuple[int, int]:
    """Packets and bytes that the receiving end's device counted."""
    counts = ip.get_links(ip.link_lookup(ifname="veth1")[0])[0].get("stats64")
    return int(counts["rx_packets"]), int(counts["rx_bytes"])


NONE_INTO_IFB = {"iperf3": "sink 'stack'", "bare_xdp_live": "an ifb device takes no frames of an XDP program"}


@pytest.mark.parametrize("name", NAMES)
def test_peer_sends_into_ifb_or_says_why_not(name: str) -> None:
    installed(name)
    needed(name)
    with VethRig(sink="ifb") as rig:
        if name in NONE_INTO_IFB:
            with pytest.raises(CapabilityMissingError, match=NONE_INTO_IFB[name]):
                rig.run(Workload(ONE, name), duration_s=0.1)
        else:
            assert rig.run(Workload(ONE, name), duration_s=0.1).device_sent


@pytest.mark.parametrize("name", NAMES)
def test_stop_ends_a_peer(rig: VethRig, name: str) -> None:
    installed(name)
    started = time.monotonic()

    def stop(_: Sample) -> None:
        rig.stop()

    with rig.applied(needed(name)):
        trial = rig.run(Workload(ONE, name), duration_s=60, on_sample=stop)
    assert trial.environment["ended_by"] == "stop"
    assert time.monotonic() - started < PATIENCE_S


def test_peer_that_cannot_send_says_its_last_words(rig: VethRig) -> None:
    with pytest.raises(LabError, match=r"bare_tx_ring ended by itself.*frame: at most 96 bytes"):
        rig.run(Workload(udp_flow(200, 1), "bare_tx_ring"), duration_s=0.1)
    assert rig.run(Workload(ONE, "sendmmsg"), count=5).device_sent == 5


@pytest.mark.parametrize("name", ["trafgen", "iperf3", "bare_sendmmsg"])
def test_killed_agent_takes_its_peer_along(name: str, scratch: Path) -> None:
    installed(name)
    kept: list[set[int]] = []

    def kill(_: Sample) -> None:
        kept.extend(map(group, keepers()))
        os.kill(agent_pid(opened), signal.SIGKILL)

    with VethRig() as opened, pytest.raises(AgentLostError):
        opened.run(Workload(ONE, name), duration_s=60, on_sample=kill)
    assert kept
    members = set().union(*kept)
    wait_until(lambda: not any(group_of(pid) for pid in members), f"{name} outlives its agent")
    wait_until(lambda: not any(scratch.iterdir()), "the program's folder outlives its agent")


@pytest.mark.parametrize("name", ["trafgen", "iperf3", "bare_sendmmsg"])
def test_program_whose_keeper_is_killed_ends_with_the_run(rig: VethRig, name: str) -> None:
    installed(name)
    kept: set[int] = set()

    def kill(_: Sample) -> None:
        for keeper in keepers():
            kept.update(group(keeper))
            os.kill(keeper, signal.SIGKILL)

    with pytest.raises(LabError, match="ended by itself"):
        rig.run(Workload(ONE, name), duration_s=60, on_sample=kill)
    assert len(kept) > 1
    wait_until(lambda: not any(group_of(pid) for pid in kept), f"{name} outlives its keeper")
    assert rig.run(Workload(ONE, "sendmmsg"), count=5).device_sent == 5


def kept(*command: str) -> subprocess.Popen[bytes]:
    """A keeper of `command`, as the agent starts it."""
    words = [sys.executable, "-I", "-m", KEEPER, ",".join(map(str, os.sched_getaffinity(0))), *command]
    return subprocess.Popen(
        words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, cwd="/"
    )


def ends(keeper: subprocess.Popen[bytes], *, wanted: bool = False) -> tuple[int, str]:
    """Its exit code and last words; unless `wanted` it is told to end."""
    if wanted:
        keeper.wait(PATIENCE_S)
    _, said = keeper.communicate(timeout=PATIENCE_S)
    return keeper.returncode, said.decode()


def told(keeper: subprocess.Popen[bytes], word: str) -> None:
    """Wait until `word` came on standard error."""
    assert keeper.stderr is not None
    said = ""
    while word not in said and select.select([keeper.stderr], [], [], PATIENCE_S)[0]:
        said += os.read(keeper.stderr.fileno(), 100).decode()
    assert word in said


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_keeper_ends_as_its_program_does(command: str, code: int) -> None:
    assert ends(kept("sh", "-c", command), wanted=True)[0] == code


def test_keeper_says_what_cannot_be_started() -> None:
    code, said = ends(kept("/nowhere/to/be/found"), wanted=True)
    assert code == 127
    assert "/nowhere/to/be/found: No such file or directory" in said


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("trap 'exit 5' TERM; echo ready >&2; while :; do sleep 0.01; done", 5),
        ("trap '' TERM; sleep 300 & echo ready >&2; wait; sleep 300", -signal.SIGKILL),
    ],
    ids=["asked", "forced"],
)
def test_unwanted_program_ends_with_all_that_it_forked(program: str, code: int) -> None:
    keeper = kept("sh", "-c", program)
    told(keeper, "ready")
    members = group(keeper.pid)
    assert len(members) >= 2
    assert ends(keeper)[0] == code
    wait_until(lambda: not any(group_of(pid) == keeper.pid for pid in members), "something is left of it")


def test_two_rigs_run_peers_side_by_side() -> None:
    installed("iperf3")
    found: list[int | None] = []

    def run() -> None:
        with VethRig() as rig:
            found.append(rig.run(Workload(ONE, "iperf3"), duration_s=0.3).device_sent)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([sent for sent in found if sent]) == 2


def test_labkit_bench_compares_and_names_what_is_absent() -> None:
    installed("trafgen")
    command = [Path(sys.executable).with_name("labkit"), "bench", "--pairs", "1", "--duration", "0.3"]
    done = subprocess.run(
        [*command, "--engine", "sendmmsg", "--against", "bare_sendmmsg,iperf3", "--sink", "ifb", "--json"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert "sendmmsg / iperf3, sink ifb: iperf3: needs a server" in done.stderr
    assert done.stdout.startswith("[")
