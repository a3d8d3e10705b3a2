"""What a host's device is, and what can be turned on it."""

from __future__ import annotations

from labkit.agent.interrupts import DeviceInterrupts
from labkit.drivers.choose import facts_of
from labkit.errors import CapabilityMissingError
from labkit.linux.ethtool import Ethtool
from labkit.linux.ethtool_ioctl import DriverInfo
from labkit.linux.interfaces import Interface
from labkit.linux.links import Links
from labkit.linux.namespaces import network_inode
from labkit.nic.ethtool_knobs import ethtool_knobs, resets_link
from labkit.nic.journal import Device
from labkit.nic.knob import Knob
from labkit.nic.link_knobs import link_knobs
from labkit.nic.queue_knobs import queue_knobs
from labkit.nic.sysctl_knobs import sysctl_knobs


def device_knobs(links: Links, ethtool: Ethtool, interface: Interface) -> dict[str, Knob]:
    """Everything that can be turned on a device and about it, in the order in which it is written."""
    info = driver_of(ethtool, interface.name)
    facts = facts_of(info.driver)
    return {
        **ethtool_knobs(ethtool, interface, facts),
        **link_knobs(links, interface, mtu_resets_link=resets_link("mtu", facts)),
        **queue_knobs(interface, interrupts=interrupts_of(info, interface).turnable),
        **sysctl_knobs(),
    }


def driver_of(ethtool: Ethtool, name: str) -> DriverInfo:
    """What the driver says of itself; one that says nothing, as that of `lo`, has no name."""
    try:
        return ethtool.driver_info(name)
    except CapabilityMissingError:
        return DriverInfo(driver="", version=None, firmware=None, bus=None)


def interrupts_of(info: DriverInfo, interface: Interface) -> DeviceInterrupts:
    """Interrupts of the queues of `interface`, whose driver says `info` of itself."""
    return DeviceInterrupts(interface, info.bus, facts_of(info.driver).interrupt_names)


def device_of(links: Links, ethtool: Ethtool, name: str) -> Device:
    """Which interface `name` is, so that it is found again under another name or number.

    A MAC alone tells nobody apart: a VLAN has that of its device, and so have a virtual function and the
    synthetic device in front of it. So the place on a bus belongs to it, or else the number.
    """
    link = links.facts(name)
    bus = driver_of(ethtool, name).bus
    # every tap says that its bus is "tap": only a place on a bus has a number
    place = bus if bus is not None and any(map(str.isdigit, bus)) else None
    mac = links.permanent_address(name) or ("" if place else link.mac)
    hardware = f"{mac} at {place or f'number {link.ifindex}'}"
    return Device(netns_inode=network_inode(), ifindex=link.ifindex, ifname=name, hardware=hardware)
