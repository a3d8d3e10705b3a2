"""The agent's side of a `nic:` rig: one device of this network namespace, its settings, lock and journal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from labkit._native import Progress
from labkit.agent.device_facts import device_knobs, device_of, driver_of, interrupts_of
from labkit.agent.host import SETTLES_WITHIN_NS
from labkit.agent.port import Port
from labkit.agent.protocol import Opened, Run
from labkit.agent.queue_limits import ByteLimits, byte_limits
from labkit.agent.readings import Reading
from labkit.agent.sinks import Sink, receiving
from labkit.engines.iperf3 import FarEnd
from labkit.errors import JournalError, LabError, WorkloadError
from labkit.factors import RECEIVING_SINKS, Scalar
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import HeldInterface
from labkit.linux.link_stats import LinkStats
from labkit.linux.links import LinkFacts, Links, driver_statistics
from labkit.linux.machine import softnet_dropped, softnet_processed
from labkit.linux.management import management_facts
from labkit.linux.namespaces import network_inode
from labkit.linux.processes import is_alive, owner_of
from labkit.nic.apply import SettingsHost
from labkit.nic.ethtool_knobs import ask_for_absent
from labkit.nic.guard import change_list, check_interface
from labkit.nic.journal import FileJournal, read_folder
from labkit.nic.knob import Knob
from labkit.nic.lock import DeviceLock
from labkit.nic.put_back import notes_of
from labkit.nic.sysctl_knobs import SYSCTLS
from labkit.records import Frames, Privilege

WIRE, PORT, STACK = "wire", "port", "stack"
OF_NO_INTERFACE = 0
"""Stands for an interface's number in the lock of settings that belong to the namespace."""


class StateFolders(msgspec.Struct, frozen=True):
    """Where the journal and the locks of host devices live."""

    journal: Path = Path("/var/lib/labkit/journal")
    locks: Path = Path("/run/labkit")

    @classmethod
    def below(cls, folder: Path) -> StateFolders:
        """Both below one folder, for a trial that is to leave the system's alone."""
        return cls(folder / "journal", folder / "locks")


