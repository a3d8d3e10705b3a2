"""The guard's decision, and the list of changes that is shown before any is made. All pure."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import CapabilityMissingError, SettingRefusedError, WorkloadError
from labkit.linux.management import Dependent, ManagementFacts
from labkit.nic.guard import change_list, check_interface
from labkit.nic.profiles import settings_profile

ROUTE = Dependent(what="the default route 0.0.0.0/0", where="routing table main")


def facts(*dependents: Dependent, unknown: tuple[str, ...] = ()) -> ManagementFacts:
    return ManagementFacts(interface="eth0", dependents=dependents, unknown=unknown)


def test_an_interface_that_nothing_depends_on_passes() -> None:
    check_interface(facts())
    check_interface(facts(), i_know="eth5")


def test_refusal_says_what_depends_where_and_how_to_override() -> None:
    with pytest.raises(SettingRefusedError) as refused:
        check_interface(facts(ROUTE, unknown=("ssh sessions: denied",)))
    for said in ("eth0", ROUTE.what, ROUTE.where, "unknown: ssh sessions: denied", "--i-know eth0"):
        assert said in str(refused.value)


def test_what_is_unknown_refuses_alone() -> None:
    with pytest.raises(SettingRefusedError, match="unknown: default routes: no such file"):
        check_interface(facts(unknown=("default routes: no such file",)))


def test_repeating_the_exact_name_overrides() -> None:
    check_interface(facts(ROUTE, unknown=("mounts",)), i_know="eth0")


@pytest.mark.parametrize(
    "i_know", [None, "", "eth", "eth00", "ETH0", " eth0", "eth0\n", "*", "eth1", True, 1]
)
def test_nothing_but_the_exact_name_overrides(i_know: Any) -> None:
    with pytest.raises(SettingRefusedError):
        check_interface(facts(ROUTE), i_know=i_know)


def test_another_name_is_pointed_out() -> None:
    with pytest.raises(SettingRefusedError, match="--i-know eth1 is another name"):
        check_interface(facts(ROUTE), i_know="eth1")


@pytest.mark.parametrize("variable", ["LABKIT_I_KNOW", "I_KNOW", "LABKIT_FORCE"])
def test_no_variable_overrides(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "eth0")
    with pytest.raises(SettingRefusedError):
        check_interface(facts(ROUTE))


def test_change_list_says_each_change_and_the_outage() -> None:
    told = change_list(
        {"tx_ring": 1024, "rx_usecs": 30, "gro": False, "mtu": 1500},
        {"tx_ring": 512, "gro": True, "mtu": 1500},
        {"tx_ring": 3.0, "mtu": 2.0},
    )
    assert told.splitlines() == [
        "  tx_ring   512 -> 1024  (link down and up, at most 3 s)",
        "  rx_usecs  not reported -> 30",
        "  gro       on -> off",
        "  already so: mtu",
        "The link goes down and up 1 time, at most 3 s in all.",
    ]


def test_change_list_adds_outages_and_does_not_invent_unknown_ones() -> None:
    asked, current = {"a": 1, "b": 1}, {"a": 0, "b": 0}
    assert "2 times, at most 3.5 s in all" in change_list(asked, current, {"a": 1.5, "b": 2.0})
    told = change_list(asked, current, {"a": 1.5, "b": None})
    assert "b  0 -> 1  (link down and up)" in told
    assert told.endswith("2 times, for an unknown time.")


def test_change_list_says_when_the_link_stays_up_or_nothing_changes() -> None:
    assert change_list({"gro": True}, {"gro": False}, {}).endswith("The link stays up.")
    assert change_list({"gro": True}, {"gro": True}, {"gro": 1.0}).endswith("Nothing changes.")
    assert change_list({}, {"gro": True}, {}) == "Nothing changes."


def test_overload_profile_is_pause_off_thirty_usecs_and_a_cpu_for_each_queue() -> None:
    settings = settings_profile("overload", "ixgbe", interrupts=4, cpus=(0, 1, 2)).settings
    assert settings == {
        "rx_usecs": 30,
        "pause_rx": False,
        "pause_tx": False,
        "irq_affinity": "0;1;2;0",
    }


@pytest.mark.parametrize("driver", ["i40e", "ice", "mlx5_core"])
def test_overload_profile_switches_adaptive_off_before_fixed_values(driver: str) -> None:
    names = list(settings_profile("overload", driver, interrupts=0, cpus=()).settings)
    assert names.index("adaptive_rx") < names.index("rx_usecs")
    assert "irq_affinity" not in names


def test_overload_profile_leaves_out_what_a_driver_lacks() -> None:
    virtio = settings_profile("overload", "virtio_net", interrupts=2, cpus=[3])
    assert virtio.settings == {"irq_affinity": "3"}
    assert "notification coalescing" in virtio.note
    gianfar = settings_profile("overload", "gfar-enet", interrupts=0, cpus=()).settings
    assert gianfar["rx_frames"]


def test_an_unknown_driver_gets_the_plain_values_and_a_warning() -> None:
    profile = settings_profile("overload", "newnic", interrupts=1, cpus=[0])
    assert profile.settings["rx_usecs"] == 30
    assert "read back" in profile.note


def test_profiles_that_make_no_sense_are_refused() -> None:
    with pytest.raises(WorkloadError, match="overload"):
        settings_profile("quiet", "ixgbe", interrupts=1, cpus=[0])
    with pytest.raises(WorkloadError, match="at least one CPU"):
        settings_profile("overload", "ixgbe", interrupts=1, cpus=[])
    with pytest.raises(CapabilityMissingError, match="veth"):
        settings_profile("overload", "veth", interrupts=0, cpus=[0])
