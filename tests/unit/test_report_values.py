from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit.errors import WorkloadError
from labkit.report.values import guess, plain


class Colour(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (None, None),
        (True, True),
        ([1, None, True], [1, None, True]),
        ({"a": None}, {"a": None}),
        ("µs Ω 漢字", "µs Ω 漢字"),
        (Path("out/x"), "out/x"),
        (np.int64(3), 3),
        (np.float64(1.5), 1.5),
        (np.bool_(True), True),
        (np.array([64, 256]), [64, 256]),
        ((1, (2, np.int32(3))), [1, [2, 3]]),
        (Colour.RED, 3),
    ],
)
def test_faithful_values_become_plain_ones(value: object, right: object) -> None:
    made = plain(value, "ring")
    assert made == right
    assert type(made) is type(right)


@pytest.mark.parametrize(
    "value", [{1}, b"x", range(3), object(), {1: "a"}, [b"deep"], {"a": {2}}, 1j, np.datetime64("2020-01-01")]
)
def test_values_without_a_plain_form_are_refused_by_name(value: object) -> None:
    with pytest.raises(WorkloadError, match="ring"):
        plain(value, "ring")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("true", True),
        ("off", False),
        ("512", 512),
        ("-3", -3),
        ("0x400", 1024),
        ("1e3", 1000),
        ("1000.0", 1000.0),
        ("1e-3", 0.001),
        ("2.5", 2.5),
        ("pfifo", "pfifo"),
        ("nan", "nan"),
        ("infinity", "infinity"),
        ("", ""),
        ("1_000", 1000),
    ],
)
def test_text_is_read_as_what_it_spells(text: str, right: Any) -> None:
    assert guess(text) == right
    assert type(guess(text)) is type(right)
