"""Interrupt moderation of single queues: ``ETHTOOL_PERQUEUE``, which has no netlink twin.

One value of all queues is one text, ``30`` or ``30;30;8``, and is taken back as such. <linux/ethtool.h>:
``struct ethtool_per_queue_op`` is command, sub-command and a mask of 4096 queues; behind it stands one
``struct ethtool_coalesce`` for each queue of the mask, in the mask's order. Where one queue is refused, the
kernel puts the queues before it back by itself (net/ethtool/ioctl.c, ethtool_set_per_queue_coalesce).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from labkit.errors import SettingRefusedError
from labkit.factors import BY_QUEUE_SETTINGS, BY_QUEUE_SUFFIX, Scalar
from labkit.linux.ethtool_messages import COALESCE, U32_MAX
from labkit.linux.queues import APART

ETHTOOL_GCOALESCE: Final = 0x0E
ETHTOOL_SCOALESCE: Final = 0x0F
ETHTOOL_PERQUEUE: Final = 0x4B
MOST_QUEUES: Final = 4096
HEAD: Final = struct.Struct(f"=II{MOST_QUEUES // 8}s")
MODERATION: Final = struct.Struct("=23I")
"""``struct ethtool_coalesce``: the command, then the first 22 of netlink's attributes in their order."""
FIELDS: Final = ("command", *tuple(COALESCE.kinds)[:22])
WORDS: Final = ("off", "on")


class QueueModeration:
    """All queues of one device.

    Parameters
    ----------
    ask : callable
        Hands a struct to the kernel and returns it as the kernel left it.
    rx, tx : int
        Queues in use.
    """

    def __init__(self, ask: Callable[[bytes], bytes], *, rx: int, tx: int) -> None:
        self._ask, self._counts = ask, {"rx": rx, "tx": tx}

    def read(self) -> dict[str, Scalar]:
        """One text a setting, whether the driver has it or not: it tells 0 of one that it does not have."""
        queues = self._queues()
        return {name: self._text(name, queues) for name in BY_QUEUE_SETTINGS}

    def write(self, settings: Mapping[str, Scalar]) -> None:
        """Change the queues that differ; all else of a queue stays.

        A queue that adapts takes no other fixed values (i40e and ice refuse them), so it stops adapting for
        that moment.

        Raises
        ------
        SettingRefusedError
            A text that is no value for one or for all queues.
        """
        queues = before = self._queues()
        for name, value in settings.items():
            queues = self._changed(name, value, queues)
        different = [number for number, queue in enumerate(queues) if queue != before[number]]
        if different:
            fixed = {number: _fixed(before[number], queues[number]) for number in different}
            self._ask(request(ETHTOOL_SCOALESCE, different, list(fixed.values())))
            adapting = [number for number, queue in fixed.items() if queue != queues[number]]
            if adapting:
                self._ask(request(ETHTOOL_SCOALESCE, adapting, [queues[number] for number in adapting]))

    def _queues(self) -> list[tuple[int, ...]]:
        numbers = range(max(1, *self._counts.values()))
        return moderations_of(self._ask(request(ETHTOOL_GCOALESCE, numbers, [(0,) * 23] * len(numbers))))

    def _text(self, name: str, queues: Sequence[tuple[int, ...]]) -> str | None:
        field, count = _field(name), self._counts[direction_of(name)]
        values = [queue[FIELDS.index(field)] for queue in queues[:count]]
        texts = [WORDS[bool(value)] if _is_switch(field) else str(value) for value in values]
        return (texts[0] if len(set(texts)) == 1 else APART.join(texts)) if texts else None

    def _changed(self, name: str, value: Scalar, queues: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        field, count = _field(name), self._counts[direction_of(name)]
        numbers = [_number(name, field, part) for part in str(value).split(APART)]
        if len(numbers) not in {1, count}:
            raise SettingRefusedError(
                f"{name} {value!r} has {len(numbers)} values for {count} queues; give one for all, or as "
                f"many as there are queues"
            )
        place, wanted = FIELDS.index(field), numbers * (count // len(numbers))
        changed = [
            (*queue[:place], number, *queue[place + 1 :])
            for queue, number in zip(queues[:count], wanted, strict=True)
        ]
        return [*changed, *queues[count:]]


def direction_of(name: str) -> str:
    """``rx`` or ``tx``: whose queues setting `name` is about."""
    return "rx" if "rx" in name.split("_") else "tx"


def request(sub_command: int, queues: Sequence[int], moderations: Sequence[tuple[int, ...]]) -> bytes:
    """Struct that reads or changes `queues`, numbers in rising order."""
    mask = sum(1 << number for number in queues)
    words = b"".join(struct.pack("=I", mask >> shift & U32_MAX) for shift in range(0, MOST_QUEUES, 32))
    structs = (MODERATION.pack(sub_command, *each[1:]) for each in moderations)
    return HEAD.pack(ETHTOOL_PERQUEUE, sub_command, words) + b"".join(structs)


def moderations_of(answer: bytes) -> list[tuple[int, ...]]:
    """Fields of each queue that was asked for."""
    return list(MODERATION.iter_unpack(answer[HEAD.size :]))


def _field(name: str) -> str:
    """What a queue has of setting `name`: ``rx_usecs`` of ``rx_usecs_by_queue``."""
    return name.removesuffix(BY_QUEUE_SUFFIX)


def _is_switch(field: str) -> bool:
    return COALESCE.kinds[field] == "uint8"


def _fixed(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """Moderation `after` without adapting in a direction whose fixed values differ from `before`."""
    fields = list(after)
    for direction in ("rx", "tx"):
        places = [FIELDS.index(f"{direction}_{field}") for field in ("usecs", "frames")]
        if any(before[place] != after[place] for place in places):
            fields[FIELDS.index(f"adaptive_{direction}")] = 0
    return tuple(fields)


def _number(name: str, field: str, text: str) -> int:
    if _is_switch(field):
        if text not in WORDS:
            raise SettingRefusedError(f"{name} {text!r}: give on or off for each queue")
        return WORDS.index(text)
    if not text.isdecimal() or int(text) > U32_MAX:
        raise SettingRefusedError(f"{name} {text!r}: give a whole number, 0 to {U32_MAX}, for each queue")
    return int(text)
