"""Facts of a driver by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from labkit.drivers import interrupt_names
from labkit.drivers.facts import DriverFacts
from labkit.drivers.intel import E1000E, I40E, ICE, IGB, IGC
from labkit.drivers.ixgbe import IXGBE
from labkit.drivers.others import BNXT, GIANFAR, MLX5, TG3
from labkit.drivers.virtual import ENA, TAP, VETH, VIRTIO_NET, VMXNET3

KNOWN: Final[Mapping[str, DriverFacts]] = {
    facts.name: facts
    for facts in (
        *(IXGBE, IGB, E1000E, IGC, I40E, ICE),
        *(MLX5, TG3, BNXT, GIANFAR),
        *(VIRTIO_NET, VMXNET3, ENA, VETH, TAP),
    )
}
"""Facts by the name that ``ethtool -i`` shows."""

ALIASES: Final = {
    "mlx5": "mlx5_core",
    "bnxt": "bnxt_en",
    "tap": "tun",
    "gianfar": "gfar-enet",
    "virtio": "virtio_net",
}
"""What people call drivers that ``ethtool -i`` calls otherwise."""


def facts_of(driver: str) -> DriverFacts:
    """What is known about `driver`; for one that labkit does not know, everything is None."""
    name = ALIASES.get(driver, driver)
    return KNOWN.get(name) or DriverFacts(name=driver, interrupt_names=interrupt_names.ALL)
