"""Checks of one device: its node, offloads, pause frames, byte limits and queueing discipline."""

from __future__ import annotations

from typing import Final

from labkit.audit.check import Check, Place, Verdict
from labkit.audit.cpu_checks import look_if
from labkit.linux import environment

OFFLOADS: Final = ("tso", "gso", "gro", "lro")
PAUSES: Final = ("pause_rx", "pause_tx")
PLAIN_QDISCS: Final = frozenset({"noqueue", "mq"})
"""No queue at all, or one for each hardware queue: no lock that CPUs share."""
WIDE_OPEN_BYTES: Final = 1_879_048_192
"""DQL_MAX_LIMIT of include/linux/dynamic_queue_limits.h: (UINT_MAX / 2) - (UINT_MAX / 16)."""


def judge_nodes(found: tuple[int | None, frozenset[int]]) -> Verdict:
    """Judge (node of the device, nodes of the CPUs)."""
    device, cpus = found
    if device is None or cpus == {device}:
        return "ok"
    return "look" if device in cpus else "bad"


def judge_pause(found: dict[str, bool]) -> Verdict:
    """Judge which ways pause frames are on."""
    return "bad" if any(found.values()) else "ok"


def judge_byte_limits(found: tuple[int, int] | None) -> Verdict:
    """Judge (limit, limit_max) of BQL; a limit that stayed 0 is a folder that the driver does not use."""
    if found is None or found[0] == 0:
        return "ok"
    return look_if(found[1] < WIDE_OPEN_BYTES)


def judge_qdisc(kind: str) -> Verdict:
    """Judge the root qdisc."""
    if kind == "noop":
        return "bad"
    return look_if(kind not in PLAIN_QDISCS)


def _nodes(place: Place) -> tuple[int | None, frozenset[int]]:
    node = environment.device_node(place.root, _device(place))
    return node, frozenset() if node is None else environment.cpu_nodes(place.root, place.cpus())


def _show_nodes(found: tuple[int | None, frozenset[int]]) -> str:
    device, cpus = found
    if device is None:
        return "the device has no node of its own"
    return f"device on node {device}, CPUs on {', '.join(map(str, sorted(cpus))) or 'no node'}"


def _offloads(place: Place) -> list[str]:
    place.setting(OFFLOADS[0])  # where the driver tells one, the others that it leaves out are not there
    return [name for name in OFFLOADS if place.settings.get(name)]


def _pause(place: Place) -> dict[str, bool]:
    return {name: bool(place.setting(name)) for name in PAUSES}


def _show_byte_limits(found: tuple[int, int] | None) -> str:
    if found is None:
        return "no BQL"
    return "not used so far" if found[0] == 0 else f"limit {found[0]} of at most {found[1]} bytes"


def _device(place: Place) -> str:
    if place.device is None:
        raise ValueError("no device is named")
    return place.device


DEVICE_CHECKS: Final = (
    Check(
        name="numa",
        of_device=True,
        read=_nodes,
        judge=judge_nodes,
        show=_show_nodes,
        why="Descriptors and frames of a device on another node cross the link between the sockets.",
        advice="send from a CPU of the device's node",
    ),
    Check(
        name="offloads",
        of_device=True,
        read=_offloads,
        judge=look_if,
        show=" ".join,
        why="Merged or split segments make the device's packets and the stack's two different counts.",
        advice="ethtool -K DEVICE tso off gso off gro off lro off",
    ),
    Check(
        name="pause",
        of_device=True,
        read=_pause,
        judge=judge_pause,
        show=lambda found: " ".join(name for name, on in found.items() if on) or "off",
        why="With pause frames the slower end stops the faster one: the rate measured is the other side's.",
        advice="ethtool -A DEVICE rx off tx off",
    ),
    Check(
        name="bql",
        of_device=True,
        read=lambda place: environment.byte_limits(place.root, _device(place)),
        judge=judge_byte_limits,
        show=_show_byte_limits,
        why="A byte limit stops the queue before the ring is full, so that a larger ring changes nothing.",
        advice="echo max into byte_queue_limits/limit_max of each TX queue",
    ),
    Check(
        name="qdisc",
        of_device=True,
        read=lambda place: place.setting("qdisc"),
        judge=judge_qdisc,
        why="A queueing discipline takes a lock for each packet, and a shaper sets the rate itself.",
        advice="send past it (qdisc bypass), or tc qdisc replace dev DEVICE root noqueue",
    ),
)
