"""Two factors as a table: one cell a point, a gap where nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from labkit.analysis.summary import Estimate, ResultsLike, caveat, summarise
from labkit.errors import WorkloadError
from labkit.factors import Scalar
from labkit.units import percent_error


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: `value` is None in a gap; `reason` says what is missing or left out.

    `turned` says what the device made of a level (`labkit.analysis.summary.PointSummary`).
    """

    value: float | None
    estimate: Estimate | None = None
    reason: str | None = None
    turned: dict[str, str] = {}


class Pivot(msgspec.Struct, frozen=True, kw_only=True):
    """A table of `value` over two factors.

    Attributes
    ----------
    x, y, value : str
        Names of the columns' factor, of the rows' factor and of what the cells hold.
    x_levels, y_levels : tuple of scalar
        Column and row heads.
    cells : tuple of tuple of Cell
        Rows of cells, ``cells[row][column]``.
    caveat : str or None
        What has to be said of them: a machine that nobody ever measured, or an emulated one.
    """

    x: str
    y: str
    value: str
    x_levels: tuple[Scalar, ...]
    y_levels: tuple[Scalar, ...]
    cells: tuple[tuple[Cell, ...], ...]
    caveat: str | None = None

    def at(self, x_level: Scalar, y_level: Scalar) -> Cell | None:
        """Cell at two levels; None when the table has no such column or row."""
        if x_level not in self.x_levels or y_level not in self.y_levels:
            return None
        return self.cells[self.y_levels.index(y_level)][self.x_levels.index(x_level)]


def pivot(results: ResultsLike, x: str, y: str, value: str = "pps", *, seed: int = 0) -> Pivot:
    """Mean of `value` at each combination of two factors.

    Raises
    ------
    WorkloadError
        `x` and `y` are the same, no factors of the results, or a third factor varies.
    """
    if x == y:
        raise WorkloadError(f"pivot: x and y are both {x}; name two factors")
    cells = {
        (point.levels[x], point.levels[y]): Cell(
            value=point.estimate.mean if point.estimate else None,
            estimate=point.estimate,
            reason=point.reason,
            turned=point.turned,
        )
        for point in summarise(results, (x, y), value, seed=seed)
    }
    columns = _heads(results.factors.get(x, ()), [key[0] for key in cells])
    rows = _heads(results.factors.get(y, ()), [key[1] for key in cells])
    laid_out = _laid_out(cells, x, y, value, columns, rows)
    return msgspec.structs.replace(laid_out, caveat=caveat(results))


def table(values: Mapping[tuple[Scalar, Scalar], float | None], *, x: str, y: str, value: str) -> Pivot:
    """Numbers from elsewhere by ``(x level, y level)``, heads in order of appearance; None is a gap."""
    cells = {key: Cell(value=number) for key, number in values.items()}
    columns = _heads((), [key[0] for key in values])
    return _laid_out(cells, x, y, value, columns, _heads((), [key[1] for key in values]))


def error_percent(measured: Pivot, reference: Pivot) -> Pivot:
    """Difference of each cell from `reference` in percent of it, on the reference's heads.

    Raises
    ------
    WorkloadError
        The tables hold different things.
    """
    if (measured.x, measured.y, measured.value) != (reference.x, reference.y, reference.value):
        raise WorkloadError(
            f"error: {measured.value} over {measured.x} and {measured.y} can't be held against "
            f"{reference.value} over {reference.x} and {reference.y}"
        )
    rows = tuple(
        tuple(_error(measured.at(x, y), reference.at(x, y)) for x in reference.x_levels)
        for y in reference.y_levels
    )
    return msgspec.structs.replace(reference, value="error_percent", cells=rows)


def _error(measured: Cell | None, reference: Cell | None) -> Cell:
    if measured is None or measured.value is None:
        return Cell(value=None, reason=measured.reason if measured else "not measured")
    if reference is None or not reference.value:
        return Cell(value=None, reason="no reference")
    return Cell(value=percent_error(measured.value, reference.value))


def _heads(planned: Sequence[Scalar], seen: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Planned levels in their order, then those that only the device knew."""
    return tuple(dict.fromkeys([*planned, *seen]))


def _laid_out(
    cells: Mapping[tuple[Scalar, Scalar], Cell],
    x: str,
    y: str,
    value: str,
    x_levels: tuple[Scalar, ...],
    y_levels: tuple[Scalar, ...],
) -> Pivot:
    empty = Cell(value=None, reason="not measured")
    rows = tuple(tuple(cells.get((column, row), empty) for column in x_levels) for row in y_levels)
    return Pivot(x=x, y=y, value=value, x_levels=x_levels, y_levels=y_levels, cells=rows)
