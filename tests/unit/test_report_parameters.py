from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit.errors import WorkloadError
from labkit.report.parameters import Parameter, assign, parse

CELL = """
quick: bool = True          # finishes in seconds
tx_ring: int = 512
rate_pps: float | None = None
dst_mac: str = "02:00:00:00:00:01"
rings = [64, 256]
names: list[str] = []
limits: dict = {}
anything = None
pair = (1, 2)
computed = 3 * tx_ring
offset = -4
"""


def known() -> dict[str, Parameter]:
    return parse(CELL)


def test_every_assigned_name_is_a_parameter() -> None:
    names = "quick tx_ring rate_pps dst_mac rings names limits anything pair computed offset"
    assert set(known()) == set(names.split())


@pytest.mark.parametrize(
    ("name", "text", "right"),
    [
        ("quick", "false", False),
        ("quick", "False", False),
        ("quick", "no", False),
        ("quick", "0", False),
        ("quick", "yes", True),
        ("tx_ring", "768", 768),
        ("tx_ring", "1e3", 1000),
        ("tx_ring", "1000.0", 1000),
        ("tx_ring", "0x400", 1024),
        ("tx_ring", "08", 8),
        ("offset", "-7", -7),
        ("rate_pps", "1e6", 1e6),
        ("rate_pps", "none", None),
        ("dst_mac", "52:54:05:00:23:48", "52:54:05:00:23:48"),
        ("dst_mac", "08", "08"),
        ("dst_mac", "[1]", "[1]"),
        ("rings", "64,256", [64, 256]),
        ("rings", "[64, 256]", [64, 256]),
        ("rings", "1e3", [1000]),
        ("names", "08,true", ["08", "true"]),
        ("limits", '{"a": 1}', {"a": 1}),
        ("pair", "3,4", [3, 4]),
        ("anything", "2.5", 2.5),
        ("computed", "5", 5),
    ],
)
def test_text_takes_the_type_of_the_parameter(name: str, text: str, right: Any) -> None:
    made = known()[name].from_text(text)
    assert made == right
    assert type(made) is type(right)


@pytest.mark.parametrize(
    ("name", "text", "type_name"),
    [
        ("quick", "maybe", "bool"),
        ("quick", "", "bool"),
        ("tx_ring", "large", "int"),
        ("tx_ring", "1.5", "int"),
        ("tx_ring", "nan", "int"),
        ("tx_ring", "inf", "int"),
        ("tx_ring", "none", "int"),
        ("rate_pps", "fast", "float"),
        ("rings", "64,x", "list"),
        ("rings", "[64", "list"),
        ("limits", "a=1", "dict"),
        ("limits", "[1]", "dict"),
    ],
)
def test_text_of_a_wrong_type_is_refused_with_name_and_type(name: str, text: str, type_name: str) -> None:
    with pytest.raises(WorkloadError, match=rf"parameter {name} .*{type_name}"):
        known()[name].from_text(text)


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("tx_ring", np.int64(768), 768),
        ("tx_ring", 1000.0, 1000),
        ("rate_pps", 5, 5.0),
        ("rate_pps", None, None),
        ("dst_mac", Path("a/b"), "a/b"),
        ("rings", (1, 2), [1, 2]),
        ("anything", [1, None, True], [1, None, True]),
        ("anything", {"a": None}, {"a": None}),
        ("limits", {"grün": "漢"}, {"grün": "漢"}),
    ],
)
def test_python_values_arrive_in_the_type_of_the_parameter(name: str, value: object, right: object) -> None:
    made = known()[name].from_value(value)
    assert made == right
    assert type(made) is type(right)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tx_ring", "768"),
        ("tx_ring", True),
        ("tx_ring", None),
        ("tx_ring", 1.5),
        ("quick", "false"),
        ("quick", 0),
        ("rings", {64}),
        ("rings", [64, "x"]),
        ("rings", b"64"),
    ],
)
def test_python_values_of_a_wrong_type_are_refused(name: str, value: object) -> None:
    with pytest.raises(WorkloadError, match=name):
        known()[name].from_value(value)


def test_a_mac_that_yaml_made_a_number_is_explained() -> None:
    with pytest.raises(WorkloadError, match=r"dst_mac is text .*41136121428.*MAC must be text, quote it"):
        known()["dst_mac"].from_value(41136121428)


def test_a_broken_parameters_cell_is_named() -> None:
    with pytest.raises(WorkloadError, match=r"a\.ipynb.*no Python"):
        parse("quick = = 1", where="a.ipynb")


def test_notebooks_share_parameters_and_each_takes_its_own() -> None:
    one, two = Path("one.ipynb"), Path("two.ipynb")
    given = assign(
        {one: parse("quick = True\nring = 512"), two: parse("quick = False")},
        {},
        {"quick": "no", "ring": "64"},
    )
    assert given == {one: {"quick": False, "ring": 64}, two: {"quick": False}}


def test_a_parameter_that_no_notebook_knows_lists_the_known_ones() -> None:
    with pytest.raises(WorkloadError, match=r"unknown parameter rings: one\.ipynb knows quick, ring"):
        assign({Path("one.ipynb"): parse("quick = True\nring = 512")}, {}, {"rings": "768"})


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(WorkloadError, match="ring is given twice"):
        assign({Path("one.ipynb"): parse("ring = 512")}, {"ring": 1}, {"ring": "2"})
