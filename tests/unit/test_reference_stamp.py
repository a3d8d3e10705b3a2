"""The twins' stamps against scapy: where they go, what they say, and that checksums stay what they were."""

from __future__ import annotations

import random

import pytest
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet

from labkit.engines.reference_stamp import Stamps, payload_at, stamped
from labkit.traffic.table import FrameTable

MACS = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
V4 = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=9, dport=9)
HEADERS: dict[str, Packet] = {
    "ipv4": MACS / V4,
    "ipv6": MACS / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=9, dport=9),
    "tagged": MACS / Dot1Q(vlan=5) / V4,
    "twice-tagged": MACS / Dot1AD(vlan=7) / Dot1Q(vlan=5) / V4,
    "options": MACS / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption_NOP()] * 8) / UDP(sport=9),
}
DATE_NS = 1_700_000_000_123_456_789


def built(header: Packet, payload: bytes) -> bytes:
    return bytes(header / payload)


def checksummed(frame: bytes) -> bytes:
    """`frame` with the checksums that scapy works out."""
    packet = Ether(frame)
    del packet[UDP].chksum
    return bytes(packet)


@pytest.mark.parametrize("name", HEADERS)
def test_checksum_is_right_whatever_was_there_before(name: str) -> None:
    chance = random.Random(4)
    for length in (16, 17, 18, 40):
        for fill in (b"\0", b"\xff", None):
            payload = chance.randbytes(length) if fill is None else fill * length
            frame = built(HEADERS[name], payload)
            at = payload_at(frame, 0)
            assert frame[at:] == payload
            for attempt in (0, 1, 2**32 - 1):
                got = stamped(frame, at, attempt, DATE_NS)
                assert got == checksummed(got)
                assert got[at + 16 :] == payload[16:]


def test_stamp_is_pktgens_header() -> None:
    (frame,) = (built(HEADERS["ipv4"], bytes(18)),)
    got = Stamps(FrameTable.of([frame])).on(frame, 0, 2**32 + 2, DATE_NS)
    assert got[42:58] == bytes.fromhex("be9be955 00000002 6553f100 0001e240")


def test_absent_checksum_stays_absent_and_a_wrong_one_as_wrong() -> None:
    frame = built(MACS / IP() / UDP(chksum=0), bytes(16))
    assert stamped(frame, 42, 1, DATE_NS)[40:42] == b"\0\0"
    right = built(HEADERS["ipv4"], bytes(16))
    wrong = right[:40] + bytes([right[40] ^ 1]) + right[41:]
    was_off = (int.from_bytes(wrong[40:42], "big") - int.from_bytes(right[40:42], "big")) % 0xFFFF
    got, good = stamped(wrong, 42, 1, DATE_NS), stamped(right, 42, 1, DATE_NS)
    assert (int.from_bytes(got[40:42], "big") - int.from_bytes(good[40:42], "big")) % 0xFFFF == was_off


@pytest.mark.parametrize("name", HEADERS)
def test_frame_one_byte_too_short_is_named_with_what_it_takes(name: str) -> None:
    frame = built(HEADERS[name], bytes(16))
    assert payload_at(frame, 3) == len(frame) - 16
    with pytest.raises(ValueError, match=rf"frame 3: {len(frame) - 1} bytes .* it takes {len(frame)};"):
        payload_at(frame[:-1], 3)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (b"", "0 bytes hold no stamp"),
        (built(HEADERS["ipv4"], bytes(16))[:57], "57 bytes hold no stamp, it takes 58"),
        (built(HEADERS["ipv4"], bytes(15)) + b"\0", "UDP length of 23 holds no stamp, it takes 24"),
        (bytes(MACS / IP(proto=6)) + bytes(40), "IPv4 without UDP"),
        (bytes(MACS / IP(proto=17, flags="MF")) + bytes(40), "a fragment"),
        (bytes(MACS / IPv6(nh=0)) + bytes(40), "IPv6 without UDP"),
        (bytes(12) + b"\x08\x06" + bytes(60), "neither IPv4 nor IPv6"),
        (bytes(12) + b"\x08\x00" + bytes(60), "no IPv4 header"),
        (bytes(12) + b"\x86\xdd" + bytes(60), "no IPv6 header"),
        (bytes(12) + b"\x81\x00\x00\x05" * 40, "hold no stamp"),
    ],
)
def test_frame_that_takes_no_stamp_is_refused(frame: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=rf"frame 0: .*{words}.*payload of UDP over IPv4 or IPv6"):
        payload_at(frame, 0)
