"""Where the frames of a `nic:` rig arrive: an interface of this network namespace, or of a named one."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from labkit.agent.sinks import Place
from labkit.errors import WorkloadError
from labkit.linux import namespaces
from labkit.linux.interfaces import HeldInterface
from labkit.linux.link_stats import LinkStats
from labkit.linux.links import LinkFacts, Links, veth_queue_drops
from labkit.linux.queues import SYS

NO_NAMES = frozenset({"", ".", ".."})


class Port:
    """An interface that is looked at where it is, and never turned.

    Parameters
    ----------
    text : str
        ``eth9``, or ``peer/eth9`` in the network namespace that `ip netns` calls ``peer``.
    named : Path
        Where `ip netns` keeps its namespaces.

    Raises
    ------
    WorkloadError
        No such namespace or interface, or neither can be called so.
    CapabilityMissingError
        The namespace may not be entered.
    LabError
        Later: the interface is gone.
    """

    def __init__(self, text: str, named: Path = namespaces.NAMED) -> None:
        namespace, ifname = names_of(text)
        self._network: int | None = None
        # where only CAP_NET_ADMIN is given, not even one's own namespace may be entered
        self._there: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        sys: Path | None = SYS
        if namespace is not None:
            self._network = namespaces.named_network(namespace, named)
            self._there = functools.partial(namespaces.inside, self._network)
            sys = _sysfs_of(self._network)
        with self._there():
            self._held = HeldInterface(ifname, sys, namespace)
            self._inode = namespaces.network_inode()
            self._links, self._stats = Links(), LinkStats()

    @property
    def name(self) -> str:
        """What it is called now, with its namespace."""
        with self._there():
            return self._held.full_name

    def is_interface(self, netns_inode: int, ifindex: int) -> bool:
        """Whether it is that interface, whatever either is called."""
        with self._there():
            return (self._inode, self._held.ifindex) == (netns_inode, ifindex)

    def place(self) -> Place:
        """Where a sink receives what arrives here."""
        with self._there():
            return Place(ifindex=self._held.ifindex, inside=self._there, promiscuous=True)

    def facts(self) -> LinkFacts:
        """State of the link."""
        with self._there():
            return self._links.facts(self._held.name)

    def counters(self) -> dict[str, int]:
        """Its link counters."""
        with self._there():
            return self._stats.read(self._held.ifindex)

    def dropped(self, counters: Mapping[str, int]) -> int | None:
        """What it lost for want of a buffer: veth's receive queues say it themselves."""
        with self._there():
            drops = veth_queue_drops(self._held.name)
        return counters.get("rx_missed_errors") if drops is None else drops

    def close(self) -> None:
        """Let it go."""
        self._links.close()
        self._stats.close()
        if self._network is not None:
            os.close(self._network)


def names_of(text: str) -> tuple[str | None, str]:
    """Namespace, if any, and interface that `text` names; none of both leads to another folder.

    Raises
    ------
    WorkloadError
        It has not the form of either.
    """
    parts = text.split("/")
    if len(parts) > 2 or not NO_NAMES.isdisjoint(parts) or "\0" in text:
        raise WorkloadError(
            f"port {text!r} is neither INTERFACE nor NAMESPACE/INTERFACE, as eth9 or peer/eth9 with a "
            "namespace of `ip netns list`"
        )
    return (parts[0] if len(parts) == 2 else None), parts[-1]


def _sysfs_of(network: int) -> Path | None:
    """A sysfs that shows the devices of `network`; None where a container forbids it."""
    try:
        return namespaces.sysfs_of(network)
    except OSError:
        return None
