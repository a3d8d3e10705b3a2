"""The card of an emulated machine at which frames arrive: in a namespace of its own, taking in all."""

from __future__ import annotations

from typing import Final

from labkit.agent.device_facts import driver_of, interrupts_of
from labkit.drivers.choose import facts_of
from labkit.linux import namespaces
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import NamedInterface
from labkit.linux.links import LinkFacts, Links, switch_ipv6_off
from labkit.nic.ethtool_knobs import ethtool_knobs
from labkit.nic.knob import Knob
from labkit.nic.link_knobs import link_knobs

TURNED_ALONG: Final = ("mtu", "rx_usecs", "rx_frames")
"""Settings of the sending card that this one gets too: what arrives is moderated here."""


class FarCard:
    """It is found by its name in the agent's own namespace, and taken away from there.

    Parameters
    ----------
    name : str
        The card.
    here : Links
        Links of the namespace in which it is.
    namespace : str
        What `ip netns` calls the one that it gets.
    """

    def __init__(self, name: str, here: Links, namespace: str) -> None:
        self.network = namespaces.new_network()
        namespaces.name_network(self.network, namespace)
        here.move(name, self.network)
        with namespaces.inside(self.network):
            switch_ipv6_off()
            self._links, self._ethtool = Links(), Ethtool()
            self.interface = NamedInterface(name, self._links.index(name))
            self.interrupts = interrupts_of(driver_of(self._ethtool, name), self.interface)
        self._widen()
        self._links.set_promiscuous(name)
        self._links.set_up(name, up=True)

    def facts(self) -> LinkFacts:
        """State of its link."""
        return self._links.facts(self.interface.name)

    def knobs(self) -> dict[str, Knob]:
        """Those of `TURNED_ALONG` that it has."""
        driver = driver_of(self._ethtool, self.interface.name).driver
        found: dict[str, Knob] = {
            **ethtool_knobs(self._ethtool, self.interface, facts_of(driver)),
            **link_knobs(self._links, self.interface),
        }
        return {name: knob for name, knob in found.items() if name in TURNED_ALONG}

    def close(self) -> None:
        """Close its sockets; the namespace ends with the machine."""
        self._links.close()
        self._ethtool.close()

    def _widen(self) -> None:
        """Give it the largest ring, which holds what comes while the one CPU sends."""
        most = self._ethtool.ring_maxima(self.interface.ifindex).get("rx_ring")
        if most is not None and self._ethtool.rings(self.interface.ifindex).get("rx_ring") != most:
            self._ethtool.set_rings(self.interface.ifindex, {"rx_ring": most})
