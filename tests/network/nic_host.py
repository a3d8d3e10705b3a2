"""A host of its own for `nic:` rigs: network, mounts and devices that end with the test."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from labkit.agent.client import AgentClient
from labkit.agent.launch import AgentProcess, start_agent
from labkit.errors import JournalError
from labkit.factors import Scalar
from labkit.linux import namespaces
from labkit.rigs.device import DeviceRig
from tests.network.private import in_private_network

TUNSETIFF = 0x400454CA
TUNSETPERSIST = 0x400454CB
IFF_TAP_NO_PI = 0x1002
TX, RX, TAP = "tx0", "rx0", "tap0"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the agent of a nic: rig is root")


def enter_private_mounts() -> None:
    """Give this process mounts of its own that reach nobody else."""
    namespaces._unshare(namespaces.CLONE_NEWNS)
    namespaces._mount_private()


def in_private_host(body: Callable[..., Any]) -> Callable[..., Any]:
    """Run `body` in a child whose network, mounts and sysfs are its own."""

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        enter_private_mounts()
        namespaces.mount_sysfs()
        return body(*args, **kwargs)

    return in_private_network(run)


def add_veth(queues: int = 4) -> None:
    """Make a pair of several queues, both ends up."""
    many = {"num_tx_queues": queues, "num_rx_queues": queues}
    with IPRoute() as ip:
        ip.link("add", ifname=TX, kind="veth", **many, peer={"ifname": RX, **many})
        for name in (TX, RX):
            ip.link("set", index=index_of(ip, name), state="up")


def add_persistent_tap(name: str = TAP) -> None:
    """Make a tap that stays, and is up, when no process holds it open."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
        fcntl.ioctl(device, TUNSETPERSIST, 1)
    finally:
        os.close(device)
    set_link(name, state="up")


@contextlib.contextmanager
def tap(name: str = TAP) -> Iterator[None]:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
        yield
    finally:
        os.close(device)


def index_of(ip: IPRoute, name: str) -> int:
    return int(ip.link_lookup(ifname=name)[0])


def set_link(name: str, **fields: Any) -> None:
    """Do what somebody else does to a link meanwhile."""
    with IPRoute() as ip:
        ip.link("set", index=index_of(ip, name), **fields)


def interfaces() -> list[str]:
    with IPRoute() as ip:
        return sorted(str(link.get_attr("IFLA_IFNAME")) for link in ip.get_links())


def settings_of(rig: DeviceRig) -> dict[str, Scalar]:
    """Everything in force, read now."""
    return dict(rig._client.look("wire").settings)


def agent_pid(rig: DeviceRig) -> int:
    process = rig._client._process
    assert isinstance(process, AgentProcess)
    return process.pid


def leave_changed(name: str, state: Path, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Kill the agent while `asked` is in force; everything that was in force before."""
    rig = DeviceRig(name, state=state)
    before = settings_of(rig)
    rig._client.apply(dict(asked))
    os.kill(agent_pid(rig), signal.SIGKILL)
    with pytest.raises(JournalError, match="the agent ended while settings were in force"):
        rig.close()
    return before


def journals(state: Path) -> list[Path]:
    return list((state / "journal").glob("*"))


def restore_all(state: Path) -> list[str]:
    """What `labkit restore` does."""
    client = AgentClient(start_agent(as_root=True, state=state))
    try:
        return [result.text for result in client.restore_all()]
    finally:
        client.close()
