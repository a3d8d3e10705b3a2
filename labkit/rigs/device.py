"""A real device, or any interface of this network namespace: settings journalled, counted where it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from labkit.agent.client import AgentClient
from labkit.agent.launch import start_agent
from labkit.agent.protocol import Opened
from labkit.drivers.choose import facts_of
from labkit.drivers.facts import DriverFacts
from labkit.errors import WorkloadError
from labkit.records import SETTING_NAMES, Frames, RigInfo, Scalar, Settings, typed
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.catalog import check_setting
from labkit.rigs.peer_counter import PeerRule, peer_rule

WIRE, PORT = "wire", "port"
PORT_COUNTERS: Final = ("rx_packets",)
"""What a real port counts itself; a veth's rx_packets is the sender's counter and proves nothing."""


class DeviceRig(AgentRig):
    """One interface, held by an agent that is root, itself or through ``sudo -n``.

    Parameters
    ----------
    name : str
        The interface.
    port : str or None
        A second interface where the frames arrive; without one nothing counts behind the wire.
    i_know : str or None
        Repeats `name` where something depends on the interface; nothing else overrides the guard.
    state : Path or None
        Folder of journal and lock instead of the system's.

    Raises
    ------
    SettingRefusedError
        Something depends on the interface.
    RigBusyError
        Another laboratory holds it; the message names its pid.
    """

    def __init__(
        self, name: str, *, port: str | None = None, i_know: str | None = None, state: Path | None = None
    ) -> None:
        if not name:
            raise WorkloadError("rig 'nic:': name an interface, as in nic:eth8")
        client = AgentClient(start_agent(as_root=True, state=state))
        try:
            opened = client.open_device(name, port=port, i_know=i_know)
        except BaseException:
            client.close()
            raise
        info = RigInfo(
            name=f"nic:{name}",
            title=f"interface {name}, driver {opened.driver or 'unknown'}",
            engines=("send", "sendmmsg"),
            sinks=(WIRE, PORT) if port else (WIRE,),
            factors=tuple(opened.settings),
        )
        self._facts = facts_of(opened.driver or "")
        self.notes = tuple(opened.notes)
        super().__init__(info, client, opened, asked={}, sink=PORT if port else WIRE)

    @property
    def driver(self) -> DriverFacts:
        """What is known about the device's driver."""
        return self._facts

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do, and how often the link would go down; nothing changes."""
        return self._client.preview(self._checked(settings))

    def _checked(self, settings: Settings) -> dict[str, Scalar]:
        """Settings in Python's own types; what this device lacks is refused in its kernel's words."""
        for name in settings.keys() - SETTING_NAMES:
            check_setting(self._info, name)
        return {name: typed(name, value) for name, value in settings.items()}

    def _effective(self, accepted: dict[str, Scalar]) -> dict[str, Scalar]:
        """What the hardware does; None for an interval whose steps are not known."""
        return {name: self._effect(name, value) for name, value in accepted.items()}

    def _effect(self, name: str, accepted: Scalar) -> Scalar:
        known = None if accepted is None else self._facts.effective(name, accepted)
        return known if known is not None or name.endswith("_usecs") else accepted

    def _find_rule(self, frames: Frames, looked: Opened) -> PeerRule:
        """Counters of the port, where there is one."""
        if looked.peer is None:
            return PeerRule(counters=(), note="nothing counts behind the wire; name a second port")
        if looked.driver == "veth":
            return peer_rule(frames, looked.peer.mac, frozenset(looked.peer_counters))
        return PeerRule(counters=PORT_COUNTERS, note=None)
