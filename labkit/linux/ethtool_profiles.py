"""Profiles of adaptive moderation as texts: the steps among which the kernel's DIM chooses.

A step is microseconds, packets and completions, ``-`` where the device has no such part:
``1/256/-;8/256/-``. Numbers are those of <linux/ethtool_netlink_generated.h>.
"""

from __future__ import annotations

from typing import Any, Final

from labkit.errors import SettingRefusedError
from labkit.linux.queues import APART

PROFILES: Final = ("rx_profile", "tx_profile")
PARTS: Final = ("usec", "pkts", "comps")
"""``ETHTOOL_A_IRQ_MODERATION_*``, in the order of their numbers."""
BETWEEN: Final = "/"
UNSET: Final = "-"
U16_MAX: Final = 2**16 - 1


def text_of(profile: Any) -> str:
    """Steps of a profile that the kernel told."""
    steps = ([step.get_attr(part) for part in PARTS] for step in profile.get_attrs("irq_moderation"))
    return APART.join(
        BETWEEN.join(UNSET if value is None else str(value) for value in step) for step in steps
    )


def attributes_of(name: str, text: str) -> dict[str, Any]:
    """What is sent for a profile.

    Raises
    ------
    SettingRefusedError
        A text of another form, or a number for which the kernel has no room: it would cut it to 16 bits.
    """
    steps = [_step(name, text, step.split(BETWEEN)) for step in text.split(APART)]
    return {"attrs": [("irq_moderation", {"attrs": step}) for step in steps]}


def check_steps(name: str, text: str, current: str | None) -> None:
    """Refuse a profile of more or fewer steps than the device has.

    Kernels without commit 7281b096b072 write behind the end of the device's steps when there are more.
    """
    if current is not None and text.count(APART) != current.count(APART):
        raise SettingRefusedError(
            f"{name} {text!r}: the device has {current.count(APART) + 1} steps, {current!r}; give as many"
        )


def _step(name: str, text: str, parts: list[str]) -> list[tuple[str, int]]:
    given = [(part, word) for part, word in zip(PARTS, parts, strict=False) if word != UNSET]
    right = all(word.isascii() and word.isdecimal() and int(word) <= U16_MAX for _, word in given)
    if len(parts) != len(PARTS) or not right:
        raise SettingRefusedError(
            f"{name} {text!r}: give usecs/packets/completions of each step, as in 1/256/-;8/256/-, up to "
            f"{U16_MAX}"
        )
    return [(part, int(word)) for part, word in given]
