"""What the kernel's pktgen told of a run beyond its counts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class DeviceTold(msgspec.Struct, frozen=True, kw_only=True):
    """One of its devices, which is one worker's.

    Attributes
    ----------
    name : str
        As pktgen calls it: ``eth0@lk0``.
    cpu : int
        CPU of its thread.
    accepted : list of (str, str)
        Commands whose value the kernel changed, and what it made of them.
    size_bytes : int
        Length of the last frame.
    pps : int
        Packets a second by the kernel's own line, rounded down.
    idle_ns : int
        Time that it waited, awake, for a frame's time or for its last buffer.
    errors : int
        Frames that the layer below did not take.
    beyond_count : int
        Frames more than asked: a burst is not cut.
    early : str or None
        Why it ended before its count or time without being stopped; None where it did not.
    """

    name: str
    cpu: int
    accepted: list[tuple[str, str]]
    size_bytes: int
    pps: int
    idle_ns: int
    errors: int
    beyond_count: int
    early: str | None


class PktgenTold(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of a run, and what they were set to.

    Attributes
    ----------
    commands : list of str
        What a device was asked, in order, count and queue of the first one.
    frames_differ : list of str
        What its frames have otherwise than the flow's.
    one_size : bool
        Whether all frames were meant to be of one length.
    """

    xmit_mode: str
    clone_skb: int
    burst: int
    commands: list[str]
    frames_differ: list[str]
    one_size: bool
    devices: list[DeviceTold]


def together(told: Sequence[PktgenTold | None]) -> PktgenTold | None:
    """What the devices of all workers told, as of one run; None where none was pktgen's."""
    known = [each for each in told if each is not None]
    if not known:
        return None
    devices = [device for each in known for device in each.devices]
    return msgspec.structs.replace(known[0], devices=devices)
