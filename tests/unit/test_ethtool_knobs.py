"""Knobs are there for what a device has, and refuse beforehand what it would refuse."""

from __future__ import annotations

import pytest

from labkit.drivers.choose import facts_of
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.linux.interfaces import NamedInterface
from labkit.nic.ethtool_knobs import EthtoolKnob, ethtool_knobs, read_together, resets_link
from tests import ethtool_fakes as fakes
from tests.ethtool_fakes import IFINDEX, FakeKernel, client


def knobs_of(kernel: FakeKernel) -> dict[str, EthtoolKnob]:
    knobs = ethtool_knobs(client(kernel), NamedInterface("eth7", IFINDEX), None)
    kernel.requests.clear()
    return knobs


class Facts:
    def resets(self, setting: str) -> bool | None:
        return {"rx_usecs": True, "tx_ring": False}.get(setting)


def test_ring_above_the_maximum_is_refused_before_any_change() -> None:
    kernel = fakes.e1000e()
    with pytest.raises(SettingRefusedError, match=r"tx_ring 8192: the device takes 4096 at most"):
        knobs_of(kernel)["tx_ring"].write(8192)
    assert kernel.sent(fakes.RINGS_SET) == []


def test_ring_at_the_maximum_is_asked_for() -> None:
    kernel = fakes.e1000e()
    knobs_of(kernel)["tx_ring"].write(4096)
    assert len(kernel.sent(fakes.RINGS_SET)) == 1


def test_channels_above_the_maximum_are_refused_before_any_change() -> None:
    kernel = fakes.virtio_net()
    with pytest.raises(SettingRefusedError, match=r"channels 2: the device takes 1 at most"):
        knobs_of(kernel)["channels"].write(2)
    assert kernel.sent(fakes.CHANNELS_SET) == []


@pytest.mark.parametrize("name", ["rx_mini_ring", "rx_frames", "adaptive_rx"])
def test_what_the_driver_does_not_report_cannot_be_written(name: str) -> None:
    kernel = fakes.e1000e()
    knob = knobs_of(kernel)[name]
    assert knob.read() is None
    with pytest.raises(CapabilityMissingError, match=f"the driver reports no {name}"):
        knob.write(True)
    assert kernel.sent(fakes.RINGS_SET) == kernel.sent(fakes.COALESCE_SET) == []


def test_device_without_moderation_has_no_knobs_for_it() -> None:
    knobs = knobs_of(fakes.vmxnet3())
    assert "rx_usecs" not in knobs
    assert {"rx_ring", "tx_ring", "rx_jumbo_ring", "channels"} <= set(knobs)


def test_device_that_answers_nothing_has_no_knobs() -> None:
    assert knobs_of(FakeKernel()) == {}


def test_missing_device_is_no_device_without_knobs() -> None:
    gone = (fakes.ENODEV, "no device matches ifindex", 24)
    with pytest.raises(LabError, match="no such device"):
        knobs_of(FakeKernel(answers={fakes.RINGS_GET: gone}))


def test_one_knob_sends_one_attribute() -> None:
    kernel = fakes.netdevsim()
    knobs_of(kernel)["rx_usecs"].write(30)
    assert [[number for number, _ in sent] for sent in kernel.sent(fakes.COALESCE_SET)] == [[2]]


def test_refusal_of_the_driver_comes_through() -> None:
    kernel = fakes.virtio_net()
    with pytest.raises(CapabilityMissingError) as refused:
        knobs_of(kernel)["rx_usecs"].write(100)
    assert refused.value.errno == fakes.EOPNOTSUPP
    assert knobs_of(kernel)["rx_usecs"].read() == 0


def test_all_knobs_together_take_one_request_a_group() -> None:
    kernel = fakes.e1000e()
    knobs = knobs_of(kernel)
    together = read_together(knobs)
    assert len(kernel.requests) == 3
    assert together == {name: knob.read() for name, knob in knobs.items()}


def test_knobs_of_other_kinds_are_read_with_them() -> None:
    class Mtu:
        def read(self) -> int:
            return 1500

    assert read_together({"mtu": Mtu()}) == {"mtu": 1500}


def test_facts_say_what_resets_the_link_and_caution_where_they_do_not() -> None:
    kernel = fakes.e1000e()
    unknown = ethtool_knobs(client(kernel), NamedInterface("eth7", IFINDEX), None)
    known = ethtool_knobs(client(kernel), NamedInterface("eth7", IFINDEX), Facts())
    names = ("rx_usecs", "tx_ring", "rx_ring")
    assert [unknown[name].resets_link for name in names] == [False, True, True]
    assert [known[name].resets_link for name in names] == [True, False, True]


@pytest.mark.parametrize(("driver", "resets"), [("e1000e", True), ("frobnic", True), ("veth", False)])
def test_another_mtu_is_waited_for_unless_the_driver_only_notes_it(driver: str, resets: bool) -> None:
    assert resets_link("mtu", facts_of(driver)) is resets
