"""The client against a scripted agent."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator

import msgspec
import pytest

from labkit.agent import client as client_module
from labkit.agent import line as line_module
from labkit.agent.answers import beside_of
from labkit.agent.channel import Channel, Closed
from labkit.agent.client import AgentClient
from labkit.agent.protocol import (
    PROTOCOL_VERSION,
    Applied,
    Apply,
    Done,
    Failed,
    Hello,
    Live,
    Load,
    Measured,
    Message,
    Request,
    Restore,
    Run,
    Stop,
    Welcome,
)
from labkit.agent.readings import Reading
from labkit.agent.sampling import PROFILING_S
from labkit.engines.base import EngineConfig, EngineReport
from labkit.errors import AgentLostError, LabError, RigBusyError, SettingRefusedError
from labkit.records import Sample
from labkit.traffic.table import FrameTable

WATCHED = {client_module.__file__, line_module.__file__}
FRAMES = FrameTable.of([bytes(60)])
READING = Reading(
    device={}, peer={}, peer_queue_dropped=None, qdisc_dropped=None, qdisc_queued=None, softnet_dropped=None
)
MEASURED = Measured(
    workers=[],
    device="veth0",
    device_counter="tx_packets",
    peer_device="veth1",
    report=EngineReport(
        sent=1,
        refused=0,
        refused_by_errno={},
        super_packets=None,
        partial_returns=0,
        calls=1,
        start_ns=0,
        end_ns=1,
        cpu_ns=1,
        involuntary_switches=0,
        qdisc_bypass=False,
        fatal_errno=None,
        ended_by="count",
    ),
    before=READING,
    at_end={},
    after=READING,
    settled=True,
    carrier=True,
    cpu=0,
    cpus_kept_awake=False,
    runqueue_wait_ns=None,
    steal_ns=None,
    kernel_warnings=None,
)
RUN = Run(
    workers=1,
    engine="sendmmsg",
    sink="stack",
    config=EngineConfig(
        ifindex=0, batch=1, count=1, duration_ns=None, rate_pps=None, cpu=None, qdisc_bypass=False
    ),
    sample_every_ns=1,
    peer_counters=[],
)
SAMPLE = Sample(at_ns=1, engine_sent=5, engine_refused=0, device_sent=5, peer_received=None)


class FakeAgent:
    """Pipes and a thread that answers by a script: request type -> answers; None ends the stream."""

    def __init__(self, script: dict[type[Message], list[Message | None]]) -> None:
        from_client, self.write_fd = os.pipe()
        self.read_fd, to_client = os.pipe()
        self.requests: list[Message] = []
        self.ended = 0
        self._script = {Hello: [Welcome(version=PROTOCOL_VERSION, pid=1)], **script}
        self._channel = Channel(from_client, to_client, Request)
        self._descriptors = (from_client, to_client)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            while True:
                asked = self._channel.receive()
                assert asked is not None
                self.requests.append(msgspec.structs.replace(asked, number=0))
                for answer in self._script.get(type(asked), []):
                    if answer is None:
                        return
                    self._channel.send(msgspec.structs.replace(answer, number=asked.number))
        except Closed:
            pass
        finally:
            for descriptor in self._descriptors:
                os.close(descriptor)

    def within_s(self, longest_s: float) -> float:
        return longest_s + 10.0

    def needed(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def last_words(self) -> str:
        return "Killed"

    def how_it_ended(self) -> str:
        return "killed by signal 9"

    def end(self) -> None:
        self.ended += 1
        if self.ended == 1:
            os.close(self.write_fd)
            self._thread.join(timeout=5)
            os.close(self.read_fd)


Start = Callable[[dict[type[Message], list[Message | None]]], tuple[AgentClient, FakeAgent]]


@pytest.fixture
def start() -> Iterator[Start]:
    clients: list[AgentClient] = []

    def build(script: dict[type[Message], list[Message | None]]) -> tuple[AgentClient, FakeAgent]:
        agent = FakeAgent(script)
        clients.append(AgentClient(agent))
        return clients[-1], agent

    yield build
    for client in clients:
        client.close()


def test_first_message_states_the_version(start: Start) -> None:
    _, agent = start({})
    assert agent.requests == [Hello(version=PROTOCOL_VERSION)]


def test_another_version_is_refused_and_the_agent_ended() -> None:
    agent = FakeAgent({Hello: [Welcome(version=99, pid=1)]})
    with pytest.raises(LabError, match="protocol 99"):
        AgentClient(agent)
    assert agent.ended


def test_settings_go_and_come_back(start: Start) -> None:
    client, agent = start({Apply: [Applied(accepted={"mtu": 9000})], Restore: [Done()]})
    assert client.apply({"mtu": 9000}) == {"mtu": 9000}
    assert client.level == 1
    client.level = 0
    client.restore()
    assert agent.requests[1:] == [Apply(settings={"mtu": 9000}), Restore(level=0)]


def test_what_waits_for_links_is_time_of_who_waits_however_slow_the_agents_machine_is(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, agent = start({Apply: [Applied(accepted={})], Restore: [Done()], Run: [MEASURED]})
    worked: list[float] = []
    monkeypatch.setattr(agent, "within_s", lambda longest_s: worked.append(longest_s) or 10.0)
    client.apply({"tx_ring": 64})
    client.level = 0
    client.restore()
    client.run(RUN, longest_s=3.0)
    assert worked == [0.0, 0.0, 3.0]


def test_refusal_keeps_kind_errno_and_the_kernels_words(start: Start) -> None:
    refusal = Failed(kind="SettingRefusedError", message="veth0: MTU 9", errno=22, kernel_text="too small")
    client, _ = start({Apply: [refusal]})
    with pytest.raises(
        SettingRefusedError, match=r"veth0: MTU 9 \[EINVAL: .*\] \[kernel: too small\]"
    ) as told:
        client.apply({"mtu": 9})
    assert told.value.errno == 22


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "errno_names", "AgentLostError", "Sequence"])
def test_odd_kind_of_failure_is_a_plain_lab_error(start: Start, kind: str) -> None:
    client, _ = start({Restore: [Failed(kind=kind, message="odd", errno=None, kernel_text=None)]})
    with pytest.raises(LabError, match="odd") as told:
        client.restore()
    assert type(told.value) is LabError


def test_same_frames_are_sent_once(start: Start) -> None:
    client, agent = start({Load: [Done()]})
    client.load(FRAMES)
    client.load(FRAMES)
    assert len([asked for asked in agent.requests if isinstance(asked, Load)]) == 1


def test_samples_arrive_while_the_run_lasts(start: Start) -> None:
    client, _ = start({Run: [Live(sample=SAMPLE), Live(sample=SAMPLE), MEASURED]})
    seen: list[Sample] = []
    measured, samples = client.run(RUN, longest_s=1, on_sample=seen.append)
    assert measured.report == MEASURED.report
    assert list(samples) == seen == [SAMPLE, SAMPLE]


@pytest.mark.parametrize(("profile", "beside_s"), [(False, 0.0), (True, PROFILING_S)])
def test_what_perf_takes_is_time_of_who_waits_however_slow_the_agents_machine_is(
    profile: bool, beside_s: float
) -> None:
    assert beside_of(msgspec.structs.replace(RUN, profile=profile)) == beside_s


def test_death_in_a_run_is_told_at_once_with_what_was_measured(start: Start) -> None:
    client, _ = start({Run: [Live(sample=SAMPLE), None]})
    with pytest.raises(AgentLostError, match="killed by signal 9") as told:
        client.run(RUN, longest_s=3600)
    assert told.value.samples == (SAMPLE,)
    assert told.value.stderr_tail == "Killed"
    with pytest.raises(AgentLostError):
        client.load(FRAMES)
    client.restore()


def test_interrupt_stops_the_engine_and_waits_for_its_end(start: Start) -> None:
    def interrupt(_: Sample) -> None:
        raise KeyboardInterrupt

    client, agent = start({Run: [Live(sample=SAMPLE)], Stop: [MEASURED], Load: [Done()]})
    with pytest.raises(KeyboardInterrupt):
        client.run(RUN, longest_s=3600, on_sample=interrupt)
    client.load(FRAMES)
    assert [type(asked) for asked in agent.requests] == [Hello, Run, Stop, Hello, Load]


def test_error_in_on_sample_stops_the_engine_too(start: Start) -> None:
    client, agent = start({Run: [Live(sample=SAMPLE)], Stop: [MEASURED], Load: [Done()]})
    with pytest.raises(ZeroDivisionError):
        client.run(RUN, longest_s=3600, on_sample=lambda _: 1 // 0)
    client.load(FRAMES)
    assert Stop() in agent.requests


class Interrupted(KeyboardInterrupt):
    """Our own, so that a real Ctrl-C still ends the tests."""


@contextlib.contextmanager
def interrupt_at(instant: int) -> Iterator[list[int]]:
    """Raise at the `instant`-th place where CPython looks for signals: a call's begin or end."""
    passed = [0]

    def look(frame: types.FrameType, event: str, _: object) -> None:
        if frame.f_code.co_filename in WATCHED and event in {"call", "return", "c_return"}:
            passed[0] += 1
            if passed[0] == instant:
                raise Interrupted

    sys.setprofile(look)
    try:
        yield passed
    finally:
        sys.setprofile(None)


