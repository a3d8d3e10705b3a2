"""What each driver makes of a setting, and that nothing is assumed about one that is not known."""

from __future__ import annotations

import re

import pytest

from labkit.drivers.choose import ALIASES, KNOWN, facts_of
from labkit.drivers.facts import COALESCE_SETTINGS, RING_SETTINGS
from labkit.drivers.interrupt_names import ALL
from labkit.errors import CapabilityMissingError, SettingRefusedError


@pytest.mark.parametrize(
    ("driver", "asked", "accepted"),
    [
        ("ixgbe", 1001, 1008),
        ("ixgbe", 50, 64),
        ("ena", 1000, 512),
        ("ena", 50, 256),
        ("ena", 1024, 1024),
        ("mlx5", 1000, 1024),
        ("mlx5", 1024, 1024),
        ("ixgbe", 768, 768),
        ("ena", 768, 512),
        ("mlx5", 768, 1024),
        ("e1000e", 300, 304),
        ("e1000e", 1, 64),
        ("igb", 300, 304),
        ("igb", 1, 64),
        ("vmxnet3", 300, 320),
        ("vmxnet3", 1, 32),
        ("virtio_net", 1, 1),
        ("i40e", 65, 96),
        ("ice", 8160, 8160),
        ("gianfar", 128, 128),
        ("tg3", 510, 510),
        ("bnxt", 511, 511),
    ],
)
def test_each_driver_rounds_a_ring_in_its_own_way(driver: str, asked: int, accepted: int) -> None:
    facts = facts_of(driver)
    assert facts.accepted("tx_ring", asked) == accepted
    assert facts.accepted("tx_ring", accepted) == accepted


@pytest.mark.parametrize(
    ("driver", "setting", "asked"),
    [
        ("e1000e", "tx_ring", 65536),
        ("igb", "rx_ring", 4097),
        ("i40e", "tx_ring", 63),
        ("ice", "tx_ring", 8161),
        ("gianfar", "rx_ring", 100),
        ("mlx5", "tx_ring", 63),
        ("tg3", "tx_ring", 17),
        ("bnxt", "tx_ring", 2048),
        ("vmxnet3", "tx_ring", 0),
        *(("igb", "rx_usecs", usecs) for usecs in (2, 4, 9, 10_001)),
        *(("igc", "tx_usecs", usecs) for usecs in (2, 4, 9, 10_001)),
        *(("e1000e", "rx_usecs", usecs) for usecs in (2, 5, 9, 1_000_000)),
        ("ice", "rx_usecs", 8161),
    ],
)
def test_a_refusal_names_setting_value_and_a_way_out(driver: str, setting: str, asked: int) -> None:
    with pytest.raises(SettingRefusedError, match=rf"^{setting} {asked}: .*; ask for \d+") as refused:
        facts_of(driver).accepted(setting, asked)
    assert refused.value.errno is not None


def test_a_ring_that_is_no_power_of_two_is_refused_with_both_neighbours() -> None:
    with pytest.raises(SettingRefusedError, match="ask for 64 or 128"):
        facts_of("gianfar").accepted("tx_ring", 100)


@pytest.mark.parametrize(
    ("driver", "codes"), [("igb", (0, 1, 3)), ("igc", (0, 1, 3)), ("e1000e", (0, 1, 3, 4))]
)
def test_codes_are_taken_as_they_are_and_mean_no_interval(driver: str, codes: tuple[int, ...]) -> None:
    facts = facts_of(driver)
    assert [facts.accepted("rx_usecs", code) for code in codes] == list(codes)
    assert [facts.effective("rx_usecs", code) for code in codes] == [None] * len(codes)


def test_ice_rounds_an_interval_down_and_i40e_up() -> None:
    assert facts_of("ice").accepted("rx_usecs", 25) == 24
    assert facts_of("i40e").accepted("rx_usecs", 25) == 26
    assert facts_of("ice").effective("rx_usecs", 24) == 24.0


@pytest.mark.parametrize("driver", ["i40e", "ice"])
def test_an_interval_is_refused_while_adaptive_is_on(driver: str) -> None:
    facts = facts_of(driver)
    with pytest.raises(SettingRefusedError, match="adaptive-rx is on; turn adaptive_rx off first"):
        facts.accepted("rx_usecs", 50, {"adaptive_rx": True})
    assert facts.accepted("rx_usecs", 50, {"adaptive_rx": False, "adaptive_tx": True}) == 50


@pytest.mark.parametrize(
    ("driver", "setting"),
    [
        ("veth", "tx_ring"),
        ("veth", "rx_usecs"),
        ("tap", "rx_usecs"),
        ("e1000e", "tx_usecs"),
        ("igb", "rx_frames"),
    ],
)
def test_a_setting_that_the_driver_lacks_is_not_called_a_bad_value(driver: str, setting: str) -> None:
    with pytest.raises(CapabilityMissingError, match=f"has no {setting}"):
        facts_of(driver).accepted(setting, 7)


def test_tap_takes_frames_up_to_a_poll() -> None:
    assert facts_of("tap") is facts_of("tun")
    assert facts_of("tap").accepted("rx_frames", 7) == 7
    assert facts_of("tap").accepted("rx_frames", 1000) == 64


def test_adaptive_is_accepted_where_it_exists() -> None:
    assert facts_of("ice").accepted("adaptive_rx", asked=True) is True
    with pytest.raises(CapabilityMissingError):
        facts_of("igb").accepted("adaptive_rx", asked=True)


def test_nothing_is_assumed_about_an_unknown_driver() -> None:
    facts = facts_of("frobnic")
    assert (facts.name, facts.kernel, facts.source) == ("frobnic", None, None)
    assert facts.accepted("tx_ring", 1001) is None
    assert facts.effective("tx_ring", 1001) is None
    assert facts.accepted("adaptive_rx", asked=True) is None
    assert facts.has("tx_ring") is None
    assert facts.resets("tx_ring") is None
    assert facts.counters == {}
    assert facts.interrupt_names == ALL


def test_resets_are_known_to_happen_known_not_to_or_unknown() -> None:
    facts = facts_of("igb")
    assert facts.resets("tx_ring") is True
    assert facts.resets("rx_usecs") is False
    assert facts.resets("mtu") is None
    assert facts_of("ixgbe").resets("rx_usecs") is True
    assert facts_of("virtio_net").resets("tx_ring") is False
    assert facts_of("virtio_net").resets("mtu") is False


@pytest.mark.parametrize("name", [*KNOWN, *ALIASES])
def test_every_fact_has_a_source_and_known_names(name: str) -> None:
    facts = facts_of(name)
    assert facts.source
    assert facts.counters_source or not facts.counters
    assert all(rule.source for rule in facts.values.values())
    assert (facts.rings or frozenset()) <= RING_SETTINGS
    assert (facts.coalesce or frozenset()) <= COALESCE_SETTINGS
    assert facts.values.keys() | facts.resets_link <= RING_SETTINGS | COALESCE_SETTINGS
    assert all(re.compile(pattern.pattern) and pattern.source for pattern in facts.interrupt_names)


@pytest.mark.parametrize("name", KNOWN)
def test_a_default_is_accepted_as_it_is(name: str) -> None:
    facts = facts_of(name)
    defaults = {setting: rule.default for setting, rule in facts.values.items() if rule.default is not None}
    assert {setting: facts.accepted(setting, value) for setting, value in defaults.items()} == defaults
