"""UDP frames with pktgen's header, built byte by byte: nothing of labkit's own stamping or checking."""

from __future__ import annotations

import struct

MAGIC = 0xBE9BE955
ADDRESSES = bytes.fromhex("020000000002020000000001")


def ones_sum(data: bytes) -> int:
    """Ones' complement sum of 16-bit words (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def udp_packet(source: bytes, target: bytes, payload: bytes, *, checksum: bool, port: int) -> bytes:
    """UDP header with or without a checksum, and `payload`."""
    length = 8 + len(payload)
    head = struct.pack(">4H", port, 9, length, 0)
    if not checksum:
        return head + payload
    summed = ones_sum(source + target + struct.pack(">II", 17, length) + head + payload)
    return head[:6] + struct.pack(">H", (~summed & 0xFFFF) or 0xFFFF) + payload


def stamped(
    number: int,
    *,
    payload_bytes: int = 18,
    fill: int = 0,
    ipv6: bool = False,
    tags: bytes = b"",
    checksum: bool = True,
    port: int = 9,
    addresses: bytes = ADDRESSES,
    seconds: int = 0,
) -> bytes:
    """A frame whose payload begins with pktgen's header and that `number`, and goes on with `fill`."""
    header = struct.pack(">4I", MAGIC, number % 2**32, seconds, 0)
    payload = header + bytes([fill]) * (payload_bytes - len(header))
    if ipv6:
        ends = bytes(15) + b"\x01", bytes(15) + b"\x02"
        udp = udp_packet(*ends, payload, checksum=checksum, port=port)
        packet = struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + b"".join(ends) + udp
    else:
        ends = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
        udp = udp_packet(*ends, payload, checksum=checksum, port=port)
        head = struct.pack(">BBHIBBH", 0x45, 0, 20 + len(udp), 0, 64, 17, 0) + b"".join(ends)
        packet = head[:10] + struct.pack(">H", ~ones_sum(head) & 0xFFFF) + head[12:] + udp
    return addresses + tags + (b"\x86\xdd" if ipv6 else b"\x08\x00") + packet
