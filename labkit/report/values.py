"""Plain values: what may travel into a notebook or a run record, and text as people type it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from labkit.errors import WorkloadError
from labkit.factors import Scalar

WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def plain(value: object, name: str) -> Any:
    """Return `value` as plain JSON values: paths become text, tuples lists, numpy values Python's own.

    Anything else that JSON lacks would arrive as text in the notebook, so it is refused.

    Raises
    ------
    WorkloadError
        A value, at any depth, of a type without a faithful plain form; the message names `name`.
    """
    if value is None or isinstance(value, bool):
        return value
    for base in (int, float, str):
        if isinstance(value, base):
            return base(value)  # numpy.float64 and enums are subclasses; only the value travels
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, list | tuple):
        return [plain(element, name) for element in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): plain(element, name) for key, element in value.items()}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), name)
    raise WorkloadError(
        f"{name}: a {type(value).__name__} cannot travel into a notebook or a record; "
        "give numbers, text, true/false, None, or lists and dicts (with text keys) of these"
    )


def integer(text: str) -> int:
    """Whole number in `text`: ``1000``, ``08``, ``1e3``, ``1000.0`` or ``0x400``; ValueError for others."""
    text = text.strip()
    if text.lower().lstrip("+-").startswith("0x"):
        return int(text, 16)
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text} is not a whole number")
    return int(number)


def boolean(text: str) -> bool:
    """Truth in `text`: true/yes/on/1 or false/no/off/0 in any case; ValueError for others."""
    known = WORDS | {"1": True, "0": False}
    if text.strip().lower() not in known:
        raise ValueError(f"{text} is neither true nor false")
    return known[text.strip().lower()]


def guess(text: str) -> Scalar:
    """Return `text` as the bool, int or float that it spells (``1e3`` is 1000), else as it is."""
    word = text.strip().lower()
    if word in WORDS:
        return WORDS[word]
    if not any(character.isdigit() for character in word):
        return text  # "nan" and "infinity" are words here: no knob takes them
    try:
        return float(word) if "." in word else integer(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return text
