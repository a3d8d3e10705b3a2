"""Moderation of single queues: what goes to the kernel, and that queues get their own values back."""

from __future__ import annotations

import errno
import struct

import pytest

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.factors import BY_QUEUE_SETTINGS, Scalar, typed
from labkit.linux.interfaces import NamedInterface
from labkit.nic.apply import SettingsHost
from labkit.nic.ethtool_knobs import ask_for_absent, ethtool_knobs
from labkit.nic.journal import MemoryJournal
from labkit.nic.knob import Knob
from tests import ethtool_fakes as fakes
from tests.ethtool_fakes import IFINDEX, FakeKernel, FakeQueues, client, queue

REPORTED = (2, 6, 11, 12)
"""Attributes of rx-usecs, tx-usecs, adaptive-rx and adaptive-tx."""


def i40e(queues: list[list[int]]) -> tuple[FakeKernel, FakeQueues]:
    """A card that tells queue 0 as the device's, and gives what is set for the device to every queue."""
    fake = FakeQueues(queues)

    class Kernel(FakeKernel):
        def send(self, data: bytes, /) -> int:
            if data[16] == fakes.COALESCE_SET:
                for number, body in fakes.attributes_of(data):
                    value = int.from_bytes(body[:4], "little")
                    # the driver gives all queues all of its values, those of queue 0 where none is named
                    for each in fake.queues:
                        each[:] = [*fake.queues[0]]
                        each[number - 2] = value
            first = fake.queues[0]
            self.answers[fakes.COALESCE_GET] = b"".join(
                (fakes.u8 if number > 10 else fakes.u32)(number, first[number - 2]) for number in REPORTED
            )
            return super().send(data)

    return Kernel(
        answers={fakes.CHANNELS_GET: fakes.u32(5, 8) + fakes.u32(9, len(queues))},
        changes={fakes.COALESCE_SET: fakes.YES},
    ), fake


def card(*queues: list[int]) -> tuple[SettingsHost, FakeQueues]:
    kernel, fake = i40e(list(queues))
    knobs: dict[str, Knob] = dict(ethtool_knobs(client(kernel, fake), NamedInterface("eth7", IFINDEX), None))
    return SettingsHost("eth4", knobs, MemoryJournal(), lambda: True), fake


def test_queues_read_as_one_text_and_what_the_driver_lacks_is_unknown() -> None:
    kernel, fake = i40e([queue(rx=30), queue(rx=30), queue(rx=8, adaptive_tx=True)])
    assert client(kernel, fake).coalesce_by_queue(IFINDEX) == {
        "adaptive_rx_by_queue": "off",
        "adaptive_tx_by_queue": "off;off;on",
        "rx_usecs_by_queue": "30;30;8",
        "rx_frames_by_queue": None,
        "tx_usecs_by_queue": "50",
        "tx_frames_by_queue": None,
    }


def test_request_is_the_kernels_struct() -> None:
    kernel, fake = i40e([queue(), queue()])
    client(kernel, fake).set_coalesce_by_queue(IFINDEX, {"tx_usecs_by_queue": "50;64"})
    sent = fake.requests[-1]
    assert sent[:12] == struct.pack("=III", 0x4B, 0x0F, 0b10)
    assert sent[12:520] == bytes(508)
    assert struct.unpack("=23I", sent[520:]) == (0x0F, 50, 0, 0, 0, 64, *[0] * 17)


def test_queue_above_a_mask_word_is_found_in_its_own_word() -> None:
    kernel, fake = i40e([queue() for _ in range(40)])
    values = ["50"] * 40
    values[37] = "8"
    client(kernel, fake).set_coalesce_by_queue(IFINDEX, {"rx_usecs_by_queue": ";".join(values)})
    assert fake.changes() == [[37]]
    assert struct.unpack_from("=II", fake.requests[-1], 8) == (0, 1 << 5)


def test_only_queues_that_differ_are_written() -> None:
    kernel, fake = i40e([queue(rx=30), queue(rx=30), queue(rx=8)])
    ethtool = client(kernel, fake)
    ethtool.set_coalesce_by_queue(IFINDEX, {"rx_usecs_by_queue": "30"})
    ethtool.set_coalesce_by_queue(IFINDEX, {"rx_usecs_by_queue": "30"})
    assert fake.changes() == [[2]]


def test_receive_and_transmit_queues_are_counted_apart() -> None:
    kernel, fake = i40e([queue(), queue(), queue()])
    kernel.answers[fakes.CHANNELS_GET] = fakes.u32(6, 1) + fakes.u32(7, 0) + fakes.u32(9, 2)
    told = client(kernel, fake).coalesce_by_queue(IFINDEX)
    client(kernel, fake).set_coalesce_by_queue(IFINDEX, {"rx_usecs_by_queue": "1;2;3"})
    assert told["rx_usecs_by_queue"] == "50"
    assert [each[0] for each in fake.queues] == [1, 2, 3]
    with pytest.raises(SettingRefusedError, match="3 values for 2 queues"):
        client(kernel, fake).set_coalesce_by_queue(IFINDEX, {"tx_usecs_by_queue": "1;2;3"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rx_usecs_by_queue", "1;2;3", "3 values for 2 queues"),
        ("rx_usecs_by_queue", "fast", "give a whole number"),
        ("rx_usecs_by_queue", "-1", "give a whole number"),
        ("rx_usecs_by_queue", str(2**32), "give a whole number"),
        ("adaptive_rx_by_queue", "on;maybe", "give on or off"),
    ],
)
def test_what_is_no_value_is_never_sent(name: str, value: str, said: str) -> None:
    kernel, fake = i40e([queue(), queue()])
    with pytest.raises(SettingRefusedError, match=said):
        client(kernel, fake).set_coalesce_by_queue(IFINDEX, {name: value})
    assert fake.changes() == []


