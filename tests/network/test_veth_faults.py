"""Planted faults: lost frames, a shared CPU, a killed notebook. Each is tried once, and often in soak."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.agent import launch
from labkit.linux import namespaces
from labkit.records import Sample, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow

pytestmark = pytest.mark.network
SENDMMSG = Workload(flow=udp_flow(frame_bytes=60, flows=16), engine="sendmmsg")
PATIENCE_S = 10.0

NOTEBOOK = """
import sys
from labkit.records import Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow
rig = VethRig()
print(rig._client._process.pid, flush=True)
workload = Workload(flow=udp_flow(frame_bytes=60, flows=16), engine="sendmmsg")
rig.run(workload, duration_s=60, on_sample=lambda sample: print("sample", flush=True))
"""


def agent_pid(rig: VethRig) -> int:
    process = rig._client._process
    assert isinstance(process, launch.AgentProcess)
    return process.pid


def session_of(agent: int) -> list[int]:
    """Processes of the agent's session; a namespace lives only as long as a process or a mount holds it."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(int(process.name)) == agent:
                    found.append(int(process.name))
    return found


def pinned_namespaces() -> list[str]:
    """Namespaces that a mount keeps alive without any process."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " nsfs " in line]


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@contextlib.contextmanager
def at_peer(rig: VethRig) -> Iterator[IPRoute]:
    """Netlink in the namespace of the rig's receiving end."""
    pid = agent_pid(rig)
    own = os.readlink(f"/proc/{pid}/ns/net")
    peers = [entry for entry in Path(f"/proc/{pid}/fd").iterdir() if _other_network(entry, own)]
    descriptor = os.open(peers[0], os.O_RDONLY)
    try:
        with namespaces.inside(descriptor), IPRoute() as ip:
            yield ip
    finally:
        os.close(descriptor)


def swallow_at_peer(rig: VethRig) -> None:
    """Hand the peer's frames to a bridge without ports: they vanish uncounted."""
    with at_peer(rig) as ip:
        ip.link("add", ifname="br0", kind="bridge")
        bridge = ip.link_lookup(ifname="br0")[0]
        ip.link("set", index=bridge, state="up")
        ip.link("set", index=ip.link_lookup(ifname="veth1")[0], master=bridge)


def blink_peer(rig: VethRig) -> None:
    """Take the peer down and up again."""
    with at_peer(rig) as ip:
        for state in ("down", "up"):
            ip.link("set", ifname="veth1", state=state)


def lower_mtu(rig: VethRig) -> None:
    """Let the sending end carry 100 bytes a packet."""
    descriptor = os.open(f"/proc/{agent_pid(rig)}/ns/net", os.O_RDONLY)
    try:
        with namespaces.inside(descriptor), IPRoute() as ip:
            ip.link("set", ifname="veth0", mtu=100)
    finally:
        os.close(descriptor)


def _other_network(entry: Path, own: str) -> bool:
    name = os.readlink(entry)
    return name.startswith("net:") and name != own


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() != 0, reason="entering the agent's namespaces from outside needs root")
def test_mtu_lowered_during_a_run_of_a_ring_does_not_flood_the_kernel_log() -> None:
    workload = Workload(flow=udp_flow(frame_bytes=200, flows=1), engine="tx_ring")
    with VethRig() as rig:
        trial = rig.run(workload, duration_s=0.5, on_sample=lambda _: lower_mtu(rig))
    assert trial.refused_by_errno["EMSGSIZE"] > 100
    assert len(trial.environment["kernel_warnings"]) < 10


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() != 0, reason="entering the agent's namespaces from outside needs root")
def test_frames_that_vanish_between_device_and_peer_come_out_unreconciled() -> None:
    with VethRig() as rig:
        swallow_at_peer(rig)
        trial = rig.run(SENDMMSG, count=1000)
        assert trial.device_sent == 1000
        assert trial.peer_received == 0
        assert trial.reconciled is False
        assert trial.difference_reason == "1000 vanished between device and peer"


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() != 0, reason="entering the agent's namespaces from outside needs root")
def test_frames_that_vanish_from_mid_run_on_come_out_unreconciled() -> None:
    planted: list[Sample] = []

    def plant_once(sample: Sample) -> None:
        if not planted:
            swallow_at_peer(rig)
        planted.append(sample)

    with VethRig() as rig:
        trial = rig.run(SENDMMSG, duration_s=0.6, on_sample=plant_once)
    assert trial.reconciled is False
    assert trial.peer_received is not None
    assert trial.device_sent is not None
    assert 0 < trial.peer_received < trial.device_sent
    assert f"{trial.device_sent - trial.peer_received} vanished" in str(trial.difference_reason)


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() != 0, reason="entering the agent's namespaces from outside needs root")
def test_peer_that_was_down_for_a_moment_marks_the_run() -> None:
    blinked: list[Sample] = []

    def blink_once(sample: Sample) -> None:
        if not blinked:
            blink_peer(rig)
        blinked.append(sample)

    with VethRig() as rig:
        trial = rig.run(SENDMMSG, duration_s=0.6, on_sample=blink_once)
    assert "no-carrier" in trial.marks
    assert trial.limiter == "carrier"


def spin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pass


@contextlib.contextmanager
def spinner(cpu: int) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=spin, args=(cpu,), daemon=True)
    process.start()
    try:
        wait_until(lambda: os.sched_getaffinity(process.pid or 0) == {cpu}, "the spinner did not start")
        yield
    finally:
        process.kill()
        process.join()


def shared_cpu_is_marked(rig: VethRig) -> bool:
    cpu = max(os.sched_getaffinity(0))
    with spinner(cpu):
        return "cpu-shared" in rig.run(SENDMMSG, duration_s=0.3).marks


