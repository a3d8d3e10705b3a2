"""Ring and coalescing settings in what ``ethtool -g`` and ``-c`` printed, as pasted from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import Scalar

RING_WORDS: Final = {
    "RX": "rx_ring",
    "RX Mini": "rx_mini_ring",
    "RX Jumbo": "rx_jumbo_ring",
    "TX": "tx_ring",
    "RX Buf Len": "rx_buf_len",
    "CQE Size": "cqe_size",
    "TX Push": "tx_push",
    "RX Push": "rx_push",
    "TX push buff len": "tx_push_buf_len",
    "TCP data split": "tcp_data_split",
}
"""ethtool's words for the settings of ``-g``."""

PAIRED_WORDS: Final = {"Adaptive": "adaptive", "CQE mode": "cqe_mode"}
"""Lines of ``-c`` that hold two values: ``Adaptive RX: on  TX: off``."""

NOT_SUPPORTED: Final = ("operation not supported", "not supported")
NO_DEVICE: Final = ("no such device", "no device matches name")

_PAIR: Final = re.compile(r"(?P<word>.+?)\s+RX:\s*(?P<rx>\S+)\s+TX:\s*(?P<tx>\S+)")

Half: TypeAlias = dict[str, Scalar]


class PastedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a pasted text tells.

    Attributes
    ----------
    device : str or None
        Interface that the text names.
    maxima, current : dict of str to scalar
        Values by setting; None where the driver does not report one. Lines that labkit has no name for are
        kept under ethtool's own words.
    notes : tuple of str
        What is missing in the text.
    """

    device: str | None
    maxima: dict[str, Scalar]
    current: dict[str, Scalar]
    notes: tuple[str, ...]


def parse_rings(text: str) -> PastedSettings:
    """Rings in what ``ethtool -g`` printed.

    Raises
    ------
    CapabilityMissingError, WorkloadError
        The text says that the device has no rings, or that there is no such device.
    """
    _raise_refusal(text)
    halves: dict[str, Half] = {"maxima": {}, "current": {}}
    now: Half | None = None
    for word, value in _lines(text):
        if value == "":
            now = halves.get(_section(word), now)
        elif now is not None:
            now[RING_WORDS.get(word, word)] = _scalar(value)
    notes = tuple(f"{name} section missing" for name, half in halves.items() if not half)
    for name in RING_WORDS.values():
        halves["current"].setdefault(name, None)
    return PastedSettings(
        device=_device(text), maxima=halves["maxima"], current=halves["current"], notes=notes
    )


def parse_coalesce(text: str) -> PastedSettings:
    """Coalescing in what ``ethtool -c`` printed; ``rx-frame-low`` is ``rx_frames_low``.

    Raises
    ------
    CapabilityMissingError, WorkloadError
        As `parse_rings`.
    """
    _raise_refusal(text)
    current: Half = {}
    for line in text.splitlines():
        paired = _PAIR.fullmatch(line.strip())
        if paired is not None and paired["word"] in PAIRED_WORDS:
            word = PAIRED_WORDS[paired["word"]]
            current |= {f"{word}_rx": _scalar(paired["rx"]), f"{word}_tx": _scalar(paired["tx"])}
    for word, value in _lines(text):
        if re.fullmatch(r"[a-z][a-z-]+", word) and value:
            name = word.replace("-", "_").replace("_frame_", "_frames_")
            current[name] = _scalar(value)
    notes = () if current else ("current section missing",)
    return PastedSettings(device=_device(text), maxima={}, current=current, notes=notes)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        word, colon, value = line.strip().partition(":")
        if colon:
            yield word.strip(), value.strip()


def _section(word: str) -> str:
    return {"Pre-set maximums": "maxima", "Current hardware settings": "current"}.get(word, "")


def _device(text: str) -> str | None:
    found = re.search(r"^\w+ parameters for (\S+):", text, re.MULTILINE)
    return None if found is None else found[1]


def _scalar(word: str) -> Scalar:
    """Value of one column: ``n/a`` is None, ``on`` and ``off`` are truths, digits are a number."""
    known: dict[str, Scalar] = {"n/a": None, "on": True, "off": False}
    return known[word] if word in known else int(word) if word.isdecimal() else word


def _raise_refusal(text: str) -> None:
    said = text.lower()
    first = text.strip().splitlines()[0] if text.strip() else ""
    if any(words in said for words in NO_DEVICE):
        raise WorkloadError(f"the text says {first!r}: there is no such device; look at `ip link`")
    if any(words in said for words in NOT_SUPPORTED):
        raise CapabilityMissingError(
            f"the text says {first!r}: the device does not have these settings; try rig 'sim:ixgbe'"
        )
