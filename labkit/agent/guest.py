"""The agent's side of a `vm:` rig: it is alone on an emulated machine, with two cards on one hub."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import msgspec

from labkit.agent.device import DeviceHost, StateFolders
from labkit.agent.protocol import Opened
from labkit.engines.iperf3 import FarEnd
from labkit.errors import CapabilityMissingError, LabError
from labkit.linux import namespaces
from labkit.linux.links import Links, switch_ipv6_off
from labkit.linux.machine import machine_facts
from labkit.linux.queues import PROC
from labkit.units import NS_PER_S

SENDER, PORT, NAMESPACE = "eth0", "eth1", "peer"
CARRIER_WITHIN_S: Final = 30.0
"""By the guest's clock, which jumps while nothing runs: emulated cards take 2 s of it to find their link."""
STEP_S: Final = 0.05
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
    settles_within_ns = (
        2 * NS_PER_S
    )  # an emulated card sends on for a while, and its driver's watchdog counts

    def __init__(self, folders: StateFolders, proc: Path = PROC) -> None:
        _check_alone(proc)
        self._peer_network = _joined()
        super().__init__(
            SENDER, port=f"{NAMESPACE}/{PORT}", i_know=None, ssh_connection=None, folders=folders
        )

    def look(self, sink: str) -> Opened:
        """State of the cards, and which machine this is."""
        return msgspec.structs.replace(super().look(sink), machine=machine_facts())

    def far(self, sink: str) -> FarEnd | None:  # noqa: ARG002 - one other end, whatever the sink
        """The other card."""
        with namespaces.inside(self._peer_network):
            links = Links()
            try:
                return FarEnd(self._peer_network, links.index(PORT))
            finally:
                links.close()


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


def _joined() -> int:
    """Both cards up, the second in a network namespace (a descriptor) that `ip netns` knows by its name."""
    switch_ipv6_off()
    network = namespaces.new_network()
    namespaces.name_network(network, NAMESPACE)
    links = Links()
    missing = sorted({SENDER, PORT} - set(links.names()))
    if missing:
        raise LabError(
            f"guest: no {' and no '.join(missing)}; a card that is alone on its hub never gets rid of a "
            "frame: give the machine two whose driver its kernel has"
        )
    links.move(PORT, network)
    with namespaces.inside(network):
        switch_ipv6_off()
        there = Links()
        there.set_promiscuous(PORT)
        there.set_up(PORT, up=True)
    links.set_up(SENDER, up=True)
    for ends, name in ((links, SENDER), (there, PORT)):
        _await_link(ends, name)
        ends.close()
    return network


def _await_link(links: Links, name: str) -> None:
    deadline = time.monotonic() + CARRIER_WITHIN_S
    while not (links.facts(name).carrier and links.facts(name).operational):
        if time.monotonic() > deadline:
            raise LabError(f"guest: {name} has no link after {CARRIER_WITHIN_S:g} s of its own clock")
        time.sleep(STEP_S)
