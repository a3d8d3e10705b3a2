"""Which interrupts are a device's queues', by the names that its driver gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from labkit.counters.interrupts import QueueInterrupts, counts_by_name, parse_interrupts, queue_interrupts
from labkit.drivers.interrupt_names import NamePattern
from labkit.errors import CapabilityMissingError
from labkit.linux.interfaces import Interface
from labkit.linux.machine import interrupts_text
from labkit.linux.queues import SYS, device_interrupts


class DeviceInterrupts:
    """Interrupts of one device's queues, asked anew at each use: a reset may bring other numbers.

    Parameters
    ----------
    interface : Interface
        The device.
    bus : str or None
        Its place on a bus, as the driver tells it.
    patterns : sequence of NamePattern
        How its driver names interrupts.
    text : callable
        Reads /proc/interrupts; None where there is none.
    sys : Path
        Root of sysfs.
    """

    def __init__(
        self,
        interface: Interface,
        bus: str | None,
        patterns: Sequence[NamePattern],
        *,
        text: Callable[[], str | None] = interrupts_text,
        sys: Path = SYS,
    ) -> None:
        self._interface, self._bus, self._patterns = interface, bus, patterns
        self._text, self._sys = text, sys

    def by_name(self) -> dict[str, int] | None:
        """Interrupts of each queue since they were requested; None when no line names one."""
        return counts_by_name(self._queues()) or None

    def turnable(self) -> list[int]:
        """Numbers of those that only queues of this device raise, in the order of the file.

        Vectors for management, link or other devices are left out. Where no name tells them apart, the one of
        a device that has a single message interrupt is its queue's in any case.
        """
        if queues := self._queues():
            own = (int(queue.label) for queue in queues if not queue.shared)
            return list(dict.fromkeys(own))
        messages = device_interrupts(self._interface.name, self._sys)
        return messages if len(messages) == 1 else []

    def why_none(self) -> str:
        """Why there is nothing to turn."""
        if self._queues():
            return "other devices raise the interrupts of its queues, too"
        if not (messages := device_interrupts(self._interface.name, self._sys)):
            return "it raises no interrupts that are known as its own"
        return (
            f"no name in /proc/interrupts tells which of its {len(messages)} are queues', and some may be of "
            "management; many drivers ask for those of queues only while the link is up"
        )

    def _queues(self) -> tuple[QueueInterrupts, ...]:
        try:
            found = parse_interrupts(self._text() or "")
            return queue_interrupts(
                found, device=self._interface.name, pci=self._bus, bus=self._bus, patterns=self._patterns
            )
        except CapabilityMissingError:
            return ()
