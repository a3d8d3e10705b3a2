"""What becomes of netlink's messages about routes and tunnels, on messages of the kernel's form."""

from __future__ import annotations

import socket
from typing import Any, Self

import pytest

from labkit.linux import net_facts
from labkit.linux.net_facts import routes_of, tunnels_of

NAMES = {1: "lo", 2: "eth0", 3: "eth1", 4: "tun0"}


class Message(dict[str, Any]):
    """A netlink message, or a nest of attributes, as pyroute2 hands it out."""

    def get_attr(self, name: str) -> Any:
        return next((value for word, value in self.get("attrs", ()) if word == name), None)


def route(*attributes: tuple[str, Any], kind: int = 1, table: int = 254, bits: int = 0) -> Message:
    return Message(family=socket.AF_INET, type=kind, table=table, dst_len=bits, attrs=attributes)


def link(kind: str, data: object = None, *attributes: tuple[str, Any]) -> Message:
    info = Message(attrs=[("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", data)])
    return Message(index=4, attrs=[("IFLA_LINKINFO", info), *attributes])


def tunnel(*words: Any, far_ends: Any = ()) -> tuple[list[str], str | None]:
    [found] = tunnels_of([link(*words)], NAMES, far_ends)
    return [str(end) for end in found.endpoints], found.bound_to


def test_each_next_hop_is_a_route_of_its_table() -> None:
    hops = [{"oif": 2}, {"oif": 3}]
    found = list(routes_of(route(("RTA_MULTIPATH", hops), ("RTA_TABLE", 1000), table=252), NAMES))
    assert [(each.interface, each.source) for each in found] == [
        ("eth0", "routing table 1000"),
        ("eth1", "routing table 1000"),
    ]


@pytest.mark.parametrize(
    "kind", [2, 3, 6, 7, 8], ids=["local", "broadcast", "blackhole", "unreachable", "prohibit"]
)
def test_a_route_that_refuses_or_is_local_leads_nowhere(kind: int) -> None:
    assert list(routes_of(route(("RTA_OIF", 1), kind=kind), NAMES)) == []


def test_a_next_hop_object_that_is_not_spelled_out_is_no_route_without_interface() -> None:
    with pytest.raises(ValueError, match=r"routing table main: the route 0\.0\.0\.0/0 does not tell"):
        list(routes_of(route(("RTA_NH_ID", 7)), NAMES))


@pytest.mark.parametrize(
    ("kind", "word"),
    [("gre", "IFLA_GRE_REMOTE"), ("ipip", "IFLA_IPIP_REMOTE"), ("vxlan", "IFLA_VXLAN_GROUP")],
)
def test_a_tunnel_tells_its_other_end_and_its_interface(kind: str, word: str) -> None:
    bound = word.rpartition("_")[0] + "_LINK"
    assert tunnel(kind, Message(attrs=[(word, "192.0.2.9"), (bound, 3)])) == (["192.0.2.9"], "eth1")
    assert tunnel(kind, Message(attrs=[(word, "192.0.2.9"), (bound, 0)])) == (["192.0.2.9"], None)
    assert tunnel(kind, Message(attrs=[(word, "0.0.0.0")])) == ([], None)  # noqa: S104 - an address in a message
    assert tunnel(kind, "c0:00:02:09") == ([], None)


def test_other_ends_of_a_vxlan_come_from_its_forwarding_table_too() -> None:
    assert tunnel("vxlan", Message(attrs=[]), far_ends=[(4, "192.0.2.8"), (3, "192.0.2.7"), (4, None)]) == (
        ["192.0.2.8"],
        None,
    )


def test_wireguards_peers_are_its_other_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = [
        Message(attrs=[("WGPEER_A_ENDPOINT", {"addr": "192.0.2.9", "port": 51820})]),
        Message(attrs=[]),
    ]

    class Wireguard:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *error: object) -> None: ...

        def info(self, name: str) -> list[Message]:
            assert name == "tun0"
            return [Message(attrs=[("WGDEVICE_A_PEERS", peers)])]

    monkeypatch.setattr(net_facts, "WireGuard", Wireguard)
    assert tunnel("wireguard") == (["192.0.2.9"], None)


def test_other_links_and_tunnels_of_another_namespace_are_none_of_ours() -> None:
    links = [link("veth"), link("gre", None, ("IFLA_LINK_NETNSID", 0)), Message(index=1, attrs=[])]
    assert list(tunnels_of(links, NAMES, ())) == []
