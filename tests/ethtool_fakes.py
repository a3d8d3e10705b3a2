"""A kernel that answers ethtool's netlink by itself, by the numbers of <linux/ethtool_netlink.h>."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

FAMILY = 21
IFINDEX = 4
COALESCE_GET, COALESCE_SET = 19, 20
RINGS_GET, RINGS_SET = 15, 16
CHANNELS_GET, CHANNELS_SET = 17, 18
PAUSE_GET, PAUSE_SET = 21, 22
STRINGS_GET, FEATURES_GET, FEATURES_SET = 1, 11, 12
EINVAL, ENODEV, EOPNOTSUPP, ENOTSUPP = 22, 19, 95, 524


def attribute(number: int, body: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(body), number) + body + bytes(-len(body) % 4)


def u32(number: int, value: int) -> bytes:
    return attribute(number, struct.pack("=I", value))


def u8(number: int, value: int) -> bytes:
    return attribute(number, bytes([value]))


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def refusal(request: bytes, number: int, text: str | None = None, offset: int | None = None) -> bytes:
    """The kernel's NLMSG_ERROR; 0 is its acknowledgement, which copies the request's header only."""
    (sequence,) = struct.unpack_from("=I", request, 8)
    body = struct.pack("=i", -number) + (request if number else request[:16])
    words = b""
    if text is not None:
        words += attribute(1, text.encode() + b"\0")
    if offset is not None:
        words += u32(2, offset)
    flags = (0 if number else 0x100) | (0x200 if words else 0)
    return message(2, flags, sequence, body + words)


def attributes_of(request: bytes) -> list[tuple[int, bytes]]:
    """Numbers and contents of a request's own attributes, without the header that names the device."""
    found, position = [], 20
    while position < len(request):
        size, number = struct.unpack_from("=HH", request, position)
        found.append((number & 0x3FFF, request[position + 4 : position + size]))
        position += (size + 3) & ~3
    return [one for one in found if one[0] != 1]


def bits(*set_bits: int) -> bytes:
    """A compact bitset of 64 features."""
    value = sum(1 << bit for bit in set_bits)
    return u32(2, 64) + attribute(4, struct.pack("=II", value & 0xFFFFFFFF, value >> 32))


def verbose(*listed: tuple[str, bool], nomask: bool) -> bytes:
    """The same as a list of names; a value is a flag without a content."""
    entries = [
        attribute(1, attribute(2, name.encode() + b"\0") + (attribute(3, b"") if on else b""))
        for name, on in listed
    ]
    return (attribute(1, b"") if nomask else b"") + attribute(3, b"".join(entries))


def feature_strings(names: Sequence[str]) -> bytes:
    strings = b"".join(
        attribute(1, u32(1, index) + attribute(2, name.encode() + b"\0")) for index, name in enumerate(names)
    )
    return attribute(2, attribute(1, u32(1, 4) + u32(2, len(names)) + attribute(3, strings)))


@dataclass
class FakeKernel:
    """Answers by command; a command without an answer is not supported, as in a driver without it.

    Attributes
    ----------
    answers : dict
        Attributes of the answer to a reading command, or the refusal (errno, words, offset).
    changes : dict
        Answer to a changing command: a refusal; absent is a yes.
    stray : bytes
        A message that nobody waits for comes before each answer.
    """

    answers: dict[int, bytes | tuple[int, str | None, int | None]] = field(default_factory=dict)
    changes: dict[int, tuple[int, str | None, int | None]] = field(default_factory=dict)
    stray: bytes = b""
    requests: list[bytes] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)
    closed: bool = False

    def __call__(self) -> FakeKernel:
        return self

    def send(self, data: bytes, /) -> int:
        (kind,) = struct.unpack_from("=H", data, 4)
        (sequence,) = struct.unpack_from("=I", data, 8)
        self.waiting += [self.stray] if self.stray else []
        if kind == 16:
            answer: bytes | tuple[int, str | None, int | None] | None = attribute(
                1, struct.pack("=H", FAMILY)
            )
        else:
            self.requests.append(data)
            answer = self.answers.get(data[16], self.changes.get(data[16], (EOPNOTSUPP, None, None)))
        if isinstance(answer, tuple):
            self.waiting.append(refusal(data, *answer))
        else:
            body = struct.pack("=BBH", data[16], 1, 0) + answer
            self.waiting += [message(kind, 0, sequence, body), refusal(data, 0)]
        return len(data)

    def recv(self, size: int, /) -> bytes:
        if not self.waiting:
            raise TimeoutError
        return self.waiting.pop(0)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.closed = True

    def sent(self, command: int) -> list[list[tuple[int, bytes]]]:
        """Attributes of each request of one command."""
        return [attributes_of(request) for request in self.requests if request[16] == command]


YES = (0, None, None)
TOO_LARGE = (EINVAL, "requested ring size exceeds maximum", 32)
UNSUPPORTED = (EINVAL, "cannot modify an unsupported parameter", 32)


def e1000e() -> FakeKernel:
    """Intel's e1000e: rings of 256 in 4096, rx-usecs alone, no channels, pause on."""
    return FakeKernel(
        answers={
            RINGS_GET: u32(2, 4096) + u32(5, 4096) + u32(6, 256) + u32(9, 256) + u8(13, 0) + u8(14, 0),
            COALESCE_GET: u32(2, 3),
            PAUSE_GET: u8(2, 1) + u8(3, 1) + u8(4, 1),
        },
        changes={RINGS_SET: YES, COALESCE_SET: YES, PAUSE_SET: YES},
    )


def virtio_net() -> FakeKernel:
    """virtio_net on a host without notification coalescing: values that are told, and not to be changed."""
    return FakeKernel(
        answers={
            RINGS_GET: u32(2, 256) + u32(5, 256) + u32(6, 256) + u32(9, 256) + u8(13, 0),
            COALESCE_GET: u32(2, 0) + u32(3, 1) + u32(6, 0) + u32(7, 1),
            CHANNELS_GET: u32(5, 1) + u32(9, 1),
        },
        changes={COALESCE_SET: (EOPNOTSUPP, None, None), CHANNELS_SET: YES, RINGS_SET: TOO_LARGE},
    )


def netdevsim() -> FakeKernel:
    """netdevsim: all rings in 4096 with a size of 0, every coalescing value 0."""
    switches = {11, 12, 24, 25}
    coalesce = b"".join(u8(number, 0) if number in switches else u32(number, 0) for number in range(2, 26))
    rings = b"".join(u32(number, 4096 if number < 6 else 0) for number in range(2, 10))
    return FakeKernel(
        answers={RINGS_GET: rings + u8(13, 0), COALESCE_GET: coalesce, CHANNELS_GET: u32(5, 4) + u32(9, 4)},
        changes={RINGS_SET: YES, COALESCE_SET: YES, CHANNELS_SET: YES},
    )


def vmxnet3() -> FakeKernel:
    """vmxnet3: three rings, no coalescing, two channels and one other."""
    maxima = u32(2, 4096) + u32(4, 4096) + u32(5, 4096)
    return FakeKernel(
        answers={
            RINGS_GET: maxima + u32(6, 1024) + u32(8, 512) + u32(9, 512) + u8(13, 0),
            CHANNELS_GET: u32(4, 1) + u32(5, 2) + u32(8, 1) + u32(9, 2),
        },
        changes={RINGS_SET: YES, CHANNELS_SET: YES},
    )
