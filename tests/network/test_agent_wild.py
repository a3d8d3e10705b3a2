"""A real agent asked for anything at all: each request is answered, and it works on as before."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labkit.agent.channel import Channel, Closed
from labkit.agent.launch import AgentProcess, start_agent
from labkit.agent.protocol import (
    PROTOCOL_VERSION,
    Answer,
    Applied,
    Apply,
    Done,
    Failed,
    Hello,
    Live,
    Load,
    Look,
    Measured,
    Message,
    Open,
    Opened,
    Preview,
    Restore,
    Run,
    Stop,
    Welcome,
)
from labkit.agent.sink_records import SinkConfig
from labkit.engines.base import EngineConfig
from labkit.factors import SETTING_NAMES
from labkit.traffic.flows import udp_flow
from labkit.traffic.table import FrameTable

pytestmark = pytest.mark.network
WITHIN_S = 20.0
FRAMES = udp_flow(frame_bytes=60, flows=4).table()
NUMBERS = [None, 0, 1, 2, 3, -1, 60, 64, 65, 68, 1000, 1024, 1500, 65536, 2**31, 2**32, 2**63 - 1, -(2**63)]
ENGINES = ["send", "sendmmsg", "tx_ring", "gso", "af_xdp", "xdp_live", "trafgen", "pktgen", "", "warp"]
SINKS = ["stack", "stack", "ifb", "rx_ring", "rx_ring", "socket", "xdp_drop", "wire", "port", "", "nosuch"]
WORDS = ["pfifo", "tbf", "noqueue", "fq", "napi", "backlog", "napi-threaded", "mixed", "", "0-3", "on;off"]
RUN = Run(
    engine="send",
    sink="stack",
    config=EngineConfig(ifindex=1, batch=1, duration_ns=60 * 10**9),
    workers=1,
    sample_every_ns=10_000_000,
    peer_counters=[],
)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    started = start_agent(state=tmp_path)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def channel(agent: AgentProcess) -> Channel:
    """A channel to an agent whose rig is open and has frames."""
    made = Channel(agent.read_fd, agent.write_fd, Answer)
    opening = Open(force_user_namespace=False, settings={}, peer_carrier=True)
    frames = Load(block=FRAMES.block, offsets=FRAMES.offsets, lengths=FRAMES.lengths)
    for request, wanted in ((Hello(version=PROTOCOL_VERSION), Welcome), (opening, Opened), (frames, Done)):
        assert isinstance(ask(made, request), wanted)
    return made


def answer(channel: Channel) -> Message:
    """The next answer that is no live sample."""
    while isinstance(found := channel.receive(WITHIN_S), Live):
        pass
    assert found is not None, f"no answer within {WITHIN_S:g} s"
    return found


def ask(channel: Channel, request: Message) -> Message:
    channel.send(request)
    return answer(channel)


def wild_value(rng: random.Random) -> Any:
    return rng.choice([*NUMBERS, *WORDS, True, False, 0.5, float("nan"), float("inf"), 1e300])


def wild_settings(rng: random.Random) -> dict[str, Any]:
    of_veth = ["mtu", "txqueuelen", "qdisc", "qdisc_limit", "qdisc_rate_bps", "peer", "gro", "threaded"]
    names = [*of_veth, *of_veth, "tx_channels", "tx_udp_segmentation", *sorted(SETTING_NAMES), "colour", ""]
    return {rng.choice(names): wild_value(rng) for _ in range(rng.randint(0, 3))}


def wild_frames(rng: random.Random) -> Load:
    sizes = rng.choices([0, 1, 13, 14, 60, 1514, 1515, 70_000], k=rng.randint(0, 4))
    table = FrameTable.of([rng.randbytes(size) for size in sizes])
    offsets = rng.choice([table.offsets, table.offsets[8:], struct.pack("=Q", 2**64 - 1), b"\0"])
    return Load(block=table.block, offsets=offsets, lengths=table.lengths)


def wild_run(rng: random.Random) -> Run:
    """A run of 5 ms at most, whatever else is wrong with it."""
    config = EngineConfig(
        ifindex=rng.choice([1, 0, -1, 2**40]),
        batch=rng.choice([1, 1, 64, 50, 0, -1, 2**40]),
        count=rng.choice([None, 0, 1, 100, -1, 2**62]),
        duration_ns=rng.choice([5_000_000, 5_000_000, 0, -1]),
        rate_pps=rng.choice([None, None, 1000.0, 0.0, -1.0, float("nan"), float("inf"), 1e300]),
        cpu=rng.choice([None, None, 0, -1, 4095, 2**40]),
        qdisc_bypass=rng.random() < 0.5,
        ring_frames=rng.choice([None, None, 64, 256, 3, 0, -1, 2**40]),
        stamp=rng.random() < 0.5,
        realtime_priority=rng.choice([None, None, 1, 0, 100, -1, 2**40]),
    )
    return Run(
        engine=rng.choice(ENGINES),
        sink=rng.choice(SINKS),
        config=config,
        workers=rng.choice([1, 1, 1, 2, 0, -1, 2**40]),
        sample_every_ns=rng.choice([125_000_000, 0, -1]),
        peer_counters=rng.choice([[], ["rx_otherhost_dropped"], ["nosuch"]]),
        sink_config=SinkConfig(
            cpu=rng.choice([None, None, 0, -1, 4095, 2**40]),
            sockets=rng.choice([None, None, 1, 2, 0, -1, 2**40]),
            block_bytes=rng.choice([None, None, 4096, 4097, 0, -1, 2**31, 2**40]),
            retire_ms=rng.choice([None, None, 1, 0, -1, 2**40]),
        ),
    )


def wild_request(rng: random.Random) -> Message:
    kind = rng.choice(["apply", "apply", "run", "run", "preview", "look", "load", "restore", "open", "hello"])
    made: dict[str, Message] = {
        "apply": Apply(settings=wild_settings(rng)),
        "run": wild_run(rng),
        "preview": Preview(settings=wild_settings(rng)),
        "look": Look(sink=rng.choice(SINKS)),
        "load": wild_frames(rng),
        "restore": Restore(level=rng.choice([0, 1, 7, -1, 2**62])),
        "open": Open(force_user_namespace=True, settings=wild_settings(rng), peer_carrier=False),
        "hello": Hello(version=rng.choice([PROTOCOL_VERSION, 0, -1])),
    }
    return made[kind]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_asked_is_answered_and_the_rig_works_on(channel: Channel, seed: int) -> None:
    rng = random.Random(seed)
    before = ask(channel, Look(sink="stack"))
    for number in range(1, 120):
        request = msgspec.structs.replace(wild_request(rng), number=number)
        told = ask(channel, request)
        assert told.number == number, request
        assert not isinstance(told, Failed) or told.message, request
    assert isinstance(ask(channel, Restore(level=0)), Done)
    after = ask(channel, Look(sink="stack"))
    assert isinstance(before, Opened)
    assert isinstance(after, Opened)
    assert after.settings == before.settings
    ask(channel, Load(block=FRAMES.block, offsets=FRAMES.offsets, lengths=FRAMES.lengths))
    short = msgspec.structs.replace(RUN.config, count=100)
    measured = ask(channel, msgspec.structs.replace(RUN, config=short))
    assert isinstance(measured, Measured)
    assert measured.report.sent == 100


def test_request_within_a_run_is_told_to_wait_and_the_run_goes_on(channel: Channel) -> None:
    channel.send(msgspec.structs.replace(RUN, number=1))
    while not isinstance(channel.receive(WITHIN_S), Live):
        pass
    told = ask(channel, Apply(settings={"mtu": 1400}, number=2))
    assert isinstance(told, Failed)
    assert (told.kind, told.number) == ("RigBusyError", 2)
    assert told.message == "agent: a run is in progress, and Apply has to wait for its end"
    channel.send(Stop(number=3))
    measured = answer(channel)
    assert isinstance(measured, Measured)
    assert (measured.number, measured.report.ended_by) == (1, "stop")
    assert isinstance(ask(channel, Apply(settings={"mtu": 1400}, number=4)), Applied)


@pytest.mark.parametrize("sink", ["rx_ring", "socket"])
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sockets": -1}, "sockets -1 is outside 1..64"),
        ({"sockets": 0}, "sockets 0 is outside"),
        ({"cpu": 2**40}, "cpu 1099511627776 is outside"),
        ({"retire_ms": 0}, "retire_ms 0 is outside"),
        ({"block_bytes": 4097}, "blocks are whole pages"),
    ],
    ids=str,
)
def test_impossible_sink_is_refused_in_words_and_receives_nothing(
    channel: Channel, sink: str, asked: dict[str, int], words: str
) -> None:
    run = msgspec.structs.replace(RUN, sink=sink, sink_config=SinkConfig(**asked))
    refused = ask(channel, run)
    assert isinstance(refused, Failed)
    assert (refused.kind, words in refused.message) == ("WorkloadError", True), refused


@pytest.mark.parametrize("rate_pps", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_rate_is_refused_before_a_sink_is_opened(channel: Channel, rate_pps: float) -> None:
    config = msgspec.structs.replace(RUN.config, rate_pps=rate_pps, stamp=True)
    refused = ask(channel, msgspec.structs.replace(RUN, sink="rx_ring", config=config))
    assert isinstance(refused, Failed)
    assert (refused.kind, "rate" in refused.message) == ("WorkloadError", True), refused


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (struct.pack("!I", 4) + b"nope", "agent protocol: unreadable message"),
        (struct.pack("!I", 2**32 - 1), "agent protocol: a message of 4294967295 bytes was announced"),
        (struct.pack("!I", 100_015) + b"\x82\xa4type\xa4Stop\xa1o" + b"\x91" * 100_002, "unreadable message"),
    ],
    ids=["noise", "giant", "nested"],
)
def test_stream_that_is_none_ends_the_agent_with_one_line(
    agent: AgentProcess, channel: Channel, noise: bytes, words: str
) -> None:
    os.write(agent.write_fd, noise[:60_000])
    for start in range(60_000, len(noise), 60_000):
        os.write(agent.write_fd, noise[start : start + 60_000])
    with pytest.raises(Closed):
        channel.receive(WITHIN_S)
    assert agent.how_it_ended() == "exit status 1"
    last = agent.last_words()
    assert words in last
    assert last.count("\n") == 1, last
