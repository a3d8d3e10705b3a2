"""What the engines refuse before a socket is opened, by native engine and twin alike."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labkit._native import Progress, StopFlag
from labkit.engines.base import Engine, EngineConfig
from labkit.engines.choose import choose
from labkit.engines.reference import twins
from labkit.errors import WorkloadError
from labkit.traffic.table import FrameTable

ENGINES: dict[str, Engine] = {"send": choose("send"), "sendmmsg": choose("sendmmsg")} | {
    f"{twin.name}-twin": twin for twin in twins()
}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))

SOME_FRAMES = FrameTable.of([bytes(60)])


def run(engine: Engine, frames: FrameTable = SOME_FRAMES, **asked: object) -> None:
    # an interface that cannot exist: whatever passes the checks fails there, not on the host's network
    values = {"ifindex": 0x7FFFFFFF, "batch": 1, "count": 1} | asked
    engine.run(frames, EngineConfig(**values), StopFlag(), Progress())


@pytest.mark.parametrize("batch", [-1, 0, 1025, 4096])
@pytest.mark.parametrize("name", ["sendmmsg", "sendmmsg-twin"])
def test_batch_outside_its_limits_is_refused_with_the_limits(name: str, batch: int) -> None:
    with pytest.raises(WorkloadError, match=rf"batch {batch}: .*1 to 1024"):
        run(ENGINES[name], batch=batch)


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("name", ["send", "send-twin"])
def test_send_takes_one_frame_a_call(name: str, batch: int) -> None:
    with pytest.raises(WorkloadError, match=rf"batch {batch}: .*exactly 1"):
        run(ENGINES[name], batch=batch)


@every_engine
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"count": None}, "neither count nor duration"),
        ({"count": -1}, "count -1"),
        ({"count": None, "duration_ns": 0}, "duration 0 ns"),
        ({"rate_pps": 0.0}, "rate 0 pps"),
        ({"rate_pps": -2.5}, "rate -2.5 pps"),
        ({"rate_pps": float("nan")}, "rate nan pps"),
        ({"rate_pps": float("inf")}, "rate inf pps"),
        ({"ifindex": 0}, "interface number 0"),
        ({"ifindex": 2**31}, "interface number 2147483648"),
        ({"count": 2**63}, "count 9223372036854775808"),
        ({"duration_ns": 2**63 - 1}, "duration 9223372036854775807 ns"),
        ({"cpu": -1}, "CPU -1"),
        ({"cpu": 2**31}, "CPU 2147483648"),
    ],
)
def test_request_without_sense_is_refused(engine: Engine, asked: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        run(engine, **asked)


@every_engine
def test_flow_without_frames_is_refused(engine: Engine) -> None:
    with pytest.raises(WorkloadError, match="no frame"):
        run(engine, FrameTable.of([]))


@pytest.mark.parametrize("name", ["send", "sendmmsg"])
def test_engine_is_chosen_by_name(name: str) -> None:
    engine = choose(name)
    assert engine.name == name
    assert 1 <= engine.default_batch <= engine.max_batch


def test_unknown_engine_lists_those_that_exist() -> None:
    with pytest.raises(WorkloadError, match=r"no engine is called 'warp'; there are: send, sendmmsg"):
        choose("warp")


def test_engines_stay_lean_for_the_agent() -> None:
    code = "import labkit.engines.choose, labkit.engines.reference, sys; print(*sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert not {"numpy", "pandas", "scapy", "pyroute2", "sqlalchemy", "scipy"} & set(said.stdout.split())
