"""The guard's readers against a kernel's own files, in a network that the test made."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.linux.management import management_facts
from labkit.linux.net_facts import netlink_facts
from tests.network.private import in_private_network, veth_pair

pytestmark = pytest.mark.network


@in_private_network
def test_default_route_and_ssh_session_are_seen_on_the_interface_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "proc").symlink_to("/proc")  # the kernel's own; sysfs would show the host's interfaces
    for name in ("tx0", "rx0", "lo"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    with veth_pair() as veth, IPRoute() as ip, socket.socket() as server:
        ip.link("set", index=1, state="up")
        ip.addr("add", index=veth.ifindex, address="192.0.2.10", prefixlen=24)
        ip.route("add", dst="default", gateway="192.0.2.1")
        assert {str(each) for each in netlink_facts().addresses["tx0"]} == {"192.0.2.10"}
        server.bind(("192.0.2.10", 22))
        server.listen()
        with socket.create_connection(("192.0.2.10", 22), timeout=5):
            told = {name: management_facts(name, root=tmp_path) for name in ("tx0", "rx0", "lo")}
    # what the host has mounted over the network has no route here
    assert all("no route to its server" in reason for reason in told["rx0"].unknown)
    assert [each.what for each in told["tx0"].dependents] == [
        "the default route 0.0.0.0/0",
        "an ssh session to 192.0.2.10",
    ]
    assert told["rx0"].dependents == ()
    assert told["lo"].dependents == ()


@in_private_network
def test_every_next_hop_of_a_default_route_is_seen() -> None:
    with veth_pair() as veth, IPRoute() as ip:
        ip.addr("add", index=veth.ifindex, address="192.0.2.10", prefixlen=24)
        ip.addr("add", index=veth.peer_ifindex, address="198.51.100.10", prefixlen=24)
        hops = [{"gateway": "192.0.2.1"}, {"gateway": "198.51.100.1"}]
        ip.route("add", family=socket.AF_INET, dst="default", multipath=hops)
        defaults = [each.interface for each in netlink_facts().routes if each.is_default]
        assert sorted(defaults) == ["rx0", "tx0"]


@in_private_network
def test_default_routes_of_policy_routing_are_seen() -> None:
    with veth_pair() as veth, IPRoute() as ip:
        ip.addr("add", index=veth.ifindex, address="192.0.2.10", prefixlen=24)
        ip.route("add", dst="default", gateway="192.0.2.1", table=100)
        ip.route("add", dst="default", gateway="192.0.2.1", table=1000)
        defaults = [each for each in netlink_facts().routes if each.is_default]
    assert {(each.interface, each.source) for each in defaults} == {
        ("tx0", "routing table 100"),
        ("tx0", "routing table 1000"),
    }


@in_private_network
def test_a_tunnel_is_carried_by_the_interface_towards_its_endpoint() -> None:
    with veth_pair() as veth, IPRoute() as ip:
        ip.addr("add", index=veth.ifindex, address="192.0.2.10", prefixlen=24)
        ip.link("add", ifname="vx0", kind="vxlan", vxlan_id=5, vxlan_group="192.0.2.9", vxlan_port=4789)
        ip.link("add", ifname="vx1", kind="vxlan", vxlan_id=6, vxlan_port=4790)
        [learned] = ip.link_lookup(ifname="vx1")
        ip.fdb("add", ifindex=learned, lladdr="00:00:00:00:00:00", dst="192.0.2.8")
        told = netlink_facts()
    assert {each.name: [str(end) for end in each.endpoints] for each in told.tunnels} == {
        "vx0": ["192.0.2.9"],
        "vx1": ["192.0.2.8"],
    }
    assert [told.carriers(each) for each in told.tunnels] == [({"tx0"}, True)] * 2
