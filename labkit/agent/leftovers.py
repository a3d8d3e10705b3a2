"""What dead laboratories left in the journal: put back, or dismissed where the device is gone for good."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from labkit.agent.device import StateFolders
from labkit.agent.device_facts import device_knobs, device_of
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import HeldInterface
from labkit.linux.links import Links
from labkit.linux.namespaces import network_inode, network_lives
from labkit.linux.processes import is_alive
from labkit.nic.journal import Device
from labkit.nic.put_back import PutBack
from labkit.nic.recovery import Present, forget, recover


def restore_all(folders: StateFolders) -> list[PutBack]:
    """Put back what dead laboratories left in this network namespace; what became of each setting."""
    with _finding() as find:
        return recover(folders.journal, folders.locks, find, is_alive)


def forget_device(folders: StateFolders, name: str) -> list[PutBack]:
    """Dismiss what is kept of device `name`, which is gone for good; each setting that is forgotten."""

    def elsewhere(device: Device) -> bool:
        return device.netns_inode != network_inode() and network_lives(device.netns_inode)

    with _finding() as find:
        return forget(folders.journal, folders.locks, name, find, is_alive, elsewhere)


@contextlib.contextmanager
def _finding() -> Iterator[Callable[[Device], Present | None]]:
    """Finder of journalled devices among those of this namespace."""
    links, ethtool = Links(), Ethtool()
    try:
        present = [device_of(links, ethtool, name) for name in links.names()]

        def find(wanted: Device) -> Present | None:
            for device in present:
                if device.is_same(wanted):
                    knobs = device_knobs(links, ethtool, HeldInterface(device.ifname))
                    return Present(device.ifname, device.ifindex, knobs)
            return None

        yield find
    finally:
        links.close()
        ethtool.close()
