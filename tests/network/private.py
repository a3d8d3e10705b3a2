"""Test bodies in a network of their own: a child process that leaves the host's network first."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from labkit.linux.ethtool import Ethtool

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
LIMIT_S = 60


def enter_private_network() -> None:
    """Move this single-threaded process to an empty network; as root without a user namespace."""
    uid, gid = os.geteuid(), os.getegid()
    own_user = uid != 0 or os.environ.get("LABKIT_USERNS") == "1"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | (CLONE_NEWUSER if own_user else 0)) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    if own_user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    for scope in ("all", "default"):
        # a new veth would send neighbour discovery of its own
        switch = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if switch.exists():
            switch.write_text("1")


@dataclass(frozen=True)
class Veth:
    """A veth pair, both ends in this network and up."""

    ip: IPRoute
    ifindex: int
    peer_ifindex: int

    def counter(self, name: str, *, ifindex: int | None = None) -> int:
        """One value of the sending end's 64-bit statistics."""
        link = self.ip.get_links(ifindex or self.ifindex)[0]
        return int(link.get("stats64")[name])

    def set_mtu(self, mtu: int) -> None:
        for ifindex in (self.ifindex, self.peer_ifindex):
            self.ip.link("set", index=ifindex, mtu=mtu)

    def take_peer_down(self) -> None:
        """Take the receiving end down, and wait until the sending end's queue has heard of it."""
        self.ip.link("set", index=self.peer_ifindex, state="down")
        wait_for_link(self.ip, self.ifindex, ready=False)


@contextmanager
def veth_pair() -> Iterator[Veth]:
    with IPRoute() as ip:
        ip.link("add", ifname="tx0", kind="veth", peer={"ifname": "rx0"})
        ends = [ip.link_lookup(ifname=name)[0] for name in ("tx0", "rx0")]
        for ifindex in ends:
            ip.link("set", index=ifindex, state="up")
        with contextlib.closing(Ethtool()) as ethtool:
            # the peer counts what super-packets carry, not super-packets
            ethtool.set_features(ends[0], {"tx_udp_segmentation": False})
        for ifindex in ends:
            wait_for_link(ip, ifindex, ready=True)
        yield Veth(ip, *ends)


def wait_for_link(ip: IPRoute, ifindex: int, *, ready: bool) -> None:
    """Wait until frames really leave, or really do not.

    The kernel turns the transmit queue on and off some milliseconds after the link (net/core/link_watch.c).
    An idle one has qdisc `noop`, which drops every frame and reports success; before it is off, the veth
    driver itself refuses them.
    """
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        link = ip.get_links(ifindex)[0]
        if (link.get("operstate") == "UP" and link.get("qdisc") != "noop") is ready:
            return
    raise TimeoutError(f"interface {ifindex} is not as awaited after {LIMIT_S} s: {link}")


def loopback_up() -> int:
    """Bring `lo` of this network up; returns its interface number."""
    with IPRoute() as ip:
        ifindex = int(ip.link_lookup(ifname="lo")[0])
        ip.link("set", index=ifindex, state="up")
    return ifindex


def in_private_network(body: Callable[..., Any]) -> Callable[..., Any]:
    """Run `body` in a child process that has left this network; its result or its failure comes back."""

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _child(body, args, kwargs, writer)
        os.close(writer)
        try:
            outcome = _read_all(reader)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.close(reader)
            os.waitpid(child, 0)
        if not outcome:
            pytest.fail("the child process died without a word")
        word, value = pickle.loads(outcome)  # noqa: S301 - written by our own child
        if word == "failed":
            pytest.fail(value, pytrace=False)
        return value

    return run


def _child(body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], writer: int) -> None:
    try:
        enter_private_network()
        outcome = ("done", body(*args, **kwargs))
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
        outcome = ("failed", traceback.format_exc())
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(outcome, pipe)
    os._exit(0)


def _read_all(reader: int) -> bytes:
    parts: list[bytes] = []
    while select.select([reader], [], [], LIMIT_S)[0]:
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    raise TimeoutError(f"nothing from the child process for {LIMIT_S} s")
