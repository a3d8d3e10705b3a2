"""The kernel's own words come out of its raw answers, with the name of what they are about."""

from __future__ import annotations

import errno

import pytest

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.linux.ethtool_messages import CHANNELS, COALESCE
from labkit.linux.netlink_refusals import Refusal, attribute_at, error_of, refusal_of
from tests import ethtool_fakes as fakes

# seen on Linux 6.18.44: requests, and the kernel's answers to them
TAP_RX_USECS = "28000000150005001d00000000000000140100000c00018008000100040000000800020007000000"
TAP_ANSWER = (
    "70000000020000021d00000058090000eaffffff"
    + TAP_RX_USECS
    + "2b00010063616e6e6f74206d6f6469667920616e20756e7"
    "37570706f7274656420706172616d6574657200000800020020000000"
)
VETH_CHANNELS = "28000000150005002100000000000000120100000c00018008000100030000000800060009000000"
VETH_ANSWER = (
    "70000000020000022100000058090000eaffffff"
    + VETH_CHANNELS
    + "2c000100726571756573746564206368616e6e656c2063"
    "6f756e742065786365656473206d6178696d756d000800020020000000"
)
NO_DEVICE = (
    "5c000000020000020400000058090000edffffff200000001500050004000000000000000f0100000c00018008000100e70300001e00"
    "01006e6f20646576696365206d617463686573206966696e6465780000000800020018000000"
)
VETH_RINGS = (
    "34000000020000000200000058090000a1ffffff200000001500050002000000000000000f0100000c0001800800010003000000"
)
YES = "24000000020000010e000000580900000000000028000000150005000e00000000000000"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (TAP_ANSWER, Refusal(errno.EINVAL, "cannot modify an unsupported parameter", 32)),
        (VETH_ANSWER, Refusal(errno.EINVAL, "requested channel count exceeds maximum", 32)),
        (NO_DEVICE, Refusal(errno.ENODEV, "no device matches ifindex", 24)),
        (VETH_RINGS, Refusal(errno.EOPNOTSUPP)),
        (YES, Refusal(0)),
    ],
)
def test_captured_answers_give_errno_words_and_offset(answer: str, right: Refusal) -> None:
    assert refusal_of(bytes.fromhex(answer)) == right


def test_capped_answer_has_its_words_behind_the_header_alone() -> None:
    full = bytes.fromhex(TAP_ANSWER)
    capped = full[:36] + full[60:]
    capped = len(capped).to_bytes(4, "little") + full[4:6] + b"\0\3" + capped[8:]
    assert refusal_of(capped) == Refusal(errno.EINVAL, "cannot modify an unsupported parameter", 32)


@pytest.mark.parametrize("cut", range(21, 49))
def test_torn_words_never_break_parsing(cut: int) -> None:
    assert refusal_of(bytes.fromhex(TAP_ANSWER)[:-cut]).errno == errno.EINVAL


@pytest.mark.parametrize(
    ("request_bytes", "offset", "group", "right"),
    [
        (TAP_RX_USECS, 32, COALESCE, "rx_usecs"),
        (VETH_CHANNELS, 32, CHANNELS, "rx_channels"),
        (TAP_RX_USECS, 24, COALESCE, "device"),
        (TAP_RX_USECS, 999, COALESCE, None),
    ],
)
def test_offset_names_the_setting(request_bytes: str, offset: int, group: object, right: str | None) -> None:
    names = [name for name, _ in group.message.nla_map]
    assert attribute_at(bytes.fromhex(request_bytes), offset, names) == right


def test_offset_of_an_unknown_attribute_has_no_name() -> None:
    request = bytes.fromhex(TAP_RX_USECS) + fakes.u32(99, 1)
    assert attribute_at(request, 40, ["unspecified", "device", "rx_usecs"]) is None


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refusal(22, "cannot modify an unsupported parameter"), CapabilityMissingError),
        (Refusal(22, "Unknown attribute type"), CapabilityMissingError),
        (Refusal(22, "requested ring size exceeds maximum"), SettingRefusedError),
        (Refusal(22), SettingRefusedError),
        (Refusal(16), SettingRefusedError),
        (Refusal(95), CapabilityMissingError),
        (Refusal(524), CapabilityMissingError),
        (Refusal(1), CapabilityMissingError),
    ],
)
def test_einval_for_a_field_that_is_not_there_is_no_bad_value(refused: Refusal, kind: type[LabError]) -> None:
    error = error_of("tap0: rx_usecs 7", refused, about="rx_usecs", writing=True)
    assert type(error) is kind
    assert error.errno == refused.errno
    assert error.kernel_text == (f"{refused.text} (rx_usecs)" if refused.text else None)


def test_missing_device_is_neither_unsupported_nor_refused() -> None:
    error = error_of("eth9: rings", Refusal(19, "no device matches ifindex"), writing=True)
    assert type(error) is LabError
    assert "no such device" in str(error)


def test_reading_that_fails_is_not_a_refused_value() -> None:
    assert type(error_of("eth0: rings", Refusal(errno.EIO), writing=False)) is LabError
