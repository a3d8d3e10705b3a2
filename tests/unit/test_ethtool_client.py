"""What the client makes of a kernel's answers, and what exactly it asks for."""

from __future__ import annotations

import struct

import pytest

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError, WorkloadError
from labkit.linux.ethtool import Ethtool
from labkit.linux.ethtool_ioctl import DRIVER_INFO, DriverInfo, driver_info_of
from labkit.linux.ethtool_messages import COALESCE, Features, names_on
from tests import ethtool_fakes as fakes
from tests.ethtool_fakes import IFINDEX, FakeKernel

NAMES = (
    "rx-gro",
    "",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-mangleid-segmentation",
    "rx-lro",
)
GRO, TSO, TSO6, MANGLEID, LRO = 0, 2, 3, 4, 5


def told(settings: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}


def offloads() -> FakeKernel:
    """GRO and TSO can be turned, large receive offload is fixed."""
    active = fakes.bits(GRO, TSO)
    hw = fakes.bits(GRO, TSO, TSO6, MANGLEID)
    answer = b"".join(fakes.attribute(number, body) for number, body in ((2, hw), (3, active), (4, active)))
    answer += fakes.attribute(5, fakes.bits())
    return FakeKernel(
        answers={fakes.FEATURES_GET: answer, fakes.STRINGS_GET: fakes.feature_strings(NAMES)},
        changes={fakes.FEATURES_SET: fakes.YES},
    )


def test_e1000e_tells_two_rings_and_the_rest_is_unknown() -> None:
    ethtool = Ethtool(fakes.e1000e())
    assert told(ethtool.rings(IFINDEX)) == {
        "rx_ring": 256,
        "tx_ring": 256,
        "tx_push": False,
        "rx_push": False,
    }
    assert ethtool.rings(IFINDEX)["rx_mini_ring"] is None
    assert ethtool.ring_maxima(IFINDEX) == {"rx_ring": 4096, "tx_ring": 4096}


def test_e1000e_tells_one_moderation_value() -> None:
    ethtool = Ethtool(fakes.e1000e())
    assert told(ethtool.coalesce(IFINDEX)) == {"rx_usecs": 3}
    assert set(ethtool.coalesce(IFINDEX)) == set(COALESCE.kinds)


def test_zero_is_told_where_the_kernel_tells_zero() -> None:
    ethtool = Ethtool(fakes.netdevsim())
    assert ethtool.rings(IFINDEX)["rx_ring"] == 0
    told_values = told(ethtool.coalesce(IFINDEX))
    assert len(told_values) == 24
    assert told_values["adaptive_rx"] is False
    assert told_values["rx_usecs"] == 0


def test_vmxnet3_has_a_jumbo_ring_and_no_moderation() -> None:
    ethtool = Ethtool(fakes.vmxnet3())
    assert told(ethtool.rings(IFINDEX)) == {
        "rx_ring": 1024,
        "rx_jumbo_ring": 512,
        "tx_ring": 512,
        "tx_push": False,
    }
    assert told(ethtool.channels(IFINDEX)) == {"other_channels": 1, "channels": 2}
    assert ethtool.channel_maxima(IFINDEX) == {"other_channels": 1, "channels": 2}
    with pytest.raises(CapabilityMissingError, match="interface 4: coalescing"):
        ethtool.coalesce(IFINDEX)


def test_rings_that_are_no_powers_of_two_stay_as_told() -> None:
    answer = b"".join(
        fakes.u32(n, v) for n, v in ((2, 2047), (4, 8191), (5, 2047), (6, 511), (8, 2044), (9, 511))
    )
    ethtool = Ethtool(FakeKernel(answers={fakes.RINGS_GET: answer}))
    assert told(ethtool.rings(IFINDEX)) == {"rx_ring": 511, "rx_jumbo_ring": 2044, "tx_ring": 511}
    assert ethtool.ring_maxima(IFINDEX) == {"rx_ring": 2047, "rx_jumbo_ring": 8191, "tx_ring": 2047}


def test_maxima_without_values_are_not_taken_for_values() -> None:
    kernel = FakeKernel(answers={fakes.RINGS_GET: fakes.u32(2, 255) + fakes.u32(5, 255)})
    ethtool = Ethtool(kernel)
    assert told(ethtool.rings(IFINDEX)) == {}
    assert ethtool.ring_maxima(IFINDEX) == {"rx_ring": 255, "tx_ring": 255}


