"""Standard statistics: netlink bytes to names and counts, and counters by meaning made of them."""

from __future__ import annotations

import struct

from labkit.counters.statistics import statistics_of, total
from labkit.drivers.choose import facts_of
from labkit.linux.ethtool import Ethtool
from tests import ethtool_fakes as fakes
from tests.ethtool_fakes import IFINDEX, FakeKernel

NESTED = 0x8000
MAC = ("FramesTransmittedOK", "SingleCollisionFrames", "FramesLostDueToIntMACXmitError")


def u64(number: int, value: int) -> bytes:
    return fakes.attribute(number, struct.pack("=Q", value))


def stat(number: int, value: int) -> bytes:
    return fakes.attribute(4 | NESTED, u64(number, value))


def group(number: int, strings: int, *content: bytes) -> bytes:
    body = fakes.u32(2, number) + fakes.u32(3, strings) + b"".join(content)
    return fakes.attribute(4 | NESTED, body)


def kernel() -> FakeKernel:
    """A card that counts in the MAC and by frame length, and nothing in the PHY."""
    bucket = fakes.attribute(5 | NESTED, fakes.u32(8, 65) + fakes.u32(9, 127) + u64(10, 12))
    told = (
        fakes.u32(5, 0)
        + group(0, 17)
        + group(1, 18, stat(0, 2**40), stat(2, 3), stat(99, 1))
        + group(3, 20, bucket, stat(1, 7))
    )
    return FakeKernel(
        answers={fakes.STATISTICS_GET: told},
        strings={
            16: fakes.strings_of(16, ("eth-phy", "eth-mac", "eth-ctrl", "rmon")),
            17: fakes.strings_of(17, ("SymbolErrorDuringCarrier",)),
            18: fakes.strings_of(18, MAC),
            20: fakes.strings_of(20, ("etherStatsUndersizePkts", "etherStatsOversizePkts")),
        },
    )


def test_counts_have_their_groups_and_names_and_absent_is_absent() -> None:
    assert Ethtool(kernel()).standard_statistics(IFINDEX) == {
        "eth-mac/FramesTransmittedOK": 2**40,
        "eth-mac/FramesLostDueToIntMACXmitError": 3,
        "rmon/etherStatsOversizePkts": 7,
        "rmon/rx-etherStatsPkts65to127Octets": 12,
    }


def test_groups_are_asked_for_by_name_and_names_once() -> None:
    fake = kernel()
    ethtool = Ethtool(fake)
    ethtool.standard_statistics(IFINDEX)
    ethtool.standard_statistics(IFINDEX)
    ((number, body),) = (one for one in fake.sent(fakes.STATISTICS_GET)[0] if one[0] != 2)
    assert number == 3
    assert all(name in body for name in (b"eth-phy\0", b"eth-mac\0", b"eth-ctrl\0", b"rmon\0"))
    assert len(fake.sent(fakes.STRINGS_GET)) == 4


def test_kernel_or_driver_without_them_has_none() -> None:
    assert Ethtool(FakeKernel()).standard_statistics(IFINDEX) == {}
    empty = FakeKernel(answers={fakes.STATISTICS_GET: fakes.u32(5, 0)})
    assert Ethtool(empty).standard_statistics(IFINDEX) == {}


def test_meaning_without_a_name_of_the_driver_is_taken_from_the_standard() -> None:
    pairs = [("tx_packets", 5), *Ethtool(kernel()).standard_statistics(IFINDEX).items()]
    statistics = statistics_of(pairs)
    assert total(statistics, facts_of("frobnic"), "tx_packets_nic") == 2**40
    assert total(statistics, facts_of("frobnic"), "tx_lost_nic") == 3
    assert total(statistics, facts_of("igb"), "tx_packets_nic") == 5
    assert total(statistics_of([]), facts_of("frobnic"), "tx_packets_nic") is None