def test_refused_value_leaves_every_queue_as_it_was() -> None:
    host, fake = card(queue(rx=30), queue(rx=8))
    before = [list(each) for each in fake.queues]
    with pytest.raises(SettingRefusedError) as refused:
        host.apply({"rx_usecs_by_queue": "64;9000"})
    assert refused.value.errno == errno.EINVAL
    assert fake.queues == before


def test_driver_without_single_queues_has_no_knobs_and_says_so_in_the_kernels_words() -> None:
    kernel, fake = i40e([queue()])
    fake.refuses = errno.EOPNOTSUPP
    ethtool = client(kernel, fake)
    assert not set(BY_QUEUE_SETTINGS) & set(ethtool_knobs(ethtool, NamedInterface("eth7", IFINDEX), None))
    with pytest.raises(
        CapabilityMissingError, match=r"eth4 has no setting 'rx_usecs_by_queue'.*not supported"
    ):
        ask_for_absent(ethtool, "eth4", IFINDEX, ["rx_usecs_by_queue"])


def test_queues_that_are_away_while_the_device_is_down_are_unknown() -> None:
    kernel, fake = i40e([queue()])
    fake.refuses = errno.EINVAL
    assert set(client(kernel, fake).coalesce_by_queue(IFINDEX).values()) == {None}


def test_missing_device_is_told_as_such() -> None:
    kernel, fake = i40e([queue()])
    fake.refuses = errno.ENODEV
    with pytest.raises(LabError, match="no such device") as missing:
        client(kernel, fake).coalesce_by_queue(IFINDEX)
    assert type(missing.value) is LabError


@pytest.mark.parametrize(
    "asked",
    [
        {"rx_usecs": 10},
        {"tx_usecs": 10},
        {"adaptive_rx": True},
        {"adaptive_rx": False},
        {"rx_usecs": 10, "adaptive_rx": True},
        {"rx_usecs_by_queue": "1;2;3"},
        {"rx_usecs": 10, "rx_usecs_by_queue": "1;2;3"},
        {"adaptive_rx_by_queue": "off;on;off"},
    ],
)
@pytest.mark.parametrize("adaptive", [(False, False, False), (True, False, True), (False, True, False)])
def test_each_queue_gets_its_own_values_back(
    asked: dict[str, Scalar], adaptive: tuple[bool, bool, bool]
) -> None:
    host, fake = card(
        *(queue(rx=n, tx=n, adaptive_rx=on) for n, on in zip((50, 8, 20), adaptive, strict=True))
    )
    before = [list(each) for each in fake.queues]
    host.apply(asked)
    host.apply({"tx_usecs_by_queue": "3"})
    host.restore(0)
    assert fake.queues == before


def test_value_of_the_device_reaches_every_queue_and_one_of_a_queue_stands_behind_it() -> None:
    host, fake = card(queue(rx=50), queue(rx=8))
    assert host.apply({"rx_usecs": 10})["rx_usecs_by_queue"] == "10"
    accepted = host.apply({"rx_usecs": 20, "rx_usecs_by_queue": "20;4"})
    assert (accepted["rx_usecs"], accepted["rx_usecs_by_queue"]) == (20, "20;4")
    host.restore(1)
    assert [each[0] for each in fake.queues] == [10, 10]
    host.restore(0)
    assert [each[0] for each in fake.queues] == [50, 8]


def test_queue_that_adapts_takes_a_fixed_value_and_adapts_on() -> None:
    kernel, fake = i40e([queue(rx=50, adaptive_rx=True), queue(rx=50)])
    client(kernel, fake).set_coalesce_by_queue(IFINDEX, {"rx_usecs_by_queue": "8"})
    assert fake.queues == [queue(rx=8, adaptive_rx=True), queue(rx=8)]
    assert fake.changes() == [[0, 1], [0]]


def test_adaptive_of_any_queue_goes_off_before_its_fixed_value() -> None:
    host, fake = card(queue(), queue(adaptive_rx=True))
    accepted = host.apply({"rx_usecs_by_queue": "50;4"})
    assert accepted["adaptive_rx_by_queue"] == "off"
    assert fake.changes() == [[1], [1]]
    host.restore(0)
    assert fake.queues == [queue(), queue(adaptive_rx=True)]


def test_one_number_or_switch_is_a_value_for_all_queues() -> None:
    assert typed("rx_usecs_by_queue", 30) == "30"
    assert typed("adaptive_rx_by_queue", value=True) == "on"
    assert typed("rx_usecs_by_queue", "30;8") == "30;8"
