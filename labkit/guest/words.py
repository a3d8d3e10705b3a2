"""What the guest's init is told, as words of the kernel's command line; `init.sh` reads them back.

``labkit.mounts=TAG:PATH,...`` names 9p shares and where they are mounted, in this order;
``labkit.links=PATH:TARGET,...`` symbolic links; ``labkit.exec=WORD,...`` the command that the guest runs.
In each PATH, TARGET and WORD every byte is percent-encoded but letters, digits and ``/+=@_.-~``, so that
blanks, colons, commas and quotes in them separate nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from labkit.errors import CapabilityMissingError

PORT: Final = "labkit.agent"
"""Name of the virtio-serial port on which the command has its standard input and output."""
LONGEST_BYTES: Final = 1792
"""COMMAND_LINE_SIZE of x86 is 2048 (arch/x86/include/asm/setup.h) and the kernel cuts silently what is
longer; the rest is left to the console and the like."""
PLAIN: Final = "/+=@_.-~"


def kernel_words(mounts: Sequence[tuple[str, str]], links: Mapping[str, str], command: Sequence[str]) -> str:
    """Words for the kernel's command line: shares as (tag, mount point), links as path to target, a command.

    Raises
    ------
    CapabilityMissingError
        They are longer than the kernel reads.
    """
    words = " ".join(
        f"labkit.{name}={value}"
        for name, value in (
            ("mounts", _pairs(mounts)),
            ("links", _pairs(links.items())),
            ("exec", ",".join(_plain(word) for word in command)),
        )
        if value
    )
    if len(words) > LONGEST_BYTES:
        longest = max((path for _, path in mounts), key=len, default="")
        raise CapabilityMissingError(
            f"vm: the guest's kernel reads {LONGEST_BYTES} bytes of words, these paths take {len(words)}; "
            f"move the checkout or its virtual environment to a shorter path (the longest is {longest})"
        )
    return words


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{_plain(left)}:{_plain(right)}" for left, right in pairs)


def _plain(word: str) -> str:
    return quote(os.fsencode(word), safe=PLAIN)