class DeviceHost:
    """Holds one device: nobody else's laboratory turns it meanwhile, and all settings lead back.

    Parameters
    ----------
    name : str
        The interface, in this process's network namespace.
    port : str or None
        A second interface that the frames arrive at (`Port`).
    i_know : str or None
        Repeats `name` where something depends on it.
    look_only : bool
        Turn nothing, and leave what a dead laboratory left as it is.
    folders : StateFolders
        Where originals are kept.

    Raises
    ------
    SettingRefusedError
        Something depends on the interface (the guard).
    RigBusyError
        Another laboratory holds it.
    JournalError
        There is no place for lock or journal.
    WorkloadError
        No such interface or port, or the port is the interface itself.
    CapabilityMissingError
        The port's namespace may not be entered.
    """

    private = False
    settles_within_ns = SETTLES_WITHIN_NS
    keeps_time = True

    def __init__(
        self,
        name: str,
        *,
        port: str | None,
        i_know: str | None,
        look_only: bool = False,
        ssh_connection: str | None,
        folders: StateFolders,
    ) -> None:
        self._links, self._stats, self._ethtool = Links(), LinkStats(), Ethtool()
        self._device = HeldInterface(name)
        self._port = None if port is None else Port(port)
        if self._port is not None and self._port.is_interface(network_inode(), self._device.ifindex):
            raise WorkloadError(f"{port}: frames do not arrive at their sender; name another port")
        check_interface(management_facts(name, ssh_connection=ssh_connection), i_know=i_know)
        self.privilege: Privilege = "sudo" if "SUDO_UID" in os.environ else "root"
        device = device_of(self._links, self._ethtool, name)
        self._has_standard = bool(self._ethtool.standard_statistics(device.ifindex))
        info = driver_of(self._ethtool, name)
        self._driver, self._interrupts = info.driver, interrupts_of(info, self._device)
        self._lock = DeviceLock(folders.locks, device.netns_inode, device.ifindex, name)
        self._shared: DeviceLock | None = None
        self._folders = folders
        owner = owner_of(os.getpid())
        if owner is None:
            raise LabError("agent: /proc does not tell who this process is; is it mounted?")
        self._knobs = self._find_knobs()
        journal = FileJournal(folders.journal, device, owner)
        absent = {} if "irq_affinity" in self._knobs else {"irq_affinity": self._interrupts.why_none()}
        self._settings = SettingsHost(name, self._knobs, journal, self._has_link, absent=absent)
        self._look_only = look_only
        if look_only:
            left = [entry for each in journal.leftovers(is_alive) for entry in each.entries()]
            self.recovered = [
                f"{name}: {entry.name} was left changed; opening the rig puts it back to {entry.original!r}"
                for entry in left
            ]
        else:
            self.recovered = [result.text for result in self._settings.recover(is_alive)]
        _, damaged = read_folder(folders.journal, is_alive)
        self.recovered += map(str, damaged.values())

    def look(self, sink: str) -> Opened:
        """State of the device, and of the port where frames arrive."""
        port = self._port_of(sink)
        return Opened(
            privilege=self.privilege,
            link=self.link(sink),
            peer=port.facts() if port else None,
            peer_counters=sorted(port.counters()) if port else [],
            settings=self._settings.current(),
            driver=self._driver,
            interrupts=len(self._interrupts.turnable()) or None,
            notes=self.recovered,
        )

    def link(self, sink: str) -> LinkFacts:  # noqa: ARG002 - one device, whatever the sink
        """State of the device alone."""
        return self._links.facts(self._device.name)

    def counter(self, sink: str) -> tuple[str, str, str | None]:
        """The device's tx_packets, and the port; of what never leaves, what the receive path took in."""
        if sink == STACK:
            return "softnet", "processed", None
        port = self._port_of(sink)
        return self._device.name, "tx_packets", port.name if port else None

    def ifindex(self, sink: str) -> int:  # noqa: ARG002 - one device, whatever the sink
        """Interface number of the device."""
        return self._device.ifindex

    def far(self, sink: str) -> FarEnd | None:  # noqa: ARG002 - the port is somebody's, whatever the sink
        """Nothing here is this host's own."""
        return None

    def read(self, sink: str) -> Reading:
        """Raw counters now."""
        port = self._port_of(sink)
        qdisc = self._links.qdisc_counts(self._device.name)
        device, peer = self.read_links(sink)
        return Reading(
            device=device,
            peer=peer,
            peer_queue_dropped=port.dropped(peer) if port else None,
            qdisc_dropped=qdisc.dropped,
            qdisc_queued=qdisc.queued,
            qdisc_requeued=qdisc.requeued,
            softnet_dropped=softnet_dropped(),
            statistics=[*driver_statistics(self._device.name), *self._standard_statistics().items()],
            interrupts=self._interrupts.by_name(),
        )

    def read_links(self, sink: str) -> tuple[dict[str, int], dict[str, int]]:
        """Counters of the device and of the port."""
        if sink == STACK:
            processed = softnet_processed()
            return {} if processed is None else {"processed": processed}, {}
        port = self._port_of(sink)
        return self._stats.read(self._device.ifindex), port.counters() if port else {}

    def byte_limits(self, sink: str) -> ByteLimits:  # noqa: ARG002 - one device, whatever the sink
        """Byte queue limits of the device's first queue."""
        return byte_limits(self._device.name)

    def empty_queue(self, sink: str) -> bool:  # noqa: ARG002 - the qdisc is the host's
        """Leave the host's qdisc alone."""
        return False

    def receiver(
        self, request: Run, frames: Frames, sender: Progress, sender_cpus: Sequence[int]
    ) -> AbstractContextManager[Sink | None]:
        """The sink of `request`, receiving at the port within the block; None for one that only counts."""
        port = self._port_of(request.sink)
        if port is None or request.sink not in RECEIVING_SINKS:
            return contextlib.nullcontext()
        return receiving(request, frames, sender, sender_cpus, port.place())

    def preview(self, settings: Mapping[str, Scalar]) -> str:
        """What applying `settings` would do, and how often the link would go down."""
        self._check_known(settings)
        self._settings.check(settings)
        resets = {name: None for name in settings if name in self._knobs and self._knobs[name].resets_link}
        return change_list(settings, self._settings.current(), resets)

    def apply(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Turn settings, journalled, and read back everything in force."""
        if self._look_only:
            raise LabError(
                f"{self._device.name}: opened to be looked at; open the rig again to turn settings"
            )
        self._check_known(settings)
        self._hold_shared(settings.keys() & SYSCTLS.keys())
        return self._settings.apply(settings)

    def restore(self, level: int) -> list[str]:
        """Put back what every `apply` beyond the first `level` changed; what is not as before, in words."""
        return notes_of(self._settings.restore(level))

    def close(self) -> None:
        """Put everything back and let the device go."""
        try:
            self._settings.restore(0)
        finally:
            self._lock.release()
            if self._shared is not None:
                self._shared.release()
            for closable in (self._links, self._stats, self._ethtool, self._port):
                if closable is not None:
                    closable.close()

    def _find_knobs(self) -> dict[str, Knob]:
        return device_knobs(self._links, self._ethtool, self._device)

    def _has_link(self) -> bool:
        return self.link(WIRE).carrier

    def _standard_statistics(self) -> dict[str, int]:
        """Counters that mean the same in every driver; not asked again of a driver that has none."""
        return self._ethtool.standard_statistics(self._device.ifindex) if self._has_standard else {}

    def _hold_shared(self, names: AbstractSet[str]) -> None:
        """Keep `names`, which every device of this namespace shares, from other laboratories to the end."""
        if not names or self._shared is not None:
            return
        netns_inode, what = network_inode(), ", ".join(sorted(names))
        lock = DeviceLock(self._folders.locks, netns_inode, OF_NO_INTERFACE, what)
        left, _ = read_folder(self._folders.journal, is_alive)
        mine = [
            each.device for each in left if each.device.netns_inode == netns_inode and _turned(each, SYSCTLS)
        ]
        if mine:
            lock.release()
            raise JournalError(
                f"{what}: a laboratory on {mine[0].ifname} left it changed; run `labkit restore` first"
            )
        self._shared = lock

    def _check_known(self, settings: Mapping[str, Scalar]) -> None:
        """Refuse what ethtool does not have here, in the kernel's words."""
        absent = [name for name in settings if name not in self._knobs]
        ask_for_absent(self._ethtool, self._device.name, self._device.ifindex, absent)

    def _port_of(self, sink: str) -> Port | None:
        return None if sink in (WIRE, STACK) else self._port


def _turned(journal: FileJournal, names: Collection[str]) -> bool:
    return any(entry.name in names for entry in journal.entries())
