"""A real device, or any interface of this network namespace: settings journalled, counted where it can be."""

from __future__ import annotations

import warnings
from pathlib import Path

from labkit.agent.launch import connect_as_root
from labkit.errors import AgentLostError, JournalError, LabError, LabWarning, WorkloadError
from labkit.factors import RECEIVING_SINKS, Settings
from labkit.records import RigInfo
from labkit.rigs import catalog
from labkit.rigs.held_device import HeldDeviceRig
from labkit.rigs.pktgen_sink import STACK

WIRE, PORT = "wire", "port"


class DeviceRig(HeldDeviceRig):
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
            sinks=(WIRE, PORT, *RECEIVING_SINKS, STACK) if port else (WIRE, STACK),
            factors=(),
        )
        self._look_only = look_only
        super().__init__(info, client, opened, sink=PORT if port else WIRE, made_with={"port": port})

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
