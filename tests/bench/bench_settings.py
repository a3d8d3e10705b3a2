"""How long a device's settings take: all of them read, as every trial does, on a veth and a tap."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from labkit.agent.device_facts import device_knobs
from labkit.factors import Scalar
from labkit.linux import namespaces
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import HeldInterface
from labkit.linux.links import Links
from labkit.nic.apply import SettingsHost
from labkit.nic.journal import MemoryJournal
from tests.bench.script import Absolute, at_most, main
from tests.network.nic_host import TAP, TX, add_veth, enter_private_mounts, tap
from tests.network.private import enter_private_network

READ_ALL_MS = 20
FEWEST = 40
"""Settings that each of both devices has at least, lest a bench of nothing is quick."""


def measure(pairs: int, limit: int) -> Iterator[Absolute]:
    """Each figure with its goal, on devices of a private host."""
    enter_private_network()
    enter_private_mounts()
    namespaces.mount_sysfs()
    add_veth()
    with tap(), closing(Links()) as links, closing(Ethtool()) as ethtool:
        for kind, name in (("veth of 4 queues", TX), ("tap", TAP)):
            knobs = device_knobs(links, ethtool, HeldInterface(name))
            host = SettingsHost(name, knobs, MemoryJournal(), lambda: True)
            yield at_most(f"all settings of a {kind} read", milliseconds(host.current), READ_ALL_MS, "ms")


def milliseconds(read: Callable[[], Mapping[str, Scalar]]) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        found = read()
        took = (time.perf_counter() - started) * 1e3
        if len(found) < FEWEST:
            raise AssertionError(f"only {len(found)} settings were read")
        return took

    return run


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
