"""ethtool's settings on devices that need no hardware: a tap and a veth pair in a private network."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from pyroute2 import IPRoute

from labkit.audit.run import device_settings
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import NamedInterface
from labkit.nic.ethtool_knobs import ask_for_absent, ethtool_knobs
from tests.network.private import in_private_network, veth_pair

pytestmark = pytest.mark.network
TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x1002


def index_of(name: str) -> int:
    with IPRoute() as ip:
        return int(ip.link_lookup(ifname=name)[0])


@contextmanager
def tap() -> Iterator[int]:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"tap0", IFF_TAP_NO_PI))
        yield index_of("tap0")
    finally:
        os.close(device)


def veth(queues: int = 2) -> int:
    """Make a veth pair of several queues; returns the index of its first end."""
    many = {"num_tx_queues": queues, "num_rx_queues": queues}
    with IPRoute() as ip:
        ip.link("add", ifname="tx0", kind="veth", **many, peer={"ifname": "rx0", **many})
    return index_of("tx0")


@in_private_network
def test_tap_takes_rx_frames_and_has_no_rx_usecs() -> None:
    with tap() as ifindex, closing(Ethtool()) as ethtool:
        ethtool.set_coalesce(ifindex, {"rx_frames": 7})
        assert ethtool.coalesce(ifindex)["rx_frames"] == 7
        with pytest.raises(CapabilityMissingError) as refused:
            ethtool.set_coalesce(ifindex, {"rx_usecs": 7})
        assert refused.value.errno == errno.EINVAL
        assert refused.value.kernel_text == "cannot modify an unsupported parameter (rx_usecs)"
        told = {name for name, value in ethtool.coalesce(ifindex).items() if value is not None}
        assert told == {"rx_frames"}


@in_private_network
def test_tap_knob_writes_and_an_absent_one_refuses() -> None:
    with tap() as ifindex, closing(Ethtool()) as ethtool:
        knobs = ethtool_knobs(ethtool, NamedInterface("", ifindex), None)
        knobs["rx_frames"].write(9)
        assert knobs["rx_frames"].read() == 9
        with pytest.raises(CapabilityMissingError, match="the driver reports no rx_usecs"):
            knobs["rx_usecs"].write(7)
        assert "tx_ring" not in knobs


@in_private_network
def test_veth_has_neither_rings_nor_coalescing() -> None:
    ifindex = veth()
    with closing(Ethtool()) as ethtool:
        asked = [
            lambda: ethtool.rings(ifindex),
            lambda: ethtool.coalesce(ifindex),
            lambda: ethtool.set_rings(ifindex, {"tx_ring": 512}),
            lambda: ethtool.set_coalesce(ifindex, {"rx_usecs": 7}),
        ]
        for ask in asked:
            with pytest.raises(CapabilityMissingError, match="Operation not supported") as refused:
                ask()
            assert refused.value.errno == errno.EOPNOTSUPP
        assert not {"tx_ring", "rx_usecs"} & set(ethtool_knobs(ethtool, NamedInterface("", ifindex), None))


@in_private_network
def test_veth_channels_are_set_read_back_and_bounded() -> None:
    ifindex = veth(queues=4)
    with closing(Ethtool()) as ethtool:
        knobs = ethtool_knobs(ethtool, NamedInterface("", ifindex), None)
        assert ethtool.channel_maxima(ifindex) == {"rx_channels": 4, "tx_channels": 4}
        for count in (1, 3):
            knobs["rx_channels"].write(count)
            knobs["tx_channels"].write(count)
            assert (
                ethtool.channels(ifindex)["rx_channels"] == ethtool.channels(ifindex)["tx_channels"] == count
            )
        with pytest.raises(SettingRefusedError, match="rx_channels 5: the device takes 4 at most"):
            knobs["rx_channels"].write(5)
        with pytest.raises(SettingRefusedError) as refused:
            ethtool.set_channels(ifindex, {"rx_channels": 5})
        assert refused.value.kernel_text == "requested channel count exceeds maximum (rx_channels)"
        assert ethtool.channels(ifindex)["rx_channels"] == 3


@in_private_network
def test_veth_offloads_are_turned_and_put_back() -> None:
    ifindex = veth()
    with closing(Ethtool()) as ethtool:
        before = ethtool.features(ifindex)
        for word in ("gro", "tso"):
            ethtool.set_features(ifindex, {word: not before[word]})
            assert ethtool.features(ifindex)[word] is not before[word]
            ethtool.set_features(ifindex, {word: before[word]})
        assert ethtool.features(ifindex) == before
        with pytest.raises(CapabilityMissingError, match="lro is fixed"):
            ethtool.set_features(ifindex, {"lro": True})


@in_private_network
def test_missing_device_is_told_apart_from_an_unsupported_one() -> None:
    with closing(Ethtool()) as ethtool:
        for ask in (ethtool.rings, ethtool.coalesce, ethtool.channels, ethtool.features):
            with pytest.raises(LabError, match="no such device") as missing:
                ask(999)
            assert type(missing.value) is LabError
        with pytest.raises(LabError, match="nosuch: driver information: no such device"):
            ethtool.driver_info("nosuch")


@in_private_network
def test_name_that_is_too_long_is_not_cut_to_another_interface() -> None:
    with IPRoute() as ip:
        ip.link("add", ifname="fifteen-letters", kind="veth", peer={"ifname": "rx0"})
    with closing(Ethtool()) as ethtool:
        assert ethtool.driver_info("fifteen-letters").driver == "veth"
        with pytest.raises(LabError, match="no such device"):
            ethtool.driver_info("fifteen-letters-more")


@in_private_network
def test_driver_is_named() -> None:
    veth()
    with tap(), closing(Ethtool()) as ethtool:
        assert ethtool.driver_info("tx0").driver == "veth"
        assert ethtool.driver_info("tap0").driver == "tun"


@in_private_network
def test_veth_and_tap_refuse_single_queues_in_the_kernels_words() -> None:
    with tap() as tap_index, closing(Ethtool()) as ethtool:
        for ifindex in (veth(), tap_index):
            with pytest.raises(CapabilityMissingError, match="Operation not supported") as refused:
                ethtool.coalesce_by_queue(ifindex)
            assert refused.value.errno == errno.EOPNOTSUPP
            with pytest.raises(CapabilityMissingError, match=r"single queues.*Operation not supported"):
                ask_for_absent(ethtool, "tx0", ifindex, ["rx_usecs_by_queue"])
            assert "rx_usecs_by_queue" not in ethtool_knobs(ethtool, NamedInterface("", ifindex), None)


@in_private_network
def test_device_without_standard_statistics_has_none_and_a_missing_one_is_told() -> None:
    with tap() as tap_index, closing(Ethtool()) as ethtool:
        assert ethtool.standard_statistics(veth()) == {}
        assert ethtool.standard_statistics(tap_index) == {}
        with pytest.raises(LabError, match="no such device"):
            ethtool.standard_statistics(999)
        with pytest.raises(LabError, match="no such device"):
            ethtool.coalesce_by_queue(999)


@in_private_network
def test_the_audit_reads_offloads_and_the_kernels_words_about_pause_frames() -> None:
    with veth_pair() as veth, closing(Ethtool()) as ethtool:
        ethtool.set_features(veth.ifindex, {"tso": False, "gso": True})
        told = device_settings("tx0")
    assert (told["tso"], told["gso"], told["qdisc"]) == (False, True, "noqueue")
    # a veth pair has no pause frames: ethtool says so, and the audit passes it on
    assert "tx0 does not tell it [ENOTSUP" in str(told["pause_rx"])