def test_unknown_attributes_are_left_out_and_break_nothing() -> None:
    newer = (
        fakes.u32(2, 8)
        + fakes.attribute(33, fakes.u32(1, 1))
        + fakes.u32(34, 9)
        + fakes.attribute(200, b"xy")
    )
    ethtool = Ethtool(FakeKernel(answers={fakes.COALESCE_GET: newer + fakes.u8(11, 1)}))
    assert told(ethtool.coalesce(IFINDEX)) == {"rx_usecs": 8, "adaptive_rx": True}


@pytest.mark.parametrize(("code", "right"), [(0, None), (1, False), (2, True), (7, None)])
def test_tcp_data_split_is_read_from_its_code(code: int, right: bool | None) -> None:
    ethtool = Ethtool(FakeKernel(answers={fakes.RINGS_GET: fakes.u8(11, code)}))
    assert ethtool.rings(IFINDEX)["tcp_data_split"] is right


def test_one_asked_value_sends_one_attribute() -> None:
    kernel = fakes.e1000e()
    Ethtool(kernel).set_coalesce(IFINDEX, {"rx_usecs": 30})
    assert kernel.sent(fakes.COALESCE_SET) == [[(2, struct.pack("=I", 30))]]
    assert len(kernel.requests) == 1


def test_zeros_that_are_asked_for_are_sent_whatever_else_is_unknown() -> None:
    # met in tuned: one line that the reader did not know kept every setting from being made
    kernel = fakes.e1000e()
    Ethtool(kernel).set_coalesce(IFINDEX, {"rx_usecs": 0, "tx_usecs": 0})
    assert kernel.sent(fakes.COALESCE_SET) == [[(2, bytes(4)), (6, bytes(4))]]


def test_asked_values_of_all_kinds_are_sent_under_the_kernels_numbers() -> None:
    kernel = fakes.netdevsim()
    ethtool = Ethtool(kernel)
    ethtool.set_coalesce(IFINDEX, {"adaptive_tx": True, "tx_frames": 0, "cqe_mode_rx": False})
    ethtool.set_rings(IFINDEX, {"tx_ring": 1000, "tcp_data_split": True})
    ethtool.set_channels(IFINDEX, {"channels": 2})
    assert kernel.sent(fakes.COALESCE_SET) == [[(12, b"\1"), (7, bytes(4)), (25, b"\0")]]
    assert kernel.sent(fakes.RINGS_SET) == [[(9, struct.pack("=I", 1000)), (11, b"\2")]]
    assert kernel.sent(fakes.CHANNELS_SET) == [[(9, struct.pack("=I", 2))]]


def test_nothing_asked_sends_nothing() -> None:
    kernel = fakes.e1000e()
    Ethtool(kernel).set_rings(IFINDEX, {})
    Ethtool(kernel).set_features(IFINDEX, {})
    assert kernel.requests == []


@pytest.mark.parametrize("value", [None, True, 1.5, "30"])
def test_what_is_no_number_is_never_sent(value: object) -> None:
    kernel = fakes.e1000e()
    with pytest.raises(WorkloadError, match=r"rx_usecs .*: give a whole number"):
        Ethtool(kernel).set_coalesce(IFINDEX, {"rx_usecs": value})
    assert kernel.requests == []


@pytest.mark.parametrize("value", [-1, 2**32])
def test_number_without_room_in_the_field_is_never_sent(value: int) -> None:
    kernel = fakes.e1000e()
    with pytest.raises(SettingRefusedError, match="ethtool's field is 0 to 4294967295"):
        Ethtool(kernel).set_coalesce(IFINDEX, {"rx_usecs": value})
    assert kernel.requests == []


def test_setting_of_another_group_is_named_as_unknown() -> None:
    with pytest.raises(WorkloadError, match="rings: no setting 'rx_usecs'; known: rx_ring"):
        Ethtool(fakes.e1000e()).set_rings(IFINDEX, {"rx_usecs": 1})


