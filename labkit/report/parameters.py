"""Parameters of a notebook: read from its one `parameters` cell, converted by type, before any kernel starts.

The cell is read as syntax, not by regular expression, so a default's type is exact::

    quick: bool = True
    tx_ring = [256, 512]
    dst_mac: str | None = None
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.errors import WorkloadError
from labkit.report.values import boolean, guess, integer, plain

TAG: Final = "parameters"
_FROM_TEXT: Final[dict[str, Callable[[str], Any]]] = {
    "bool": boolean,
    "int": integer,
    "float": float,
    "str": str,
}
_PLAIN_TYPES: Final = {"bool": bool, "int": int, "float": float, "str": str, "list": list, "dict": dict}
_NAMES: Final = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter that a notebook declares.

    Attributes
    ----------
    name : str
        Variable in the `parameters` cell.
    kind : str or None
        ``bool int float str list dict``; None when neither annotation nor default says.
    item_kind : str or None
        The same of a list's elements.
    optional : bool
        None is a value.
    """

    name: str
    kind: str | None
    item_kind: str | None = None
    optional: bool = False

    def from_text(self, text: str) -> Any:
        """Value that `text` from a command line spells; a WorkloadError names parameter and type."""
        if self.optional and text.strip().lower() in {"none", "null"}:
            return None
        try:
            return self._spelled(text)
        except ValueError as error:
            raise self._refusal(text) from error

    def from_value(self, value: object) -> Any:
        """`value` of a Python call in the parameter's type; a WorkloadError names parameter and type."""
        value = plain(value, self.name)
        if self.kind is None or (value is None and self.optional):
            return value
        if self.kind == "float" and type(value) is int:
            return float(value)
        if self.kind == "int" and isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is not _PLAIN_TYPES[self.kind]:
            raise self._refusal(value)
        if isinstance(value, list) and self.item_kind:
            element = Parameter(name=self.name, kind=self.item_kind)
            return [element.from_value(entry) for entry in value]
        return value

    def _spelled(self, text: str) -> Any:
        if self.kind == "dict" or (self.kind not in _FROM_TEXT and text.lstrip().startswith(("[", "{"))):
            return self.from_value(json.loads(text))
        if self.kind == "list":
            element = _FROM_TEXT.get(self.item_kind or "", guess)
            return [element(part.strip()) for part in text.split(",") if part.strip()]
        return _FROM_TEXT[self.kind](text) if self.kind else guess(text)

    def _refusal(self, value: object) -> WorkloadError:
        wanted = _NAMES.get(self.kind or "", f"a {self.kind}")
        message = f"parameter {self.name} is {wanted} ({self.kind}), not {value!r}"
        if self.kind == "str" and isinstance(value, int):
            message += "; YAML reads an unquoted MAC address as a number: a MAC must be text, quote it"
        return WorkloadError(message)


def declared(path: Path) -> dict[str, Parameter]:
    """Parameters that the notebook at `path` declares, by name.

    Raises
    ------
    WorkloadError
        No such notebook, no notebook, or not exactly one cell tagged `parameters`.
    """
    from labkit.report import notebook

    try:
        cells = [cell for cell in notebook.cells(path) if TAG in notebook.tags(cell)]
    except (OSError, ValueError) as error:
        raise WorkloadError(f"{path}: not a notebook that can be read: {error}") from error
    if len(cells) != 1 or cells[0].cell_type != "code":
        raise WorkloadError(
            f"{path}: {len(cells)} cells are tagged '{TAG}', one code cell must be: "
            "without it a given value would be overwritten silently"
        )
    return parse(cells[0].source, where=str(path))


def parse(source: str, where: str = "parameters cell") -> dict[str, Parameter]:
    """Parameters assigned in `source`, by name; a WorkloadError says where the syntax is wrong."""
    try:
        return _assigned(ast.parse(source).body)
    except SyntaxError as error:
        raise WorkloadError(f"{where}: the parameters cell is no Python: {error}") from error


def _assigned(statements: Sequence[ast.stmt]) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for statement in statements:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = _parameter(
                statement.target.id, statement.value, statement.annotation
            )
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = _parameter(target.id, statement.value, None)
    return found


def assign(
    declarations: Mapping[Path, Mapping[str, Parameter]],
    values: Mapping[str, object],
    texts: Mapping[str, str],
) -> dict[Path, dict[str, Any]]:
    """Value of each given parameter for each notebook that declares it.

    Several notebooks share one list of parameters: each takes those that it declares, and a name that
    none of them declares is an error.

    Raises
    ------
    WorkloadError
        A name that no notebook knows, a value of a wrong type, or a name given twice.
    """
    if twice := sorted(values.keys() & texts.keys()):
        raise WorkloadError(f"parameter {twice[0]} is given twice, as a value and as text")
    for name in (*values, *texts):
        if not any(name in known for known in declarations.values()):
            lists = "; ".join(f"{path.name} knows {_names(known)}" for path, known in declarations.items())
            raise WorkloadError(f"unknown parameter {name}: {lists}")
    return {
        path: {name: known[name].from_value(value) for name, value in values.items() if name in known}
        | {name: known[name].from_text(text) for name, text in texts.items() if name in known}
        for path, known in declarations.items()
    }


def _names(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _parameter(name: str, value: ast.expr | None, annotation: ast.expr | None) -> Parameter:
    try:
        default = ast.literal_eval(value) if value is not None else None
    except ValueError:  # an expression: its type shows only when it runs
        default, literal = None, False
    else:
        literal = True
    optional = literal and value is not None and default is None
    if annotation is not None:
        kind, item_kind, none_allowed = _annotated(annotation)
        return Parameter(name=name, kind=kind, item_kind=item_kind, optional=optional or none_allowed)
    kind = _kind_of(default)
    item_kinds = {_kind_of(entry) for entry in default} if isinstance(default, list | tuple) else set()
    item_kind = item_kinds.pop() if len(item_kinds) == 1 else None
    return Parameter(name=name, kind=kind, item_kind=item_kind, optional=optional)


def _kind_of(default: object) -> str | None:
    if isinstance(default, tuple):
        return "list"
    name = type(default).__name__
    return name if name in _PLAIN_TYPES else None


def _annotated(annotation: ast.expr) -> tuple[str | None, str | None, bool]:
    """Kind, kind of the elements and whether None is allowed, from a type annotation."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    options = [ast.unparse(option) for option in _options(annotation)]
    kinds = [option for option in options if option != "None"]
    if len(kinds) != 1:
        return None, None, "None" in options
    outer, _, inner = kinds[0].partition("[")
    outer = "list" if outer == "tuple" else outer
    item = inner.rstrip("]").split(",")[0]
    return (
        outer if outer in _PLAIN_TYPES else None,
        item if outer == "list" and item in _FROM_TEXT else None,
        "None" in options,
    )


def _options(annotation: ast.expr) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _options(annotation.left) + _options(annotation.right)
    return [annotation]
