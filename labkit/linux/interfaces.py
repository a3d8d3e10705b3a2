"""Which interface is meant: by a name that stays, or by a number while the name may change."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Protocol

import msgspec

from labkit.errors import LabError, WorkloadError
from labkit.linux.queues import SYS


class Interface(Protocol):
    """One interface of one network namespace; both properties are asked for at each use."""

    @property
    def name(self) -> str:
        """What it is called now."""
        ...

    @property
    def ifindex(self) -> int:
        """Its number."""
        ...


class NamedInterface(msgspec.Struct, frozen=True):
    """An interface that is ours alone, so that nobody renames it."""

    name: str
    ifindex: int


class HeldInterface:
    """An interface of this thread's namespace that others may rename or delete while it is held.

    It is found by its number, and known by the inode of its folder in sysfs: that one outlives a new name,
    and another device does not get it, even with the same number and name.

    Parameters
    ----------
    name : str
        What it is called now.
    sys : Path or None
        sysfs of this namespace; where it does not show the interface, the number alone has to do.
    namespace : str or None
        What `ip netns` calls this namespace, where the thread is there only to look.

    Raises
    ------
    WorkloadError
        There is no such interface.
    LabError
        Later, from all properties: it is gone.
    """

    def __init__(self, name: str, sys: Path | None = SYS, namespace: str | None = None) -> None:
        self._called, self._sys, self._namespace = name, sys, namespace
        try:
            self._ifindex = socket.if_nametoindex(name)
        except (OSError, ValueError) as absent:  # a name with a null character is a ValueError
            lists = "ip link" if namespace is None else f"ip -n {namespace} link"
            raise WorkloadError(f"{self._full(name)}: no such interface here; {lists} lists them") from absent
        self._folder = self._inode(name)

    @property
    def name(self) -> str:
        """What it is called now."""
        seen = ""
        while (name := self._name_of_number()) != seen:  # another one: renamed between the two looks
            if self._inode(name) == self._folder:
                self._called = name
                return name
            seen = name
        raise LabError(
            f"{self._full(self._called)}: no such interface any more (it was number {self._ifindex})",
            errno=errno.ENODEV,
        )

    @property
    def full_name(self) -> str:
        """What it is called now, behind the namespace's name."""
        return self._full(self.name)

    @property
    def ifindex(self) -> int:
        """Its number, as long as it is there."""
        _ = self.name
        return self._ifindex

    def _full(self, name: str) -> str:
        return name if self._namespace is None else f"{self._namespace}/{name}"

    def _name_of_number(self) -> str:
        """Name that its number has now; empty when nothing has it."""
        try:
            return socket.if_indextoname(self._ifindex)
        except OSError:
            return ""

    def _inode(self, name: str) -> int | None:
        if self._sys is None:
            return None
        try:
            return (self._sys / "class/net" / name).stat().st_ino
        except OSError:
            return None
