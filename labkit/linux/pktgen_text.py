"""What pktgen's files say: a device's parameters, its counts, its result; a thread's devices. Pure.

Source: pktgen_if_show, show_results and pktgen_thread_show of net/core/pktgen.c (Linux 6.1 and 6.12).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from labkit.errors import CapabilityMissingError
from labkit.units import NS_PER_S, NS_PER_US

WORDS: Final = re.compile(r"(\w+)(?:: ?| )(\S*)")
LISTS: Final = ("imix_weights", "imix_size_counts", "mpls", "Flags")
"""Names whose value is the rest of the line."""
RESULT: Final = re.compile(
    r"OK: (\d+)\(c(\d+)\+d(\d+)\) usec, (\d+) \((\d+)byte,(-?\d+)frags\)\s+"
    r"(\d+)pps (\d+)Mb/sec \((\d+)bps\) errors: (\d+)"
)
STARTING: Final = "Starting"
NOT_STARTED: Final = "Error starting"


class RunResult(msgspec.Struct, frozen=True):
    """The two lines that a device tells of its last run, in their order.

    Attributes
    ----------
    elapsed_us, active_us, idle_us : int
        Time of the run, without and with waiting: for the next frame's time, and for the last buffer.
    packets : int
        Frames that were taken.
    size_bytes : int
        Length that the last frame was meant to have, without FCS.
    frags : int
        Its fragments; -1 where no buffer was left to look at.
    pps, mbit_per_s, bits_per_s : int
        The kernel's own rates, rounded down, from nanoseconds that the line does not show; frames alone,
        without FCS, preamble and gap.
    errors : int
        Frames that the layer below did not take.
    """

    elapsed_us: int
    active_us: int
    idle_us: int
    packets: int
    size_bytes: int
    frags: int
    pps: int
    mbit_per_s: int
    bits_per_s: int
    errors: int

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds, in steps of the kernel's microseconds."""
        return self.elapsed_us * NS_PER_US

    @property
    def ns_per_packet(self) -> float | None:
        """Nanoseconds a frame by the kernel's own rate; None where nothing was sent."""
        return NS_PER_S / self.pps if self.pps else None

    @property
    def consistent(self) -> bool:
        """Whether rate, frames and time agree, as far as whole microseconds and packets tell them."""
        sent_ns = self.packets * NS_PER_S
        least = sent_ns / (self.elapsed_ns + NS_PER_US) - 1
        return self.pps >= least and self.pps * self.elapsed_ns <= sent_ns


class DeviceText(msgspec.Struct, frozen=True, kw_only=True):
    """A device's file.

    Attributes
    ----------
    params : dict of str to str
        Its parameters by the file's own names; the second tag's are ``svlan_p`` and ``svlan_cfi``.
    flags : tuple of str
        Those that are set.
    sofar, errors : int
        Frames of the run in progress, or of the last one.
    started_us, stopped_us, idle_us : int
        CLOCK_MONOTONIC in microseconds; `stopped_us` is the time of reading while it runs.
    result : str
        The last answer, with all its lines.
    """

    params: dict[str, str]
    flags: tuple[str, ...]
    sofar: int
    errors: int
    started_us: int
    stopped_us: int
    idle_us: int
    result: str

    @property
    def interface(self) -> str:
        """The device that it sends on, without what stands behind the @."""
        return self.params["ifname"].partition("@")[0]

    @property
    def suffix(self) -> str | None:
        """What stands behind the @ of its name; None where there is none."""
        return self.params["ifname"].partition("@")[2] or None

    @property
    def run_result(self) -> RunResult | None:
        """What the last run did; None before its end."""
        return parse_result(self.result)


class ThreadText(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's file: devices that run, devices that do not, and its last answer."""

    running: tuple[str, ...]
    stopped: tuple[str, ...]
    result: str

    @property
    def devices(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.running, *self.stopped)


def parse_result(text: str) -> RunResult | None:
    """The figures of a run's result; None for any other answer."""
    found = RESULT.match(text)
    return RunResult(*map(int, found.groups())) if found else None


def parse_device(text: str) -> DeviceText:
    """A device's file in parts.

    Raises
    ------
    CapabilityMissingError
        It does not look like one.
    """
    head, _, result = text.partition("\nResult: ")
    params, _, current = head.partition("\nCurrent:")
    told, counts = _words(params.removeprefix("Params: ")), _words(current)
    try:
        return DeviceText(
            params=told,
            flags=tuple(told.pop("Flags").split()),
            sofar=int(counts["sofar"]),
            errors=int(counts["errors"]),
            started_us=int(counts["started"].removesuffix("us")),
            stopped_us=int(counts["stopped"].removesuffix("us")),
            idle_us=int(counts["idle"].removesuffix("us")),
            result=result.rstrip("\n"),
        )
    except (KeyError, ValueError) as odd:
        raise CapabilityMissingError(
            f"pktgen: this kernel's device file is not known: {text[:80]!r} lacks {odd}"
        ) from odd


def parse_thread(text: str) -> ThreadText:
    """A thread's file in parts.

    Raises
    ------
    CapabilityMissingError
        It does not look like one.
    """
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    try:
        return ThreadText(
            running=tuple(lines["Running"].split()),
            stopped=tuple(lines["Stopped"].split()),
            result=lines["Result"].strip(),
        )
    except KeyError as odd:
        raise CapabilityMissingError(
            f"pktgen: this kernel's thread file is not known: {text[:80]!r} lacks {odd}"
        ) from odd


def _words(text: str) -> dict[str, str]:
    """Values by their names, of which a line holds several."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, rest = line.strip().partition(":")
        if colon and name in LISTS:
            found[name] = rest.strip()
            continue
        for key, value in WORDS.findall(line):
            found[f"s{key}" if name == "svlan_id" != key else key] = value
    return found
