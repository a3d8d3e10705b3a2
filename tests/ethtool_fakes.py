"""A kernel that answers ethtool's netlink by itself, by the numbers of <linux/ethtool_netlink.h>."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.linux.ethtool import Ethtool

FAMILY = 21
IFINDEX = 4
COALESCE_GET, COALESCE_SET = 19, 20
RINGS_GET, RINGS_SET = 15, 16
CHANNELS_GET, CHANNELS_SET = 17, 18
PAUSE_GET, PAUSE_SET = 21, 22
STATISTICS_GET = 32
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
    return strings_of(4, names)


def strings_of(number: int, names: Sequence[str]) -> bytes:
    """Answer of one set of strings."""
    strings = b"".join(
        attribute(1, u32(1, index) + attribute(2, name.encode() + b"\0")) for index, name in enumerate(names)
    )
    return attribute(2, attribute(1, u32(1, number) + u32(2, len(names)) + attribute(3, strings)))


def strings_asked(request: bytes) -> int:
    """Number of the set of strings that a request names: sets, a set, its number."""
    body = dict(attributes_of(request))[2]
    (number,) = struct.unpack_from("=I", body, 8)
    return int(number)


@dataclass
class FakeQueues:
    """Queues behind ``ETHTOOL_PERQUEUE``: structs in, structs out, as net/ethtool/ioctl.c does it.

    A queue that adapts takes no other fixed value (i40e_ethtool.c, __i40e_set_coalesce).

    Attributes
    ----------
    queues : list
        22 fields of ``struct ethtool_coalesce`` each, behind its command.
    supported : set of int
        Places of the fields that the driver takes.
    most_usecs : int
        A driver's bound; a queue that is asked for more is refused, and those before it are put back.
    refuses : int or None
        Errno of every request; None is a driver that has it.
    """

    queues: list[list[int]]
    supported: frozenset[int] = frozenset({0, 4, 9, 10})
    most_usecs: int = 8160
    refuses: int | None = None
    requests: list[bytes] = field(default_factory=list)

    def __call__(self, descriptor: int, interface: str, data: bytes, /) -> bytes:
        command, sub_command = struct.unpack_from("=II", data)
        assert (interface, command) == ("eth4", 0x4B)
        self.requests.append(data)
        if self.refuses is not None:
            raise OSError(self.refuses, "refused")
        mask = int.from_bytes(data[8:520], "little")
        places = [number for number in range(4096) if mask >> number & 1]
        assert len(data) == 520 + 92 * len(places)
        if max(places) >= len(self.queues):
            raise OSError(errno.EINVAL, "no such queue")
        if sub_command == 0x0E:
            told = (struct.pack("=23I", 0x0E, *self.queues[number]) for number in places)
            return data[:520] + b"".join(told)
        assert sub_command == 0x0F
        before = [list(queue) for queue in self.queues]
        for number, asked in zip(places, struct.iter_unpack("=23I", data[520:]), strict=True):
            fields, now = list(asked[1:]), self.queues[number]
            unsupported = any(value for place, value in enumerate(fields) if place not in self.supported)
            adapts = any(fields[9 + side] and fields[4 * side] != now[4 * side] for side in (0, 1))
            if unsupported or adapts or max(fields[0], fields[4]) > self.most_usecs:
                self.queues = before
                raise OSError(EOPNOTSUPP if unsupported else errno.EINVAL, "refused")
            self.queues[number] = fields
        return data

    def changes(self) -> list[list[int]]:
        """Queues of each change."""
        masks = [int.from_bytes(data[8:520], "little") for data in self.requests if data[4] == 0x0F]
        return [[number for number in range(4096) if mask >> number & 1] for mask in masks]


def queue(*, rx: int = 50, tx: int = 50, adaptive_rx: bool = False, adaptive_tx: bool = False) -> list[int]:
    return [rx, 0, 0, 0, tx, 0, 0, 0, 0, int(adaptive_rx), int(adaptive_tx), *[0] * 11]


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
    strings : dict
        Answers by number of the set of strings.
    """

    answers: dict[int, bytes | tuple[int, str | None, int | None]] = field(default_factory=dict)
    changes: dict[int, tuple[int, str | None, int | None]] = field(default_factory=dict)
    stray: bytes = b""
    strings: dict[int, bytes] = field(default_factory=dict)
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
            answer = self.strings.get(strings_asked(data)) if data[16] == STRINGS_GET else None
            answer = answer or self.answers.get(
                data[16], self.changes.get(data[16], (EOPNOTSUPP, None, None))
            )
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
        return 1 << 30  # nobody's

    def close(self) -> None:
        self.closed = True

    def sent(self, command: int) -> list[list[tuple[int, bytes]]]:
        """Attributes of each request of one command."""
        return [attributes_of(request) for request in self.requests if request[16] == command]


def client(kernel: FakeKernel, queues: FakeQueues | None = None) -> Ethtool:
    """A client of a kernel whose driver has these queues, or no moderation of single ones."""
    ioctl = queues or FakeQueues([], refuses=EOPNOTSUPP)
    return Ethtool(kernel, ioctl=ioctl, interface_name=lambda _, ifindex: f"eth{ifindex}")


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