def work(client: AgentClient) -> None:
    """What a rig does, in its order: settings, frames, a run, settings back."""
    try:
        client.apply({"mtu": 9000})
        client.load(FRAMES)
        client.run(RUN, longest_s=1)
    finally:
        client.level = 0
        client.restore()


def test_interrupt_at_any_instant_leaves_the_stream_in_step_and_no_setting_behind(start: Start) -> None:
    client, agent = start(
        {
            Apply: [Applied(accepted={"mtu": 9000})],
            Load: [Done()],
            Run: [Live(sample=SAMPLE), MEASURED],
            Restore: [Done()],
        }
    )
    for instant in itertools.count(1):
        try:
            with interrupt_at(instant):
                work(client)
        except Interrupted:
            pass
        else:
            break
        frames = FrameTable.of([bytes(60)])
        client.load(frames)
        measured, samples = client.run(RUN, longest_s=1)
        assert (measured.report, samples) == (MEASURED.report, (SAMPLE,))
        assert in_force(agent.requests) == 0
    assert instant > 100


def in_force(requests: list[Message]) -> int:
    """Levels of settings that the agent holds after `requests`."""
    level = 0
    for asked in requests:
        if isinstance(asked, Apply):
            level += 1
        elif isinstance(asked, Restore):
            level = min(level, asked.level)
    return level