def test_unsupported_field_is_told_in_the_kernels_words() -> None:
    kernel = fakes.e1000e()
    kernel.changes[fakes.COALESCE_SET] = fakes.UNSUPPORTED
    with pytest.raises(CapabilityMissingError) as refused:
        Ethtool(kernel).set_coalesce(IFINDEX, {"rx_frames": 8})
    assert refused.value.kernel_text == "cannot modify an unsupported parameter (rx_frames)"


def test_bad_value_is_a_refusal_with_the_kernels_words() -> None:
    kernel = fakes.virtio_net()
    with pytest.raises(SettingRefusedError) as refused:
        Ethtool(kernel).set_rings(IFINDEX, {"tx_ring": 65536})
    assert refused.value.kernel_text == "requested ring size exceeds maximum (tx_ring)"
    assert "interface 4: tx_ring 65536" in str(refused.value)


@pytest.mark.parametrize("number", [fakes.EOPNOTSUPP, fakes.ENOTSUPP])
def test_both_of_the_kernels_not_supported_are_a_missing_capability(number: int) -> None:
    kernel = fakes.virtio_net()
    kernel.changes[fakes.COALESCE_SET] = (number, None, None)
    with pytest.raises(CapabilityMissingError) as refused:
        Ethtool(kernel).set_coalesce(IFINDEX, {"adaptive_rx": True})
    assert refused.value.errno == number
    assert len(kernel.requests) == 1, "asked once, and not again"


def test_missing_device_is_told_as_such() -> None:
    kernel = FakeKernel(answers={fakes.RINGS_GET: (fakes.ENODEV, "no device matches ifindex", 24)})
    with pytest.raises(LabError, match="no such device") as missing:
        Ethtool(kernel).rings(IFINDEX)
    assert type(missing.value) is LabError


def test_features_are_read_from_compact_bits() -> None:
    ethtool = Ethtool(offloads())
    features = ethtool.features(IFINDEX)
    assert features == {"gro": True, "tso": True, "lro": False} | {
        "tx_tcp_segmentation": True,
        "tx_tcp6_segmentation": False,
        "tx_tcp_mangleid_segmentation": False,
    }
    assert "lro" not in ethtool.changeable_features(IFINDEX)
    assert {"gro", "tso"} <= ethtool.changeable_features(IFINDEX)


def test_names_of_features_are_asked_once() -> None:
    kernel = offloads()
    ethtool = Ethtool(kernel)
    ethtool.features(IFINDEX)
    ethtool.features(IFINDEX)
    assert len(kernel.sent(fakes.STRINGS_GET)) == 1


@pytest.mark.parametrize(
    ("bitset", "right"),
    [
        (fakes.verbose(("rx-gro", True), ("rx-lro", False), nomask=False), {"rx-gro"}),
        (fakes.verbose(("rx-gro", False), ("rx-lro", False), nomask=True), {"rx-gro", "rx-lro"}),
        (fakes.bits(GRO, LRO), {"rx-gro", "rx-lro"}),
        (fakes.bits(1), set()),
        (fakes.bits(63), set()),
        (fakes.u32(2, 0), set()),
    ],
)
def test_bitsets_are_read_in_both_forms(bitset: bytes, right: set[str]) -> None:
    body = struct.pack("=BBH", fakes.FEATURES_GET, 1, 0) + fakes.attribute(4, bitset)
    answer = Features(fakes.message(fakes.FAMILY, 0, 1, body))
    answer.decode()
    assert names_on(answer.get_attr("active"), NAMES) == right


def test_feature_word_turns_what_is_behind_it_and_can_be_turned() -> None:
    kernel = offloads()
    ethtool = Ethtool(kernel)
    ethtool.set_features(IFINDEX, {"tso": True})
    ethtool.set_features(IFINDEX, {"gro": False})
    both = fakes.verbose(("tx-tcp-segmentation", True), ("tx-tcp6-segmentation", True), nomask=False)
    off = fakes.verbose(("rx-gro", False), nomask=False)
    plain = [[(number, unflagged(body)) for number, body in sent] for sent in kernel.sent(fakes.FEATURES_SET)]
    assert plain == [[(3, both)], [(3, off)]]


def unflagged(body: bytes) -> bytes:
    """Nested attributes without the flag that says so."""
    out, position = b"", 0
    while position < len(body):
        size, number = struct.unpack_from("=HH", body, position)
        inner = body[position + 4 : position + size]
        out += fakes.attribute(number & 0x3FFF, unflagged(inner) if number & 0x8000 else inner)
        position += (size + 3) & ~3
    return out


