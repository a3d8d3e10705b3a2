"""The port of a `nic:` rig in a named network namespace: counted and followed there, or refused in words."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.agent.port import Port
from labkit.cli.app import main
from labkit.errors import CapabilityMissingError, LabError
from labkit.linux import namespaces
from labkit.linux.links import switch_ipv6_off
from labkit.records import Workload
from labkit.rigs.device import DeviceRig
from labkit.traffic.flows import udp_flow
from tests.network.nic_host import (
    RX,
    TX,
    add_veth,
    in_private_host,
    index_of,
    interfaces,
    needs_root,
    set_link,
)

pytestmark = [pytest.mark.network, pytest.mark.user, needs_root]
SENDMMSG = Workload(flow=udp_flow(frame_bytes=60, flows=4), engine="sendmmsg")
PEER, NEW = "peer", "new1"
PORT = f"{PEER}/{RX}"
MS_BIND, MNT_DETACH = 0x1000, 2


def name_network(network: int, name: str) -> None:
    """Do what `ip netns add` does, in mounts of our own."""
    file = namespaces.NAMED / name
    file.touch()
    namespaces._mount(f"/proc/self/fd/{network}".encode(), str(file).encode(), None, MS_BIND)


def add_veth_into_namespace() -> int:
    """Make a veth whose second end is in the namespace `peer`; the namespace's descriptor."""
    namespaces._mount(b"tmpfs", b"/run", b"tmpfs", 0)
    namespaces.NAMED.mkdir()
    network = namespaces.new_network()
    name_network(network, PEER)
    add_veth()
    set_link(RX, net_ns_fd=network)
    with namespaces.inside(network):
        switch_ipv6_off()
        set_link(RX, state="up")
    return network


def add_namesake(name: str, **fields: int) -> None:
    """Make another interface of that name, in the namespace where the thread is."""
    with IPRoute() as ip:
        ip.link("add", ifname=name, kind="veth", peer={"ifname": f"{name}-far"}, **fields)


def assert_counted_at_port(rig: DeviceRig, name: str) -> None:
    trial = rig.run(SENDMMSG, count=1000)
    assert trial.engine_sent == trial.device_sent == trial.peer_received == 1000
    assert trial.reconciled is True
    assert trial.environment["peer_counter"] == f"{name} rx_otherhost_dropped"


@in_private_host
def test_frames_are_counted_at_a_port_in_another_namespace(tmp_path: Path) -> None:
    network = add_veth_into_namespace()
    assert interfaces() == ["lo", TX]
    with DeviceRig(TX, port=PORT, state=tmp_path) as rig:
        assert rig.info.sinks == ("wire", "port", "rx_ring", "socket", "xdp_drop", "stack")
        assert_counted_at_port(rig, PORT)
        with rig.applied({"mtu": 1400}):
            assert_counted_at_port(rig, PORT)
    with namespaces.inside(network):
        assert interfaces() == ["lo", RX]


@in_private_host
def test_port_is_followed_to_its_new_name_and_no_namesake_is_taken_for_it(tmp_path: Path) -> None:
    network = add_veth_into_namespace()
    add_namesake(RX)
    with DeviceRig(TX, port=PORT, state=tmp_path) as rig:
        with namespaces.inside(network):
            set_link(RX, state="down")
            set_link(RX, ifname=NEW)
            set_link(NEW, state="up")
            add_namesake(RX)
        assert_counted_at_port(rig, f"{PEER}/{NEW}")


@in_private_host
def test_deleted_port_is_gone_whoever_gets_its_name_and_number() -> None:
    network = add_veth_into_namespace()
    with contextlib.closing(Port(PORT)) as port, namespaces.inside(network), IPRoute() as ip:
        index = index_of(ip, RX)
        add_namesake("first")  # so that the kernel's next numbers are above
        ip.link("del", index=index)
        add_namesake(RX, index=index)
        for ask in (port.facts, port.counters, lambda: port.dropped({}), lambda: port.name):
            with pytest.raises(LabError, match=f"{PORT}: no such interface any more") as gone:
                ask()
            assert gone.value.errno == errno.ENODEV
    with contextlib.closing(Port(PORT)) as newcomer:
        assert newcomer.facts().ifindex == index


@in_private_host
def test_run_to_a_deleted_port_is_a_clear_error_and_settings_go_back(tmp_path: Path) -> None:
    network = add_veth_into_namespace()
    add_namesake("keep0")
    with DeviceRig("keep0", port=PORT, state=tmp_path) as rig:
        with rig.applied({"mtu": 1400}):
            with namespaces.inside(network), IPRoute() as ip:
                ip.link("del", index=index_of(ip, RX))
            with pytest.raises(LabError, match=f"{PORT}: no such interface any more"):
                rig.run(SENDMMSG, count=1)
        assert rig.notes == ()
    assert Path("/sys/class/net/keep0/mtu").read_text() == "1500\n"


@in_private_host
def test_namespace_that_loses_its_name_is_held_to_the_end(tmp_path: Path) -> None:
    network = add_veth_into_namespace()
    with DeviceRig(TX, port=PORT, state=tmp_path) as rig:
        assert namespaces._libc.umount2(str(namespaces.NAMED / PEER).encode(), MNT_DETACH) == 0
        (namespaces.NAMED / PEER).unlink()
        os.close(network)
        assert_counted_at_port(rig, PORT)


@in_private_host
def test_port_that_is_not_there_ends_with_2_and_lets_the_device_go(tmp_path: Path) -> None:
    add_veth_into_namespace()
    name_network(namespaces.current_network(), "here")
    (namespaces.NAMED / "stale").touch()
    for port, said in (
        ("nowhere/rx0", "/run/netns/nowhere: no such network namespace; `ip netns list` lists them [ENOENT"),
        ("stale/rx0", "/run/netns/stale: a file that holds no network namespace here"),
        ("peer/nope", "peer/nope: no such interface here; ip -n peer link lists them"),
        (f"peer/{TX}", f"peer/{TX}: no such interface here; ip -n peer link lists them"),
        (f"here/{TX}", f"here/{TX}: frames do not arrive at their sender; name another port"),
        ("../netns/rx0", "port '../netns/rx0' is neither INTERFACE nor NAMESPACE/INTERFACE"),
        (RX, f"{RX}: no such interface here; ip link lists them"),
    ):
        assert ended_with_2(f"run --count 1 --state {tmp_path} --rig nic:{TX} --port {port}").startswith(
            f"labkit: {said}"
        )
    DeviceRig(TX, state=tmp_path).close()


def ended_with_2(words: str) -> str:
    """What `labkit` says on stderr."""
    with contextlib.redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    return err.getvalue()


@in_private_host
def test_namespace_that_may_not_be_entered_is_a_missing_capability() -> None:
    add_veth_into_namespace()
    os.seteuid(65534)
    try:
        with pytest.raises(
            CapabilityMissingError, match=r"/run/netns/peer: entering .* CAP_SYS_ADMIN"
        ) as told:
            Port(PORT)
        with contextlib.closing(Port(TX)) as here:  # which needs no power over a namespace
            assert here.name == here.facts().name == TX
    finally:
        os.seteuid(0)
    assert told.value.errno == errno.EPERM
