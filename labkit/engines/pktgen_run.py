"""One run of pktgen's devices: added, set, started from a thread of its own, watched, stopped, removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from labkit._native import Progress, StopFlag
from labkit.engines.base import EndedBy
from labkit.errors import LabError, RigBusyError
from labkit.linux.pktgen import Pktgen
from labkit.linux.pktgen_text import NOT_STARTED, STARTING, DeviceText, RunResult
from labkit.units import NS_PER_S, NS_PER_US

OURS: Final = "@lk"
"""In the name of each of labkit's devices (``eth0@lk0``): what a killed laboratory left is told by it."""
LOOK_S: Final = 0.01
"""Between two looks at the stop flag; a stop is seen within that."""
LOOKS_A_READING: Final = 5
"""A device's file is read each so many looks: on a machine of one CPU each reading takes time from it."""
START_WITHIN_NS: Final = 5 * NS_PER_S
"""A thread looks for work every tenth of a second (pktgen_thread_worker)."""
END_WITHIN_NS: Final = 5 * NS_PER_S
"""`start` returns within 225 ms of the last device's end."""
GONE_WITHIN_NS: Final = 5 * NS_PER_S


class Device(msgspec.Struct, frozen=True):
    """One worker's device."""

    name: str
    cpu: int
    count: int | None

    @property
    def interface(self) -> str:
        """What it sends on."""
        return self.name.partition("@")[0]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a device's run ended.

    Attributes
    ----------
    text : DeviceText
        Its file after the end.
    early : bool
        Whether it ended by itself without having reached its count.
    """

    text: DeviceText
    result: RunResult
    ended_by: EndedBy
    early: bool


@contextmanager
def devices_on(pktgen: Pktgen, devices: Sequence[Device]) -> Iterator[None]:
    """Have `devices` on their threads within the block, and nothing of ours left behind.

    Devices of labkit's are left over where they are found, for the caller holds the lock: they go first.

    Raises
    ------
    RigBusyError
        Somebody else has devices on the threads: `start` would start them, too.
    LabError
        One cannot be added, or the kernel does not let one go.
    """
    threads = pktgen.threads()
    foreign = [
        f"{name} (CPU {cpu})"
        for cpu, thread in threads.items()
        for name in thread.devices
        if OURS not in name
    ]
    if foreign:
        raise RigBusyError(
            f"pktgen: somebody else has devices on its threads: {', '.join(foreign)}; wait, or take them "
            "off: `echo reset | sudo tee /proc/net/pktgen/pgctrl`"
        )
    removed(pktgen, {cpu: thread.devices for cpu, thread in threads.items() if thread.devices})
    added: dict[int, tuple[str, ...]] = {}
    try:
        for device in devices:
            pktgen.add(device.name, device.cpu)
            added[device.cpu] = (*added.get(device.cpu, ()), device.name)
        yield
    finally:
        removed(pktgen, added)


def removed(
    pktgen: Pktgen, devices: Mapping[int, Sequence[str]], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Take all devices off the threads of these CPUs, and wait until their files are gone.

    A device that is added while another of its name is going is lost with it (net/core/pktgen.c marks the
    thread, which removes what it has when it comes to it), so that nothing is added before.
    """
    for cpu in devices:
        pktgen.remove_all(cpu)
    deadline_ns = time.monotonic_ns() + GONE_WITHIN_NS
    while left := [name for names in devices.values() for name in names if pktgen.has_device(name)]:
        if time.monotonic_ns() > deadline_ns:
            raise LabError(
                f"pktgen: {', '.join(left)} did not go within {GONE_WITHIN_NS // NS_PER_S} s; does it still "
                "send? `echo stop | sudo tee /proc/net/pktgen/pgctrl`"
            )
        sleep(LOOK_S)