@pytest.mark.parametrize(("word", "match"), [("lro", "lro is fixed"), ("warp", "no feature 'warp' here")])
def test_fixed_and_unknown_features_are_not_sent(word: str, match: str) -> None:
    kernel = offloads()
    with pytest.raises(CapabilityMissingError, match=match):
        Ethtool(kernel).set_features(IFINDEX, {word: True})
    assert kernel.sent(fakes.FEATURES_SET) == []


def test_feature_takes_true_and_false_only() -> None:
    with pytest.raises(WorkloadError, match="gro 1: give true or false"):
        Ethtool(offloads()).set_features(IFINDEX, {"gro": 1})


def test_refusals_call_the_interface_by_its_name_as_long_as_it_is_there() -> None:
    kernel = fakes.virtio_net()
    with pytest.raises(SettingRefusedError, match=r"^eth4: tx_ring 65536: refused"):
        fakes.client(kernel).set_rings(IFINDEX, {"tx_ring": 65536})
    with pytest.raises(CapabilityMissingError, match=r"^eth4: coalescing of single queues: not supported"):
        fakes.client(kernel).coalesce_by_queue(IFINDEX)
    with pytest.raises(CapabilityMissingError, match=r"^eth4: no feature 'warp' here"):
        fakes.client(offloads()).set_features(IFINDEX, {"warp": True})
    with pytest.raises(SettingRefusedError, match=r"^interface 4: tx_ring 65536: refused"):
        Ethtool(kernel).set_rings(IFINDEX, {"tx_ring": 65536})


def test_late_answer_to_an_earlier_request_is_passed_over() -> None:
    kernel = fakes.e1000e()
    earlier = fakes.message(fakes.FAMILY, 5, 999, struct.pack("=BBH", fakes.RINGS_SET, 1, 0))
    kernel.stray = fakes.refusal(earlier, fakes.EINVAL)
    assert Ethtool(kernel).rings(IFINDEX)["rx_ring"] == 256


def test_silent_kernel_is_given_up() -> None:
    kernel = fakes.e1000e()
    ethtool = Ethtool(kernel)
    kernel.send = len
    with pytest.raises(LabError, match=r"interface 4: rings: no answer within 2\.0 s"):
        ethtool.rings(IFINDEX)


def test_kernel_without_ethtool_netlink_is_a_missing_capability() -> None:
    kernel = FakeKernel()
    kernel.send = lambda data: kernel.waiting.append(fakes.refusal(data, 2)) or 0
    with pytest.raises(CapabilityMissingError, match="no ethtool netlink"):
        Ethtool(kernel)
    assert kernel.closed


def test_driver_information_leaves_empty_texts_unknown() -> None:
    texts = [text.ljust(32, b"\0") for text in (b"bridge", b"2.3", b"N/A", b"", b"")]
    answer = DRIVER_INFO.pack(3, *texts, bytes(12), 0, 0, 0, 0, 0)
    assert len(answer) == 196
    assert driver_info_of(answer) == DriverInfo(driver="bridge", version="2.3", firmware=None, bus=None)


class QueueStillBound(FakeKernel):
    """Refuses to take a queue away until it was asked `times` times more."""

    times = 0
    words = "requested channel counts are too low for existing zerocopy AF_XDP sockets"

    def send(self, data: bytes, /) -> int:
        bound = len(self.requests) < self.times
        self.changes[fakes.CHANNELS_SET] = (fakes.EINVAL, self.words, None) if bound else (0, None, None)
        return super().send(data)


def test_queue_that_a_closed_socket_still_holds_is_waited_for() -> None:
    kernel = QueueStillBound()
    kernel.times = 3
    Ethtool(kernel).set_channels(IFINDEX, {"tx_channels": 1})
    assert len(kernel.requests) == 4


def test_other_refusals_of_channels_are_not_asked_again() -> None:
    kernel = QueueStillBound()
    kernel.times, kernel.words = 3, "requested channel count exceeds maximum"
    with pytest.raises(SettingRefusedError, match="exceeds maximum"):
        Ethtool(kernel).set_channels(IFINDEX, {"tx_channels": 1000})
    assert len(kernel.requests) == 1