def test_spinner_on_the_same_cpu_is_noticed() -> None:
    with VethRig() as rig:
        assert shared_cpu_is_marked(rig)


def test_agent_that_stood_still_beyond_the_runs_end_is_noticed() -> None:
    thaws: list[threading.Timer] = []

    def freeze(_: Sample) -> None:
        if not thaws:
            thaws.append(threading.Timer(0.5, os.kill, (agent_pid(rig), signal.SIGCONT)))
            os.kill(agent_pid(rig), signal.SIGSTOP)
            thaws[0].start()

    with VethRig() as rig:
        trial = rig.run(SENDMMSG, duration_s=0.3, on_sample=freeze)
    assert trial.reconciled is True
    assert "cpu-shared" in trial.marks


def test_agent_that_stood_still_within_the_run_is_noticed() -> None:
    thaws: list[threading.Timer] = []

    def freeze(_: Sample) -> None:
        if not thaws:
            thaws.append(threading.Timer(0.8, os.kill, (agent_pid(rig), signal.SIGCONT)))
            os.kill(agent_pid(rig), signal.SIGSTOP)
            thaws[0].start()

    with VethRig() as rig:
        trial = rig.run(SENDMMSG, duration_s=1.5, on_sample=freeze)
    assert trial.reconciled is True
    assert "frozen" in trial.marks


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_spinner_on_the_same_cpu_is_noticed_20_of_20() -> None:
    with VethRig() as rig:
        assert [shared_cpu_is_marked(rig) for _ in range(20)] == [True] * 20


def killed_notebook_leaves_nothing(number: signal.Signals) -> None:
    notebook = subprocess.Popen([sys.executable, "-c", NOTEBOOK], stdout=subprocess.PIPE, text=True)
    try:
        assert notebook.stdout is not None
        agent = int(notebook.stdout.readline())
        assert notebook.stdout.readline() == "sample\n"
        assert session_of(agent) == [agent]
        pinned = pinned_namespaces()
        notebook.send_signal(number)
        notebook.wait(timeout=PATIENCE_S)
        wait_until(lambda: session_of(agent) == [], f"agent {agent} outlived its notebook")
        assert pinned_namespaces() == pinned
    finally:
        notebook.kill()
        notebook.wait()
        if notebook.stdout is not None:
            notebook.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_notebook_leaves_no_process_and_no_namespace(number: signal.Signals) -> None:
    killed_notebook_leaves_nothing(number)


FORKED = NOTEBOOK.replace(
    "workload =", "import os, time\nif os.fork() == 0: time.sleep(60)\nworkload =", 1
).replace("60, on_sample", "1, on_sample")


def test_process_that_the_notebook_forked_does_not_keep_the_agent_alive() -> None:
    notebook = subprocess.Popen(
        [sys.executable, "-c", FORKED], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert notebook.stdout is not None
        agent = int(notebook.stdout.readline())
        assert notebook.stdout.readline() == "sample\n"
        notebook.kill()
        notebook.wait(timeout=PATIENCE_S)
        wait_until(lambda: session_of(agent) == [], f"agent {agent} outlived its notebook")
    finally:
        os.killpg(notebook.pid, signal.SIGKILL)
        if notebook.stdout is not None:
            notebook.stdout.close()


def test_forked_process_does_not_delay_the_end_of_the_agent() -> None:
    context = multiprocessing.get_context("fork")
    release = context.Event()
    with VethRig() as rig:
        agent = agent_pid(rig)
        child = context.Process(target=release.wait, daemon=True)
        child.start()
    try:
        # ended of its own accord, not killed after a wait for the end of a stream that the child keeps open
        assert rig._client._process.how_it_ended() == "exit status 0"
        assert session_of(agent) == []
    finally:
        release.set()
        child.join()


def test_dropped_rig_ends_its_agent() -> None:
    rig = VethRig()
    agent = agent_pid(rig)
    del rig
    gc.collect()
    wait_until(lambda: session_of(agent) == [], f"agent {agent} outlived its rig")


def test_rig_works_beside_more_than_1024_open_files() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2048:
        pytest.skip("this user may not open 2048 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2048), before[1]))
    held: list[int] = []
    try:
        held += [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        with VethRig() as rig:
            assert rig.run(SENDMMSG, count=5).device_sent == 5
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("times", [1, 2])
def test_interrupted_run_leaves_settings_as_they_were_and_the_rig_usable(times: int) -> None:
    left = [times]

    def interrupt(_: Sample) -> None:
        left[0] -= 1
        if left[0] >= 0:
            signal.raise_signal(signal.SIGINT)

    with VethRig() as rig:
        with pytest.raises(KeyboardInterrupt), rig.applied({"mtu": 1400}):
            rig.run(SENDMMSG, duration_s=30, on_sample=interrupt)
        trial = rig.run(SENDMMSG, count=10)
        assert (trial.device_sent, trial.settings_accepted["mtu"]) == (10, 1500)
        assert rig._client.look("stack").link.mtu == 1500


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_20_killed_notebooks_leave_nothing() -> None:
    for _ in range(20):
        killed_notebook_leaves_nothing(signal.SIGKILL)


def killed_agent_leaves_nothing() -> None:
    with VethRig() as rig:
        agent = agent_pid(rig)
        pinned = pinned_namespaces()
        os.kill(agent, signal.SIGKILL)
    wait_until(lambda: session_of(agent) == [], "a killed agent stays")
    assert pinned_namespaces() == pinned


def test_killed_agent_leaves_no_namespace() -> None:
    killed_agent_leaves_nothing()
