"""IPv4 addresses and neighbours of one link, for a while."""

from __future__ import annotations

from typing import Any, Final, Self

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from labkit.linux.netlink_refusals import Refusal, error_of

PERMANENT: Final = 0x80
"""NUD_PERMANENT (<linux/neighbour.h>): never asked for, never forgotten."""


class Addresses:
    """Adds to link `ifindex` of this thread's network namespace; takes all back at its end."""

    def __init__(self, ifindex: int) -> None:
        self._ifindex = ifindex
        self._ip = IPRoute()
        self._added: list[tuple[str, dict[str, Any]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            while self._added:
                kind, fields = self._added.pop()
                self._ask(kind, "del", fields)
        finally:
            self._ip.close()

    def add(self, address: str, prefix_bits: int) -> None:
        """Give the link `address`."""
        fields = {"index": self._ifindex, "address": address, "prefixlen": prefix_bits}
        self._ask("addr", "add", fields)
        self._added.append(("addr", fields))

    def neighbour(self, address: str, mac: str) -> None:
        """Send what goes to `address` to `mac` from now on, whatever was known before."""
        fields = {"ifindex": self._ifindex, "dst": address}
        self._ask("neigh", "replace", {**fields, "lladdr": mac, "state": PERMANENT})
        if ("neigh", fields) not in self._added:
            self._added.append(("neigh", fields))

    def _ask(self, kind: str, command: str, fields: dict[str, Any]) -> None:
        try:
            getattr(self._ip, kind)(command, **fields)
        except NetlinkError as refused:
            what = f"link {self._ifindex}: {kind} {command} {fields.get('address') or fields.get('dst')}"
            text = str(refused.args[1]) if len(refused.args) > 1 else str(refused)
            raise error_of(what, Refusal(errno=refused.code, text=text), writing=True) from refused