class Course:
    """A run of devices that are set and wait for their start.

    Parameters
    ----------
    pktgen : Pktgen
        Where they are.
    devices : sequence of Device
        Those that send.
    duration_ns : int or None
        From the first one's start on.
    stop : StopFlag
        Ends the run.
    progresses : sequence of Progress
        One a device.
    errors_count : bool
        Whether errors are frames that were refused.
    """

    def __init__(
        self,
        pktgen: Pktgen,
        devices: Sequence[Device],
        duration_ns: int | None,
        stop: StopFlag,
        progresses: Sequence[Progress],
        *,
        errors_count: bool,
    ) -> None:
        self._pktgen, self._devices, self._duration_ns = pktgen, devices, duration_ns
        self._stop, self._progresses, self._errors_count = stop, progresses, errors_count
        self._start = _Start(pktgen)
        self._texts: list[DeviceText] = []
        self._stopped_ns: int | None = None
        self._why: EndedBy = "count"

    def run(self) -> list[Ended]:
        """Start all, wait for their end or bring it about, and tell how each ended.

        Raises
        ------
        LabError
            They did not start, or not end.
        """
        asked_ns = time.monotonic_ns()
        self._start.start()
        try:
            self._follow(asked_ns)
        finally:
            self._end()
        if self._start.failure is not None:
            raise self._start.failure
        self._look()
        return [self._ended(device, text) for device, text in zip(self._devices, self._texts, strict=True)]

    def _follow(self, asked_ns: int) -> None:
        looks = 0
        while not self._start.over.wait(self._until_next_ns() / NS_PER_S):
            if self._running_since_ns() is None or looks % LOOKS_A_READING == 0:
                self._look()
            looks += 1
            now_ns, since_ns = time.monotonic_ns(), self._running_since_ns()
            if since_ns is None and now_ns - asked_ns > START_WITHIN_NS:
                raise LabError(
                    f"pktgen: no device started within {START_WITHIN_NS // NS_PER_S} s; the kernel log may "
                    "tell why"
                )
            if self._stop.is_set():
                self._why = "stop"
                return
            if now_ns >= self._due_ns(since_ns, now_ns + 1):
                self._why = "duration"
                return

    def _until_next_ns(self) -> int:
        """Time to the next look, or to the end of the duration where that comes before."""
        now_ns, look_ns = time.monotonic_ns(), round(LOOK_S * NS_PER_S)
        return max(0, min(look_ns, self._due_ns(self._running_since_ns(), now_ns + look_ns) - now_ns))

    def _due_ns(self, since_ns: int | None, never_ns: int) -> int:
        """End of the duration; `never_ns` where there is none, or it has not begun."""
        if since_ns is None or self._duration_ns is None:
            return never_ns
        return since_ns + self._duration_ns

    def _running_since_ns(self) -> int | None:
        """When the first device started, by CLOCK_MONOTONIC; None before."""
        started = [text.started_us for text in self._texts if text.started_us]
        return min(started) * NS_PER_US if started else None

    def _look(self) -> None:
        self._texts = [self._pktgen.device(device.name) for device in self._devices]
        for text, progress in zip(self._texts, self._progresses, strict=True):
            progress.store(text.sofar, text.errors if self._errors_count else 0)

    def _end(self) -> None:
        """Stop what runs, once it runs: a stop before the start would be lost, for a start wipes it out.

        A stop to what has stopped already is a warning in the kernel's log.
        """
        if not self._start.over.is_set():
            self._stopped_ns = time.monotonic_ns()
        deadline_ns = time.monotonic_ns() + END_WITHIN_NS
        while not self._start.over.is_set():
            self._look()
            if any(text.result == STARTING for text in self._texts):
                self._pktgen.control("stop")
            self._start.over.wait(LOOK_S)
            if time.monotonic_ns() > deadline_ns:
                raise LabError(
                    f"pktgen: `start` did not return within {END_WITHIN_NS // NS_PER_S} s of the stop; "
                    "look at the kernel log"
                )
        self._start.join()

    def _ended(self, device: Device, text: DeviceText) -> Ended:
        result = text.run_result
        if result is None:
            why = "it did not start" if text.result == NOT_STARTED else "it told no result"
            raise LabError(f"pktgen: {device.name}: {why}", kernel_text=text.result)
        if device.count is not None and result.packets >= device.count:
            return Ended(text=text, result=result, ended_by="count", early=False)
        # CLOCK_MONOTONIC both: what ended before the stop was asked for ended by itself
        early = self._stopped_ns is None or text.stopped_us < self._stopped_ns // NS_PER_US
        return Ended(text=text, result=result, ended_by="error" if early else self._why, early=early)


class _Start(threading.Thread):
    """Writes `start`, which comes back when every device has stopped."""

    def __init__(self, pktgen: Pktgen) -> None:
        super().__init__(name="pktgen-start", daemon=True)
        self._pktgen = pktgen
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._pktgen.control("start")
        except BaseException as failure:  # noqa: BLE001 - raised by the thread that waits for it
            self.failure = failure
        finally:
            self.over.set()
