"""A real device, or any interface of this network namespace: settings journalled, counted where it can be."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.agent.launch import connect_as_root
from labkit.agent.protocol import Measured, Opened
from labkit.drivers.choose import facts_of
from labkit.drivers.facts import DriverFacts
from labkit.errors import AgentLostError, JournalError, LabError, LabWarning, WorkloadError
from labkit.factors import RECEIVING_SINKS, SETTING_NAMES, Scalar, Settings, typed
from labkit.nic.profiles import SettingsProfile, settings_profile
from labkit.records import Frames, RigInfo
from labkit.rigs import catalog
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.driver_view import driver_view, effective_settings
from labkit.rigs.peer_counter import PeerRule, peer_rule
from labkit.rigs.pktgen_sink import STACK, UP_OWN_PATH

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
        A second interface where the frames arrive; without one nothing counts behind the wire. ``peer/eth9``
        is one in the network namespace that `ip netns` calls ``peer``.
    i_know : str or None
        Repeats `name` where something depends on the interface; nothing else overrides the guard.
    look_only : bool
        Only `preview` and measure: no setting is turned, and none that a dead laboratory left is put back.
    state : Path or None
        Folder of journal and lock instead of the system's.

    Attributes
    ----------
    notes : tuple of str
        What was put back when it was opened; with `look_only` what would be.

    Raises
    ------
    CapabilityMissingError
        Not root, and sudo starts no agent.
    SettingRefusedError
        Something depends on the interface.
    RigBusyError
        Another laboratory holds it; the message names its pid.
    WorkloadError
        There is no such interface or port, or the port's namespace is not there.
    """

    def __init__(
        self,
        name: str,
        *,
        port: str | None = None,
        i_know: str | None = None,
        look_only: bool = False,
        state: Path | None = None,
    ) -> None:
        if not name:
            raise WorkloadError("rig 'nic:': name an interface, as in nic:eth8")
        client = connect_as_root(state=state)
        try:
            opened = client.open_device(name, port=port, i_know=i_know, look_only=look_only)
        except BaseException:
            client.close()
            raise
        info = RigInfo(
            name=f"{catalog.DEVICE_PREFIX}{name}",
            title=f"interface {name}, driver {opened.driver or 'unknown'}",
            engines=catalog.DEVICE.engines,
            sinks=(WIRE, PORT, STACK, *RECEIVING_SINKS) if port else (WIRE, STACK),
            factors=tuple(opened.settings),
        )
        self._facts = facts_of(opened.driver or "")
        self._interrupts = opened.interrupts
        self._look_only = look_only
        super().__init__(
            info, client, opened, asked={}, sink=PORT if port else WIRE, made_with={"port": port}
        )

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
        cpus = sorted(os.sched_getaffinity(0))
        whole = settings_profile(name, self._facts.name, interrupts=self._interrupts or 0, cpus=cpus)
        held = {each: value for each, value in whole.settings.items() if self._accepted.get(each) is not None}
        return msgspec.structs.replace(whole, settings=held)

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do, and how often the link would go down; nothing changes.

        With `look_only`, what opening the rig would put back first comes before.
        """
        first = self.notes if self._look_only else ()
        return "\n".join([*first, super().preview(settings)])

    def close(self) -> None:
        """Put every setting back and end the agent; harmless twice.

        Raises
        ------
        JournalError
            Something could not be put back, or the agent had ended before; the journal keeps what is left.
        """
        try:
            for note in self._client.give_back():
                warnings.warn(note, LabWarning, stacklevel=2)
        except AgentLostError as lost:
            raise JournalError(
                f"{self._info.name}: the agent ended while settings were in force, so they may be left "
                "changed; open the rig again, or run `labkit restore`"
            ) from lost
        finally:
            self._client.close()

    def __exit__(self, *exc: object) -> None:
        """Close; what fails then is a note on the error that is under way, if any."""
        try:
            self.close()
        except LabError as failed:
            _, error, _ = exc
            if not isinstance(error, BaseException):
                raise
            if str(failed) not in str(error):
                error.add_note(f"at the end of the rig: {failed}")

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
