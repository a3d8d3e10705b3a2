"""What depends on an interface, read from a fake tree; the machine's own interfaces are never asked."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest

from labkit.errors import WorkloadError
from labkit.linux.management import ManagementFacts, management_facts
from labkit.linux.net_facts import NetlinkFacts
from tests.guard_tree import ANY, Tree, route, tcp_row, tunnel


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def told(facts: ManagementFacts) -> list[str]:
    assert facts.unknown == ()
    return [each.what for each in facts.dependents]


def test_nothing_depends_on_idle_interfaces(tree: Tree) -> None:
    for name in ("eth1", "eth2", "lo"):
        assert told(tree.facts(name)) == []


def test_default_routes_of_both_versions_are_told_with_their_table(tree: Tree) -> None:
    facts = tree.facts("eth0")
    assert [(each.what, each.where) for each in facts.dependents] == [
        ("the default route 0.0.0.0/0", "routing table main"),
        ("the default route ::/0", "routing table main"),
    ]


@pytest.mark.parametrize("network", ["0.0.0.0/1", "128.0.0.0/1", "2000::/3"])
def test_routes_that_act_as_default_ones_are_default_ones(tree: Tree, network: str) -> None:
    tree.routes.append(route("eth2", network, metric=600))
    assert told(tree.facts("eth2")) == [f"the default route {network}"]


def test_a_default_route_of_policy_routing_is_told_with_its_table(tree: Tree) -> None:
    tree.routes.append(route("eth2", "0.0.0.0/0", table="100"))
    assert [(each.what, each.where) for each in tree.facts("eth2").dependents] == [
        ("the default route 0.0.0.0/0", "routing table 100")
    ]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("198.51.100.10", "proc/net/tcp"),
        ("2001:db8:1::10", "proc/net/tcp6"),
        ("::ffff:198.51.100.10", "proc/net/tcp6"),
    ],
)
def test_an_established_ssh_session_is_on_the_interface_of_its_address(
    tree: Tree, address: str, name: str
) -> None:
    tree.append(name, tcp_row(address, 22))
    facts = tree.facts("eth1")
    assert [each.where for each in facts.dependents] == [name]
    assert told(facts)[0].startswith("an ssh session to")
    assert told(tree.facts("eth2")) == []


def test_other_ports_and_sessions_that_ended_do_not_count(tree: Tree) -> None:
    tree.append("proc/net/tcp", tcp_row("198.51.100.10", 8022) + tcp_row("198.51.100.10", 22, state=6))
    tree.append("proc/net/tcp", tcp_row(ANY, 22, state=10))
    assert told(tree.facts("eth1")) == []


def test_many_sessions_to_one_address_are_told_once(tree: Tree) -> None:
    tree.append("proc/net/tcp", tcp_row("198.51.100.10", 22) * 3)
    assert len(told(tree.facts("eth1"))) == 1


@pytest.mark.parametrize(
    "variable",
    [
        "203.0.113.5 50000 198.51.100.10 2222",
        "2001:db8::5 50000 2001:db8:1::10 2222",
        "fe80::5 50000 fe80::1%eth1 22",
    ],
)
def test_ssh_connection_tells_a_session_on_any_port(tree: Tree, variable: str) -> None:
    facts = tree.facts("eth1", variable)
    assert [each.where for each in facts.dependents] == ["SSH_CONNECTION"]
    assert told(tree.facts("eth2", variable)) == []


def test_a_session_of_another_namespace_does_not_count(tree: Tree) -> None:
    assert told(tree.facts("eth1", "203.0.113.5 50000 192.0.2.77 22")) == []


@pytest.mark.parametrize("variable", ["", "nonsense", "1.2.3.4 5 name 22"])
def test_odd_ssh_connection_is_unknown(tree: Tree, variable: str) -> None:
    assert len(tree.facts("eth2", variable).unknown) == 1


def test_a_session_whose_address_nobody_carries_is_unknown(tree: Tree) -> None:
    tree.append("proc/net/tcp", tcp_row("192.0.2.55", 22))
    assert "no interface is known to carry 192.0.2.55" in tree.facts("eth2").unknown[0]


@pytest.mark.parametrize(
    ("kind", "device", "options"),
    [
        ("nfs", "server:/export", "rw,vers=3,addr=203.0.113.4"),
        ("nfs4", "server:/export", "rw,vers=4.2,clientaddr=198.51.100.10,addr=203.0.113.4"),
        ("cifs", "//server/share", "rw,addr=203.0.113.4"),
        ("smb3", "//server/share", "rw,addr=203.0.113.4"),
        ("9p", "203.0.113.4", "rw,trans=tcp,port=564"),
        ("ceph", "203.0.113.4:6789:/vol", "rw,name=admin"),
        ("ceph", "admin@fsid.fs=/", "rw,mon_addr=203.0.113.4:6789"),
        ("fuse.sshfs", "ann@203.0.113.4:/home/ann", "rw,user_id=1000"),
        ("fuse.glusterfs", "203.0.113.4:/volume", "rw"),
        ("lustre", "203.0.113.4@tcp:/scratch", "rw,flock"),
    ],
)
def test_a_network_file_system_is_on_the_interface_towards_its_server(
    tree: Tree, kind: str, device: str, options: str
) -> None:
    tree.mount(kind, device, options, on=r"/my\040files")
    assert told(tree.facts("eth1")) == [f"{kind} on /my files from 203.0.113.4"]
    assert told(tree.facts("eth2")) == []


def test_each_monitor_of_ceph_counts(tree: Tree) -> None:
    tree.mount("ceph", "192.0.2.4:6789,203.0.113.4:6789:/", "rw")
    assert len(told(tree.facts("eth1"))) == 1
    assert any("ceph" in what for what in told(tree.facts("eth0")))


def test_the_most_special_route_leads_to_a_server(tree: Tree) -> None:
    tree.routes.append(route("eth2", "203.0.113.4/32", metric=900))
    tree.mount("nfs", "server:/export", "rw,addr=203.0.113.4")
    assert told(tree.facts("eth1")) == []
    assert len(told(tree.facts("eth2"))) == 1


def test_a_server_on_this_machine_is_on_loopback(tree: Tree) -> None:
    tree.mount("nfs", "localhost:/export", "rw,addr=127.0.0.1")
    assert told(tree.facts("lo")) == ["nfs on /home from 127.0.0.1"]


@pytest.mark.parametrize(
    ("kind", "device", "options"), [("9p", "hostshare", "rw,trans=virtio"), ("ext4", "/dev/sda1", "rw")]
)
def test_local_file_systems_depend_on_no_interface(tree: Tree, kind: str, device: str, options: str) -> None:
    tree.mount(kind, device, options)
    assert told(tree.facts("eth2")) == []


@pytest.mark.parametrize(
    ("kind", "device", "options"),
    [
        ("9p", "fileserver", "rw,trans=tcp"),
        ("nfs", "server:/export", "rw"),
        ("ceph", "a@b.c=/", "rw"),
        ("fuse.sshfs", "ann@server:", "rw"),
        ("fuse.s3fs", "s3fs", "rw"),
    ],
    ids=["host name", "no address", "no monitor", "sshfs host name", "untold"],
)
def test_a_server_that_is_not_told_is_unknown_for_every_interface(
    tree: Tree, kind: str, device: str, options: str
) -> None:
    tree.mount(kind, device, options)
    assert f"{kind} on /home" in tree.facts("eth2").unknown[0]


def test_a_server_without_a_route_is_unknown(tree: Tree) -> None:
    tree.routes.clear()
    tree.mount("nfs", "server:/export", "rw,addr=203.0.113.4")
    assert "no route to its server 203.0.113.4" in tree.facts("eth2").unknown[0]


@pytest.mark.parametrize(
    ("kind", "device"),
    [("fuse.sshfs", "ann@[2001:db8:1::4]:/x"), ("lustre", "192.0.2.4@tcp,203.0.113.4@tcp:/x")],
)
def test_hosts_in_brackets_and_lists_are_understood(tree: Tree, kind: str, device: str) -> None:
    tree.routes.append(route("eth1", "2001:db8:1::/64"))
    tree.mount(kind, device, "rw")
    assert len(told(tree.facts("eth1"))) == 1


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_an_nvme_controller_is_on_the_interface_towards_its_target(tree: Tree, transport: str) -> None:
    tree.write("sys/class/nvme/nvme1/transport", f"{transport}\n")
    tree.write("sys/class/nvme/nvme1/address", "traddr=203.0.113.4,trsvcid=4420,src_addr=198.51.100.10\n")
    assert told(tree.facts("eth1")) == [f"NVMe over {transport} nvme1 from 203.0.113.4"]
    assert told(tree.facts("eth2")) == []


def test_local_disks_depend_on_no_interface(tree: Tree) -> None:
    tree.write("sys/class/nvme/nvme0/transport", "pcie\n")
    tree.write("sys/class/nvme/nvme0/address", "0000:01:00.0\n")
    tree.write("sys/block/nbd0/size", "0\n")
    assert told(tree.facts("eth2")) == []


@pytest.mark.parametrize(("file", "what"), [("nbd0/pid", "NBD nbd0"), ("rbd0/size", "RBD rbd0")])
def test_a_network_disk_whose_server_is_not_told_is_unknown(tree: Tree, file: str, what: str) -> None:
    tree.write(f"sys/block/{file}", "1\n")
    assert what in tree.facts("eth2").unknown[0]


def test_an_iscsi_session_is_on_the_interface_towards_its_target(tree: Tree) -> None:
    tree.write("sys/class/iscsi_connection/connection1:0/address", "203.0.113.4\n")
    assert told(tree.facts("eth1")) == ["iSCSI connection1:0 from 203.0.113.4"]
    assert told(tree.facts("eth2")) == []


@pytest.mark.parametrize("entry", ["brport", "bonding_slave", "bridge", "bonding"])
def test_members_and_masters_are_told(tree: Tree, entry: str) -> None:
    tree.device("eth2", f"{entry}/state")
    facts = tree.facts("eth2")
    assert [each.where for each in facts.dependents] == [f"sys/class/net/eth2/{entry}"]
    assert told(tree.facts("eth3")) == []


@pytest.mark.parametrize(
    ("master", "of_member"),
    [("team0", "it is a member of team0"), ("ovs-system", "Open vSwitch forwards through it")],
)
def test_members_and_masters_that_only_a_link_in_sysfs_shows_are_told(
    tree: Tree, master: str, of_member: str
) -> None:
    tree.master("eth2", master)
    tree.master("eth3", master)
    above = f"eth2, eth3 send through it, through {master}"
    assert told(tree.facts("eth2")) == [of_member, above]
    assert told(tree.facts(master)) == ["eth2, eth3 send through it"]
    assert told(tree.facts("eth1")) == []


def test_a_bridge_port_is_told_once(tree: Tree) -> None:
    tree.master("eth2", "br0")
    tree.device("eth2", "brport/state")
    tree.device("br0", "bridge/bridge_id")
    assert told(tree.facts("eth2")) == ["a bridge forwards through it", "it is a bridge, through br0"]


def test_what_stands_on_a_stacked_interface_stands_on_the_lowest(tree: Tree) -> None:
    tree.device("eth2", "upper_vlan5/ifindex")
    tree.device("vlan5", "upper_top/ifindex")
    tree.device("top")
    tree.routes.append(route("top", "0.0.0.0/0", metric=50))
    assert told(tree.facts("eth2")) == ["the default route 0.0.0.0/0, through top"]
    assert told(tree.facts("eth3")) == []


@pytest.fixture
def vpn(tree: Tree) -> Tree:
    """A machine whose default route goes through a tunnel."""
    tree.device("wg0")
    tree.routes.append(route("wg0", "0.0.0.0/1"))
    return tree


@pytest.mark.parametrize("kind", ["wireguard", "gre", "ipip", "vxlan"])
def test_what_stands_on_a_tunnel_stands_on_the_interface_towards_its_endpoint(vpn: Tree, kind: str) -> None:
    vpn.tunnels.append(tunnel("wg0", "203.0.113.4", kind=kind))
    assert told(vpn.facts("eth1")) == ["the default route 0.0.0.0/1, through wg0"]
    assert told(vpn.facts("eth2")) == []


def test_each_endpoint_of_a_tunnel_counts(vpn: Tree) -> None:
    vpn.tunnels.append(tunnel("wg0", "203.0.113.4", "192.0.2.4"))
    assert told(vpn.facts("eth1")) == ["the default route 0.0.0.0/1, through wg0"]
    assert "the default route 0.0.0.0/1, through wg0" in told(vpn.facts("eth0"))


def test_a_tunnels_endpoint_is_looked_for_in_every_table(vpn: Tree) -> None:
    vpn.tunnels.append(tunnel("wg0", "203.0.113.4"))
    vpn.routes += [
        route("wg0", "0.0.0.0/0", table="51820"),
        route("eth2", "203.0.113.4/32", table="7"),
    ]
    for name in ("eth1", "eth2"):
        assert "the default route 0.0.0.0/1, through wg0" in told(vpn.facts(name))
    assert told(vpn.facts("eth3")) == []


def test_a_tunnel_that_names_its_interface_stands_on_that(vpn: Tree) -> None:
    vpn.tunnels.append(tunnel("wg0", kind="vxlan", bound_to="eth2"))
    assert told(vpn.facts("eth2")) == ["the default route 0.0.0.0/1, through wg0"]
    assert told(vpn.facts("eth1")) == []


def test_a_tunnel_inside_a_tunnel_stands_on_the_lowest(vpn: Tree) -> None:
    vpn.device("gre1")
    vpn.addresses["gre1"] = frozenset({ip_address("10.9.0.1")})
    vpn.routes.append(route("gre1", "10.9.0.0/24"))
    vpn.tunnels += [tunnel("wg0", "10.9.0.2"), tunnel("gre1", "203.0.113.4", kind="gre")]
    vpn.append("proc/net/tcp", tcp_row("10.9.0.1", 22))
    assert told(vpn.facts("eth1")) == [
        "the default route 0.0.0.0/1, through wg0",
        "an ssh session to 10.9.0.1, through gre1",
    ]


@pytest.mark.parametrize("endpoints", [(), ("2001:db8:7::1",)], ids=["none known", "no route to it"])
def test_a_used_tunnel_whose_carrier_is_not_known_is_unknown_for_every_interface(
    vpn: Tree, endpoints: tuple[str, ...]
) -> None:
    vpn.routes = [each for each in vpn.routes if each.network.version == 4]
    vpn.tunnels.append(tunnel("wg0", *endpoints, kind="tun"))
    facts = vpn.facts("eth2")
    assert facts.dependents == ()
    assert facts.unknown == ("the default route 0.0.0.0/1: what carries the tunnel wg0 (tun) is not known",)


def test_an_idle_tunnel_depends_on_nothing(tree: Tree) -> None:
    tree.device("tap0")
    tree.tunnels.append(tunnel("tap0", kind="tun"))
    assert told(tree.facts("eth2")) == []
    assert told(tree.facts("tap0")) == []


@pytest.mark.parametrize("name", ["proc/net/tcp", "proc/net/tcp6", "proc/self/mountinfo"])
@pytest.mark.parametrize("damage", [Tree.remove, lambda tree, name: tree.append(name, "what is this\n")])
def test_a_file_that_is_missing_or_odd_is_unknown_never_nothing(
    tree: Tree, name: str, damage: Callable[[Tree, str], None]
) -> None:
    damage(tree, name)
    assert tree.facts("eth2").unknown


def test_a_kernel_without_ipv6_is_known(tree: Tree) -> None:
    for name in ("if_inet6", "tcp6"):
        tree.remove(f"proc/net/{name}")
    assert told(tree.facts("eth2")) == []


def test_a_missing_interface_is_unknown(tree: Tree) -> None:
    assert "No such file" in tree.facts("nosuch").unknown[0]


def test_no_tree_at_all_is_unknown_in_every_respect(tmp_path: Path) -> None:
    facts = Tree(tmp_path / "good").facts("eth2")
    assert facts.unknown == ()
    nothing = NetlinkFacts(addresses={}, routes=(), tunnels=())
    facts = management_facts("eth2", netlink=lambda: nothing, root=tmp_path / "empty")
    assert [reason.partition(":")[0] for reason in facts.unknown] == [
        "interfaces stacked on it",
        "ssh sessions",
        "network file systems",
    ]


def test_a_netlink_that_refuses_is_unknown(tree: Tree) -> None:
    def refused() -> NetlinkFacts:
        raise PermissionError(1, "Operation not permitted")

    facts = management_facts("eth2", netlink=refused, root=tree.root)
    assert facts.unknown == ("routes, addresses and tunnels: [Errno 1] Operation not permitted",)


@pytest.mark.parametrize("name", ["", ".", "..", "../eth0", "a/b"])
def test_a_name_that_no_interface_can_have_is_refused(tree: Tree, name: str) -> None:
    with pytest.raises(WorkloadError, match="no interface can have this name"):
        tree.facts(name)