def test_rig_of_the_parent_is_refused_in_a_forked_process_and_survives_it(start: Start) -> None:
    client, _ = start({Load: [Done()]})
    child = os.fork()
    if child == 0:
        try:
            client.load(FRAMES)
        except LabError as refused:
            client.close()
            os._exit(42 if "belongs to process" in str(refused) else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 42
    client.load(FRAMES)


def test_closing_in_the_middle_of_a_run_says_so(start: Start) -> None:
    client, _ = start({Run: [Live(sample=SAMPLE)]})
    with pytest.raises(LabError, match="closed in the middle"):
        client.run(RUN, longest_s=3600, on_sample=lambda _: client.close())


def test_second_thread_is_told_that_the_rig_is_busy(start: Start) -> None:
    client, _ = start({Run: [Live(sample=SAMPLE), MEASURED]})
    refusals: list[BaseException] = []

    def meddle(_: Sample) -> None:
        def ask() -> None:
            try:
                client.load(FRAMES)
            except RigBusyError as busy:
                refusals.append(busy)

        other = threading.Thread(target=ask)
        other.start()
        other.join()

    client.run(RUN, longest_s=1, on_sample=meddle)
    assert len(refusals) == 1


def test_closing_twice_is_harmless_and_later_requests_say_so(start: Start) -> None:
    client, agent = start({})
    client.close()
    client.close()
    client.stop()
    assert agent.ended == 1
    client.restore()
    with pytest.raises(LabError, match="closed"):
        client.load(FRAMES)


def test_stop_that_comes_before_the_run_was_sent_ends_it_all_the_same(start: Start) -> None:
    client, agent = start({Run: [MEASURED]})
    client.stop()
    client.run(RUN, longest_s=1.0)
    client.stop_asked = False
    client.run(RUN, longest_s=1.0)
    client.close()
    assert [type(request) for request in agent.requests if not isinstance(request, Hello)] == [
        Stop,
        Run,
        Stop,
        Run,
    ]
