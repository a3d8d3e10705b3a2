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


def accepted(profile: Profile, name: str, asked: Scalar, current: Settings) -> int:
    """What the card of `profile` makes of `asked`, with `current` in force.

    Raises
    ------
    WorkloadError
        A setting of which nothing tells what it does here.
    CapabilityMissingError, SettingRefusedError
        As `labkit.drivers.facts.DriverFacts.accepted` says.
    """
    rules = setting_rules(profile)
    taken = profile.driver.accepted(name, asked, current)
    if taken is None and name in rules:
        taken = rules[name].accepted(whole_number(name, asked), name)
    if taken is None:
        raise WorkloadError(
            f"sim:{profile.name}: it is not known what {name} does here; known: {listed(sorted(rules))}"
        )
    return whole_number(name, taken)


def first_value(rule: ValueFacts) -> int:
    """Value in force before anybody turns the setting."""
    return (rule.minimum or 0) if rule.default is None else rule.default
