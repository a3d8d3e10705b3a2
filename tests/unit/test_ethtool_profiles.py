"""Profiles of adaptive moderation, and the newest coalescing attributes, under the kernel's numbers."""

from __future__ import annotations

import struct

import pytest

from labkit.errors import SettingRefusedError
from labkit.linux.ethtool import Ethtool
from labkit.linux.interfaces import NamedInterface
from labkit.nic.ethtool_knobs import ethtool_knobs
from tests import ethtool_fakes as fakes
from tests.ethtool_fakes import IFINDEX, FakeKernel, client

NESTED = 0x8000


def step(*parts: tuple[int, int]) -> bytes:
    return fakes.attribute(1 | NESTED, b"".join(fakes.u32(number, value) for number, value in parts))


PROFILE = step((1, 1), (2, 256)) + step((1, 64), (2, 0))


def virtio_net() -> FakeKernel:
    told = fakes.u32(2, 8) + fakes.attribute(29 | NESTED, PROFILE) + fakes.u32(31, 4) + fakes.u32(32, 900)
    return FakeKernel(answers={fakes.COALESCE_GET: told}, changes={fakes.COALESCE_SET: fakes.YES})


def test_profile_reads_as_one_text_and_the_newest_attributes_as_numbers() -> None:
    told = Ethtool(virtio_net()).coalesce(IFINDEX)
    assert told["rx_profile"] == "1/256/-;64/0/-"
    assert told["tx_profile"] is None
    assert (told["rx_cqe_frames"], told["rx_cqe_nsecs"]) == (4, 900)


def test_completions_are_read_where_the_device_has_them() -> None:
    kernel = virtio_net()
    kernel.answers[fakes.COALESCE_GET] = fakes.attribute(30 | NESTED, step((1, 2), (3, 5)))
    assert Ethtool(kernel).coalesce(IFINDEX)["tx_profile"] == "2/-/5"


def test_profile_that_was_read_is_taken_back() -> None:
    kernel = virtio_net()
    knob = ethtool_knobs(client(kernel), NamedInterface("eth7", IFINDEX), None)["rx_profile"]
    knob.write(knob.read())
    ((number, body),) = kernel.sent(fakes.COALESCE_SET)[0]
    assert (number, unflagged(body)) == (29, unflagged(PROFILE))


def test_newest_attributes_are_sent_under_their_numbers() -> None:
    kernel = virtio_net()
    Ethtool(kernel).set_coalesce(IFINDEX, {"rx_cqe_frames": 2, "rx_cqe_nsecs": 7})
    assert kernel.sent(fakes.COALESCE_SET) == [[(31, struct.pack("=I", 2)), (32, struct.pack("=I", 7))]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1/256/-", "the device has 2 steps"),
        ("1/2/-;1/2/-;1/2/-", "the device has 2 steps"),
        ("1/256;64/0", "give usecs/packets/completions"),
        ("1/x/-;64/0/-", "give usecs/packets/completions"),
        ("1/65536/-;64/0/-", "up to 65535"),
    ],
)
def test_what_is_no_profile_of_the_device_is_never_sent(text: str, said: str) -> None:
    kernel = virtio_net()
    with pytest.raises(SettingRefusedError, match=said):
        Ethtool(kernel).set_coalesce(IFINDEX, {"rx_profile": text})
    assert kernel.sent(fakes.COALESCE_SET) == []


def unflagged(body: bytes) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """Steps of a profile, without the flag that says that they are nested."""
    return [(number, pieces(inner)) for number, inner in pieces(body)]


def pieces(body: bytes) -> list[tuple[int, bytes]]:
    found, position = [], 0
    while position < len(body):
        size, number = struct.unpack_from("=HH", body, position)
        found.append((number & 0x3FFF, body[position + 4 : position + size]))
        position += size
    return found
