"""What depends on an interface, read from a fake tree; the machine's own interfaces are never asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.errors import WorkloadError
from labkit.linux.management import ManagementFacts, NetlinkFacts, management_facts
from tests.guard_tree import ANY, ROUTE_HEAD, Tree, ipv4_route, ipv6_route, tcp_row


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def told(facts: ManagementFacts) -> list[str]:
    assert facts.unknown == ()
    return [each.what for each in facts.dependents]


def test_nothing_depends_on_idle_interfaces(tree: Tree) -> None:
    for name in ("eth1", "eth2", "lo"):
        assert told(tree.facts(name)) == []


def test_default_routes_of_both_versions_are_told_with_their_file(tree: Tree) -> None:
    facts = tree.facts("eth0")
    assert [(each.what, each.where) for each in facts.dependents] == [
        ("the default route 0.0.0.0/0", "proc/net/route"),
        ("the default route ::/0", "proc/net/ipv6_route"),
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (ipv4_route("eth2", ANY, "128.0.0.0"), "proc/net/route"),
        (ipv4_route("eth2", "128.0.0.0", "128.0.0.0", metric=600), "proc/net/route"),
        (ipv6_route("eth2", "2000::", 3), "proc/net/ipv6_route"),
    ],
    ids=["lower half", "upper half", "global unicast"],
)
def test_routes_that_act_as_default_ones_are_default_ones(tree: Tree, line: str, name: str) -> None:
    tree.append(name, line)
    assert len(told(tree.facts("eth2"))) == 1


def test_a_route_that_is_down_or_refuses_depends_on_nothing(tree: Tree) -> None:
    tree.append("proc/net/route", ipv4_route("eth2", ANY, ANY, flags=0))
    tree.append("proc/net/ipv6_route", ipv6_route("eth2", "::", 0, flags=0x201))
    assert told(tree.facts("eth2")) == []


def test_a_next_hop_that_no_file_shows_is_told_by_netlink(tree: Tree) -> None:
    tree.next_hops = frozenset({"eth0", "eth2"})
    facts = tree.facts("eth2")
    assert [(each.what, each.where) for each in facts.dependents] == [
        ("a next hop of a default route", "netlink")
    ]
    assert len(told(tree.facts("eth0"))) == 2


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
    tree.append("proc/net/route", ipv4_route("eth2", "203.0.113.4", "255.255.255.255", metric=900))
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
    [("9p", "fileserver", "rw,trans=tcp"), ("nfs", "server:/export", "rw"), ("ceph", "a@b.c=/", "rw")],
    ids=["host name", "no address", "no monitor"],
)
def test_a_server_that_is_not_told_is_unknown_for_every_interface(
    tree: Tree, kind: str, device: str, options: str
) -> None:
    tree.mount(kind, device, options)
    assert f"{kind} on /home" in tree.facts("eth2").unknown[0]


def test_a_server_without_a_route_is_unknown(tree: Tree) -> None:
    tree.write("proc/net/route", ROUTE_HEAD)
    tree.mount("nfs", "server:/export", "rw,addr=203.0.113.4")
    assert "no route to its server 203.0.113.4" in tree.facts("eth2").unknown[0]


def test_an_iscsi_session_is_on_the_interface_towards_its_target(tree: Tree) -> None:
    tree.write("sys/class/iscsi_connection/connection1:0/address", "203.0.113.4\n")
    assert told(tree.facts("eth1")) == ["iSCSI connection1:0 from 203.0.113.4"]
    assert told(tree.facts("eth2")) == []


@pytest.mark.parametrize("entry", ["brport", "bonding_slave", "bridge", "bonding", "master"])
def test_members_and_masters_are_told(tree: Tree, entry: str) -> None:
    tree.device("eth2", f"{entry}/state")
    facts = tree.facts("eth2")
    assert [each.where for each in facts.dependents] == [f"sys/class/net/eth2/{entry}"]
    assert told(tree.facts("eth3")) == []


def test_what_stands_on_a_stacked_interface_stands_on_the_lowest(tree: Tree) -> None:
    tree.device("eth2", "upper_vlan5/ifindex")
    tree.device("vlan5", "upper_top/ifindex")
    tree.device("top")
    tree.append("proc/net/route", ipv4_route("top", ANY, ANY, metric=50))
    assert told(tree.facts("eth2")) == ["the default route 0.0.0.0/0, through top"]
    assert told(tree.facts("eth3")) == []


@pytest.mark.parametrize(
    "name", ["proc/net/route", "proc/net/ipv6_route", "proc/net/tcp", "proc/net/tcp6", "proc/self/mountinfo"]
)
@pytest.mark.parametrize("damage", [Tree.remove, lambda tree, name: tree.append(name, "what is this\n")])
def test_a_file_that_is_missing_or_odd_is_unknown_never_nothing(
    tree: Tree, name: str, damage: Callable[[Tree, str], None]
) -> None:
    damage(tree, name)
    assert tree.facts("eth2").unknown


def test_a_kernel_without_ipv6_is_known(tree: Tree) -> None:
    for name in ("if_inet6", "ipv6_route", "tcp6"):
        tree.remove(f"proc/net/{name}")
    assert told(tree.facts("eth2")) == []
    assert len(told(tree.facts("eth0"))) == 1


def test_a_missing_interface_is_unknown(tree: Tree) -> None:
    assert "No such file" in tree.facts("nosuch").unknown[0]


def test_no_tree_at_all_is_unknown_in_every_respect(tmp_path: Path) -> None:
    facts = Tree(tmp_path / "good").facts("eth2")
    assert facts.unknown == ()
    nothing = NetlinkFacts(addresses={}, default_interfaces=frozenset())
    facts = management_facts("eth2", netlink=lambda: nothing, root=tmp_path / "empty")
    assert [reason.partition(":")[0] for reason in facts.unknown] == [
        "interfaces stacked on it",
        "default routes",
        "ssh sessions",
        "network file systems",
    ]


def test_a_netlink_that_refuses_is_unknown(tree: Tree) -> None:
    def refused() -> NetlinkFacts:
        raise PermissionError(1, "Operation not permitted")

    facts = management_facts("eth2", netlink=refused, root=tree.root)
    assert facts.unknown == (
        "default routes: [Errno 1] Operation not permitted",
        "ssh sessions: [Errno 1] Operation not permitted",
    )


@pytest.mark.parametrize("name", ["", ".", "..", "../eth0", "a/b"])
def test_a_name_that_no_interface_can_have_is_refused(tree: Tree, name: str) -> None:
    with pytest.raises(WorkloadError, match="no interface can have this name"):
        tree.facts(name)
