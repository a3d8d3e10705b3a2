"""Settings of a simulated card as data: its driver's rules, and the kernel's own for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from labkit.drivers.values import ValueFacts, whole_number
from labkit.errors import WorkloadError, listed
from labkit.factors import Scalar, Settings
from labkit.simnic.config import NEVER_FULL_BYTES
from labkit.simnic.profile import Profile

_BQL: Final = "net/core/net-sysfs.c, bql_set_limit: above DQL_MAX_LIMIT EINVAL; lib/dynamic_queue_limits.c"

KERNEL_RULES: Final[Mapping[str, ValueFacts]] = {
    "mtu": ValueFacts(
        default=1500, minimum=68, maximum=1500, source="eth_change_mtu: 68 to ETH_DATA_LEN, else EINVAL"
    ),
    "txqueuelen": ValueFacts(
        default=1000,
        minimum=1,
        maximum=1_000_000,
        source="ether_setup: 1000; the simulated pfifo_fast holds at least one frame",
    ),
    "bql_limit_min": ValueFacts(default=0, minimum=0, maximum=NEVER_FULL_BYTES, source=_BQL),
    "bql_limit_max": ValueFacts(default=NEVER_FULL_BYTES, minimum=0, maximum=NEVER_FULL_BYTES, source=_BQL),
    "tcp_limit_output_bytes": ValueFacts(
        default=131_072, minimum=0, maximum=2**31 - 1, source="tcp_output.c: sysctl_tcp_limit_output_bytes"
    ),
}

ORDER: Final = (
    *("rx_ring", "tx_ring", "rx_usecs", "rx_frames", "tx_usecs", "tx_frames"),
    *("channels", "mtu", "txqueuelen", "bql_limit_min", "bql_limit_max", "tcp_limit_output_bytes"),
)
"""Settings that the event loop heeds, in the order in which a device's are written."""


def setting_rules(profile: Profile) -> dict[str, ValueFacts]:
    """Rule of each setting that the card of `profile` has, its driver's before the kernel's."""
    rules = {**KERNEL_RULES, **profile.driver.values}
    absent = set() if "tcp" in profile.engines else {"tcp_limit_output_bytes"}
    if not profile.bql:
        absent |= {"bql_limit_min", "bql_limit_max"}
    return {name: rules[name] for name in ORDER if name in rules and name not in absent}


def first_value(rule: ValueFacts) -> int:
    """Value in force before anybody turns the setting."""
    return (rule.minimum or 0) if rule.default is None else rule.default


def accepted_value(profile: Profile, name: str, asked: Scalar, in_force: Settings) -> int:
    """What the card's driver, or the kernel above it, makes of `asked`; `in_force` are its other settings.

    Raises
    ------
    WorkloadError
        Not a whole number, or a setting of which it is not known what it does on this card.
    CapabilityMissingError, SettingRefusedError
        As `labkit.drivers.facts.DriverFacts.accepted` says.
    """
    taken = profile.driver.accepted(name, asked, in_force)
    if taken is not None:
        return whole_number(name, taken)
    rules = setting_rules(profile)
    if name not in rules:
        known = listed(sorted(rules))
        raise WorkloadError(f"sim:{profile.name}: it is not known what {name} does here; known: {known}")
    return rules[name].accepted(whole_number(name, asked), name)


def accepted(profile: Profile, asked: Settings) -> dict[str, Scalar]:
    """The card's first values and what becomes of `asked`.

    Raises
    ------
    WorkloadError, CapabilityMissingError, SettingRefusedError
        As `accepted_value` says.
    """
    found: dict[str, Scalar] = {name: first_value(rule) for name, rule in setting_rules(profile).items()}
    for name, value in asked.items():
        found[name] = accepted_value(profile, name, value, found)
    return found
