"""A TCP stream on the veth rig: every byte arrives, ends are kept, nothing of it stays in the namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from labkit.analysis.streams import oscillation
from labkit.engines.peer_process import PROGRAMS
from labkit.errors import AgentLostError, LabError, SettingRefusedError
from labkit.experiment.bench import compare
from labkit.factors import STREAM_NAMES
from labkit.linux.namespaces import inside
from labkit.records import Sample, Trial, Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow
from tests.network.test_veth_faults import agent_pid, at_peer

pytestmark = pytest.mark.network
FLOW = udp_flow(60, 1)
TCP = Workload(FLOW, "tcp")
PATIENCE_S = 20.0
LIMIT = "tcp_limit_output_bytes"


@pytest.fixture(scope="module", params=["own", "userns"])
def rig(request: pytest.FixtureRequest) -> Iterator[VethRig]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "userns":
            patch.setenv("LABKIT_USERNS", "1")
        with VethRig() as opened:
            yield opened


def told(trial: Trial) -> dict[str, Any]:
    found: dict[str, Any] = trial.environment["tcp"]
    return found


@contextlib.contextmanager
def at_sender(rig: VethRig) -> Iterator[IPRoute]:
    """A netlink socket in the namespace of the sending end."""
    network = os.open(f"/proc/{agent_pid(rig)}/ns/net", os.O_RDONLY)
    try:
        with inside(network), IPRoute() as ip:
            yield ip
    finally:
        os.close(network)


def addresses(rig: VethRig) -> list[str]:
    """IPv4 addresses of both ends."""
    with at_sender(rig) as here:
        found = [address.get_attr("IFA_ADDRESS") for address in here.get_addr()]
    with at_peer(rig) as there:
        found += [address.get_attr("IFA_ADDRESS") for address in there.get_addr()]
    return found


def stop_once_sending(rig: VethRig, seen: Sample) -> None:
    """Stop the run when more than the handshake has left."""
    if (seen.device_sent or 0) > 3:
        rig.stop()


@pytest.mark.parametrize(("message_bytes", "count"), [(None, 500), (1, 3000), (1500, 777), (3_000_000, 4)])
def test_every_byte_of_a_count_of_writes_arrives(rig: VethRig, message_bytes: int | None, count: int) -> None:
    trial = rig.run(Workload(FLOW, "tcp", message_bytes=message_bytes), duration_s=20, count=count)
    expected = (message_bytes or 16_384) * count
    assert (told(trial)["bytes_sent"], told(trial)["bytes_received"]) == (expected, expected)
    assert (trial.reconciled, trial.difference_reason) == (True, None)
    assert trial.environment["ended_by"] == "count"
    assert trial.segments_sent
    assert trial.device_sent


def test_stream_lasts_as_long_as_asked_and_tells_what_it_cost(rig: VethRig) -> None:
    trial = rig.run(TCP, duration_s=1.0)
    seen = told(trial)
    assert trial.environment["ended_by"] == "duration"
    assert (trial.elapsed_ns or 0) >= 1e9
    assert trial.reconciled is True
    assert seen["throughput_mbit"] == pytest.approx(
        seen["bytes_received"] * 8 / (trial.elapsed_ns or 1) * 1000, rel=1e-9
    )
    assert seen["device_mbit"] > seen["throughput_mbit"]
    assert 0 < seen["cpu_local_pct"] <= 100
    assert seen["sdem_local_us_per_kb"] > 0
    if len(os.sched_getaffinity(0)) > 1:
        assert seen["cpu_local"] != seen["cpu_remote"]
        assert 0 < seen["cpu_remote_pct"] <= 100
    assert (trial.frame_bytes, seen["mss_bytes"]) == (1514, 1448)
    assert (trial.engine_sent, trial.peer_received) == (None, None)
    stolen = (trial.environment["steal_ns"] or 0) > 0.02 * (trial.elapsed_ns or 0)
    assert "cpu-shared" not in trial.marks or stolen
    assert {sample.engine_sent for sample in trial.samples} == {None}
    times = [at_ns for at_ns, _ in seen["intervals"]]
    assert times == sorted(times)
    assert seen["intervals"][-1] == [trial.elapsed_ns, seen["bytes_received"]]
    assert oscillation(trial).unit == "Mbit/s"


def test_frames_follow_the_mtu(rig: VethRig) -> None:
    with rig.applied({"mtu": 9000}):
        trial = rig.run(TCP, duration_s=20, count=100)
    assert (trial.frame_bytes, told(trial)["mss_bytes"]) == (9014, 8948)


def test_stop_ends_the_writing_at_once_and_what_is_on_its_way_still_arrives(rig: VethRig) -> None:
    started = time.monotonic()
    trial = rig.run(TCP, duration_s=60, on_sample=lambda seen: stop_once_sending(rig, seen))
    assert time.monotonic() - started < PATIENCE_S
    assert trial.environment["ended_by"] == "stop"
    assert trial.reconciled is True
    assert told(trial)["bytes_received"] > 0


def test_stream_that_a_queue_holds_back_stops_and_says_what_never_arrived() -> None:
    """At 8 kbit/s nothing arrives in time: writing blocks, and waiting for the rest ends after 2 s."""
    with VethRig(qdisc="tbf", qdisc_rate_bps=8_000, qdisc_limit=1_000_000) as slow:
        started = time.monotonic()
        trial = slow.run(TCP, duration_s=60, on_sample=lambda seen: stop_once_sending(slow, seen))
        assert time.monotonic() - started < PATIENCE_S
        assert trial.environment["ended_by"] == "stop"
        assert trial.reconciled is False
        assert "bytes written and never read: still on their way" in str(trial.difference_reason)
        assert addresses(slow) == []


@pytest.mark.parametrize("name", STREAM_NAMES)
def test_no_address_stays_behind(rig: VethRig, name: str) -> None:
    if name != "tcp" and shutil.which("iperf3", path=PROGRAMS) is None:
        pytest.skip("no iperf3: make system-packages")
    during: list[list[str]] = []
    rig.run(Workload(FLOW, name), duration_s=0.3, on_sample=lambda _: during.append(addresses(rig)))
    assert during[0] == ["192.0.2.1", "192.0.2.2"]
    assert addresses(rig) == []


def test_frames_are_sent_as_ever_behind_a_stream(rig: VethRig) -> None:
    rig.run(TCP, duration_s=0.1)
    trial = rig.run(Workload(FLOW, "sendmmsg"), duration_s=20, count=1000)
    assert (trial.device_sent, trial.peer_received, trial.reconciled) == (1000, 1000, True)


def test_far_end_that_goes_down_ends_nothing_for_ever(rig: VethRig) -> None:
    """Its carrier lost, what is on its way stays there: the run ends in time, and its bytes do not agree."""

    def take_down(_: Sample) -> None:
        with at_peer(rig) as ip:
            ip.link("set", index=ip.link_lookup(ifname="veth1")[0], state="down")

    started = time.monotonic()
    try:
        trial = rig.run(TCP, duration_s=0.5, on_sample=take_down)
    finally:
        with at_peer(rig) as ip:
            ip.link("set", index=ip.link_lookup(ifname="veth1")[0], state="up")
    assert time.monotonic() - started < PATIENCE_S
    assert trial.reconciled is False
    assert "no-carrier" in trial.marks
    with pytest.raises(LabError, match="no carrier"), VethRig(peer_carrier=False) as down:
        down.run(TCP, duration_s=0.1)


def test_no_connection_is_an_error_in_words_within_seconds() -> None:
    with (
        VethRig(peer_carrier=False) as down,
        pytest.raises(LabError, match="tcp: no connection to the far end"),
    ):
        down.run(TCP, duration_s=0.1, check=False)


def test_killed_agent_leaves_nobody_waiting() -> None:
    def kill(_: Sample) -> None:
        os.kill(agent_pid(opened), signal.SIGKILL)

    with VethRig() as opened, pytest.raises(AgentLostError):
        opened.run(TCP, duration_s=60, on_sample=kill)


def test_two_rigs_stream_side_by_side() -> None:
    found: list[bool | None] = []

    def run() -> None:
        with VethRig() as one:
            found.append(one.run(TCP, duration_s=0.3).reconciled)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True, True]


def test_limit_below_a_socket_is_turned_swept_and_put_back(rig: VethRig) -> None:
    with rig.applied({}) as before:
        usual = before.accepted[LIMIT]
    for limit in (4096, 131_072):
        with rig.applied({LIMIT: limit}) as applied:
            assert applied.accepted[LIMIT] == limit
            trial = rig.run(TCP, duration_s=20, count=50)
        assert trial.settings_accepted[LIMIT] == limit
        assert trial.reconciled is True
    with rig.applied({}) as after:
        assert after.accepted[LIMIT] == usual
    with pytest.raises(SettingRefusedError), rig.applied({LIMIT: 0}):
        pytest.fail("applied")


def test_limit_below_a_socket_keeps_the_queue_short() -> None:
    """Until the socket paces itself by its rate, the limit alone says how much of it may wait in a queue."""
    with VethRig(qdisc="tbf", qdisc_rate_bps=10_000_000, qdisc_limit=4_000_000) as slow:
        tight, wide = (longest_queue_bytes(slow, limit) for limit in (4096, 4 << 20))
    assert 0 < tight < 0.6 * wide


def longest_queue_bytes(rig: VethRig, limit: int) -> int:
    """Most bytes that waited in the queue of the sending end, at 25 moments of a run."""
    seen: list[int] = []

    def look(_: Sample) -> None:
        with at_sender(rig) as ip:
            (queue,) = [each for each in ip.get_qdiscs() if each.get_attr("TCA_KIND") == "tbf"]
        seen.append(queue.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["backlog"])

    with rig.applied({LIMIT: limit}):
        assert rig.run(TCP, duration_s=0.5, sample_every_ns=20_000_000, on_sample=look).device_sent
    return max(seen)


def test_stream_passes_a_queue_of_a_gigabit_a_second() -> None:
    """Whose burst holds a full frame: longer ones than that are dropped, and a stream would stand still."""
    with VethRig(qdisc="tbf", qdisc_rate_bps=10**9, qdisc_limit=1_000_000) as fast:
        trial = fast.run(TCP, duration_s=0.3)
    assert trial.reconciled is True
    assert told(trial)["throughput_mbit"] > 10


def test_stream_and_iperf3_s_are_compared_by_the_device_s_bytes(rig: VethRig) -> None:
    if shutil.which("iperf3", path=PROGRAMS) is None:
        pytest.skip("no iperf3: make system-packages")
    trial = rig.run(Workload(FLOW, "iperf3_tcp"), duration_s=0.5)
    assert told(trial)["device_mbit"] > 0
    assert told(trial)["throughput_mbit"] is None
    assert (trial.batch, trial.reconciled) == (None, None)
    assert (trial.elapsed_ns or 0) >= 0.5e9
    found = compare(rig, TCP, Workload(FLOW, "iperf3_tcp"), pairs=1, limit=1, duration_s=0.3)
    assert found.median > 0


def test_labkit_run_tells_of_a_stream_to_people_and_programs() -> None:
    command = [Path(sys.executable).with_name("labkit"), "run", "--engine", "tcp", "--duration", "1"]
    for more, words in (
        ([], ("Mbit/s to the reader; CPU local", "us/KB", "bytes written", "within the run: median")),
        (["--json", "--message-bytes", "1500"], ('"throughput_mbit"', '"message_bytes":1500')),
    ):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60, check=True)
        assert all(word in done.stdout for word in words), done.stdout
    assert json.loads(done.stdout)["environment"]["tcp"]["sdem_local_us_per_kb"] > 0
