"""The agent's side of a `vm:` rig: it is alone on an emulated machine, with two cards on one hub."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from labkit.agent.device import DeviceHost, StateFolders
from labkit.agent.far_card import FarCard
from labkit.agent.protocol import Opened
from labkit.agent.readings import Reading
from labkit.engines.iperf3 import FarEnd
from labkit.errors import CapabilityMissingError, LabError
from labkit.linux.links import LinkFacts, Links, switch_ipv6_off
from labkit.linux.machine import machine_facts
from labkit.linux.queues import PROC
from labkit.nic.ethtool_knobs import KnobOfEnds
from labkit.nic.knob import Knob
from labkit.units import NS_PER_S

SENDER, PORT, NAMESPACE = "eth0", "eth1", "peer"
CARRIER_WITHIN_S: Final = 30.0
"""By the guest's clock, which jumps while nothing runs: emulated cards take 2 s of it to find their link."""
STEP_S: Final = 0.05
DEFERRED: Final = "ksoftirqd/"
STARTED_BY: Final = "labkit.exec="
"""On the command line of a kernel that was started to run an agent."""


class GuestHost(DeviceHost):
    """The sending card, and the other one in a namespace of its own, where it takes in every frame.

    Raises
    ------
    CapabilityMissingError
        This machine was not started for the agent.
    LabError
        A card is missing, or has no link.
    """

    private = True
    settles_within_ns = 2 * NS_PER_S  # an emulated card goes on sending for a while
    keeps_time = False  # its clock jumps while a program is read from the host

    def __init__(self, folders: StateFolders, proc: Path = PROC) -> None:
        _check_alone(proc)
        receive_first(proc)
        switch_ipv6_off()
        links = Links()
        _check_cards(links)
        self._far = FarCard(PORT, links, NAMESPACE)
        links.set_up(SENDER, up=True)
        _await_link(lambda: links.facts(SENDER))
        _await_link(self._far.facts)
        links.close()
        super().__init__(
            SENDER, port=f"{NAMESPACE}/{PORT}", i_know=None, ssh_connection=None, folders=folders
        )

    def look(self, sink: str) -> Opened:
        """State of the cards, and which machine this is."""
        return msgspec.structs.replace(super().look(sink), machine=machine_facts())

    def far(self, sink: str) -> FarEnd | None:  # noqa: ARG002 - one other end, whatever the sink
        """The other card."""
        return FarEnd(self._far.network, self._far.interface.ifindex)

    def read(self, sink: str) -> Reading:
        """Raw counters now, with the interrupts of the card at which frames arrive."""
        return msgspec.structs.replace(super().read(sink), port_interrupts=self._far.interrupts.by_name())

    def close(self) -> None:
        """Put everything back."""
        super().close()
        self._far.close()

    def _find_knobs(self) -> dict[str, Knob]:
        """Knobs of the sending card; some turn the other one along."""
        own = super()._find_knobs()
        both = {
            name: KnobOfEnds(name=name, knobs=[own[name], there], resets_link=own[name].resets_link)
            for name, there in self._far.knobs().items()
            if name in own
        }
        return own | both

    def _has_link(self) -> bool:
        return super()._has_link() and self._far.facts().carrier


def receive_first(proc: Path = PROC) -> None:
    """Give the kernel's deferred receive work precedence over every sender.

    The far card's frames are taken in by the CPU that sends. Work that took more than 2 ms is left to
    ksoftirqd (kernel/softirq.c), which shares the CPU with the sender: then pktgen sends thousands of frames
    in a row, the far card's ring of 4096 and QEMU's queue of 10000 behind it fill up, and frames are lost.
    """
    for comm in sorted(proc.glob("[0-9]*/comm")):
        try:
            name = comm.read_text()
        except OSError:  # it has ended
            continue
        if name.startswith(DEFERRED):
            os.sched_setscheduler(int(comm.parent.name), os.SCHED_FIFO, os.sched_param(1))


def _check_alone(proc: Path) -> None:
    """Refuse a machine that was not made for this agent: its cards are somebody's."""
    try:
        words = (proc / "cmdline").read_text().split()
    except OSError:
        words = []
    if not any(word.startswith(STARTED_BY) for word in words):
        raise CapabilityMissingError(
            "guest: this is no machine that labkit started, and its interfaces are not taken; open "
            "'nic:INTERFACE' instead"
        )


def _check_cards(links: Links) -> None:
    missing = sorted({SENDER, PORT} - set(links.names()))
    if missing:
        raise LabError(
            f"guest: no {' and no '.join(missing)}; a card that is alone on its hub never gets rid of a "
            "frame: give the machine two whose driver its kernel has"
        )


def _await_link(facts: Callable[[], LinkFacts]) -> None:
    deadline = time.monotonic() + CARRIER_WITHIN_S
    while not ((now := facts()).carrier and now.operational):
        if time.monotonic() > deadline:
            raise LabError(f"guest: {now.name} has no link after {CARRIER_WITHIN_S:g} s of its own clock")
        time.sleep(STEP_S)
