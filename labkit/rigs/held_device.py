"""A device that an agent found and holds: its settings and counters are those that its driver has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from labkit.agent.client import AgentClient
from labkit.agent.protocol import Measured, Opened
from labkit.drivers.choose import facts_of
from labkit.drivers.facts import DriverFacts
from labkit.factors import SETTING_NAMES, Scalar, Settings, typed
from labkit.nic.profiles import SettingsProfile, settings_profile
from labkit.records import Frames, RigInfo
from labkit.rigs import catalog
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.driver_view import driver_view, effective_settings
from labkit.rigs.peer_counter import PeerRule, peer_rule
from labkit.rigs.pktgen_sink import STACK, UP_OWN_PATH

PORT_COUNTERS: Final = ("rx_packets",)
"""What a real port counts itself; a veth's rx_packets is the sender's counter and proves nothing."""


class HeldDeviceRig(AgentRig):
    """One interface with whatever its driver offers; a rig adds where it is and how it is opened.

    Parameters
    ----------
    info : RigInfo
        What the rig is; its factors are those that the device has.
    client : AgentClient
        The agent that holds it.
    opened : Opened
        State of the device as the agent found it.
    sink : str
        Where frames end unless the workload says otherwise.
    made_with : mapping
        What else it was made with.
    """

    def __init__(
        self, info: RigInfo, client: AgentClient, opened: Opened, *, sink: str, made_with: Mapping[str, Any]
    ) -> None:
        self._facts = facts_of(opened.driver or "")
        self._interrupts = opened.interrupts
        own = msgspec.structs.replace(info, factors=tuple(opened.settings))
        super().__init__(own, client, opened, asked={}, sink=sink, made_with=made_with)

    @property
    def driver(self) -> DriverFacts:
        """What is known about the device's driver."""
        return self._facts

    def profile(self, name: str) -> SettingsProfile:
        """Settings that belong together (``overload``), as far as this device has them, to be applied whole.

        Raises
        ------
        WorkloadError
            No such profile.
        CapabilityMissingError
            The device has no hardware to tune.
        """
        whole = settings_profile(
            name, self._facts.name, interrupts=self._interrupts or 0, cpus=self._own_cpus()
        )
        held = {each: value for each, value in whole.settings.items() if self._accepted.get(each) is not None}
        return msgspec.structs.replace(whole, settings=held)

    def _own_cpus(self) -> list[int]:
        """CPUs of the machine that the device is in, as far as they may be used."""
        return sorted(os.sched_getaffinity(0))

    def _checked(self, settings: Settings) -> dict[str, Scalar]:
        """Settings in Python's own types; what this device lacks is refused in its kernel's words."""
        for name in settings.keys() - SETTING_NAMES:
            catalog.check_setting(self._info, name)
        return {name: typed(name, value) for name, value in settings.items()}

    def _effective(self, accepted: dict[str, Scalar]) -> dict[str, Scalar]:
        """What the hardware does; None for an interval whose steps are not known."""
        return effective_settings(accepted, self._facts)

    def _observed(self, measured: Measured, sink: str) -> dict[str, Any]:  # noqa: ARG002 - one device
        """Push-back, interrupts and resets by the driver's own counters; None is not counted here."""
        return driver_view(measured, self._facts)

    def _peer_rule(self, frames: Frames, sink: str) -> PeerRule:
        """The rule for these frames; nothing else counts what never leaves."""
        return UP_OWN_PATH if sink == STACK else super()._peer_rule(frames, sink)

    def _find_rule(self, frames: Frames, looked: Opened) -> PeerRule:
        """Counters of the port, where there is one."""
        if looked.peer is None:
            return PeerRule(counters=(), note="nothing counts behind the wire; name a second port")
        if looked.driver == "veth":
            return peer_rule(frames, looked.peer.mac, frozenset(looked.peer_counters))
        return PeerRule(counters=PORT_COUNTERS, note=None)
