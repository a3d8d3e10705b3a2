"""The agent's server against requests that no client of ours sends: refused in words, and it goes on."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from labkit.agent.protocol import Done, Failed, Message, Opened, Told, Welcome
from tests.fuzz_agent import BOMB_HEADS, BOMBS, check_stream, plain_requests

PLAIN: dict[str, dict[str, Any]] = {str(plain["type"]): plain for plain in plain_requests()}


def stream(*messages: dict[str, Any] | bytes) -> bytes:
    """Messages back to back, numbered from 1; bytes are a message's body as it is."""
    bodies = [
        message if isinstance(message, bytes) else msgspec.msgpack.encode({"number": number, **message})
        for number, message in enumerate(messages, 1)
    ]
    return b"".join(struct.pack("!I", len(body)) + body for body in bodies)


def asked_of_open_rig(*messages: dict[str, Any]) -> list[Message]:
    """Answers to `messages` on a rig that is open and has frames, and to one more Preview behind them."""
    answers = check_stream(stream(PLAIN["Open"], PLAIN["Load"], *messages, PLAIN["Preview"]))
    assert isinstance(answers[0], Opened)
    assert isinstance(answers[1], Done)
    assert isinstance(answers[-1], Told)
    return answers[2:-1]


@pytest.mark.parametrize(
    ("name", "spoiled", "words"),
    [
        ("Load", {"block": b""}, "a frame ends behind the block's 0 bytes"),
        ("Load", {"lengths": b"\0" * 4}, "2 offsets for 1 lengths"),
        ("Load", {"offsets": b"\0" * 9}, "no whole numbers of 8 and 4 bytes"),
        ("Run", {"workers": 0}, "cpus 0: give 1 or more"),
        ("Run", {"workers": -3}, "cpus -3: give 1 or more"),
        ("Run", {"workers": 2**40}, "cpus 1099511627776: this process may use"),
        ("Run", {"sample_every_ns": 0}, "sample every 0 ns: give 1000000 or more"),
        ("Run", {"engine": "warp"}, "no engine is called 'warp'"),
        ("Restore", {"level": -1}, "level -1: changes are numbered from 0"),
        ("Apply", {"settings": {"colour": 1}}, "unknown setting colour"),
        ("Apply", {"settings": {"mtu": float("nan")}}, "mtu nan: give a whole number"),
    ],
)
def test_request_that_makes_no_sense_is_refused_and_the_next_one_answered(
    name: str, spoiled: dict[str, Any], words: str
) -> None:
    (answer,) = asked_of_open_rig({**PLAIN[name], **spoiled})
    assert isinstance(answer, Failed)
    assert (answer.kind, answer.number) == ("WorkloadError", 3)
    assert words in answer.message


def test_requests_before_their_time_are_refused_and_a_second_rig_too() -> None:
    early = ["Run", "Apply", "Restore", "Look", "Preview", "Load", "Run", "Hello", "Open", "Open", "Stop"]
    answers = check_stream(stream(*[PLAIN[name] for name in early]))
    told = [answer.message if isinstance(answer, Failed) else type(answer) for answer in answers]
    shut = "agent: the rig is not open"
    assert told == [
        "agent: no frames were loaded before the run",
        *[shut] * 4,
        Done,
        shut,
        Welcome,
        Opened,
        "agent: a rig is open already",
    ]
    assert [answer.number for answer in answers] == list(range(1, 11))


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("head", BOMB_HEADS)
def test_message_that_announces_more_than_it_holds_ends_the_stream(head: bytes, bomb: str) -> None:
    answers = check_stream(stream(PLAIN["Open"], head + BOMBS[bomb], PLAIN["Preview"]))
    assert [type(answer) for answer in answers] == [Opened]
