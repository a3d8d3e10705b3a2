"""`labkit published`."""

from __future__ import annotations

import textwrap
from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples
from labkit.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labkit.experiment.published import PublishedPoint, TableErrors

MEANING: Final = (
    "Errors are the lab's, in percent of the published figure. 'predicted': no constant that was fitted on "
    "the figure's own table decides it. 'fitted': one does, so that a small error proves little."
)


@click.command(
    "published",
    epilog=examples(
        "labkit published",
        "labkit published gianfar_netperf",
        "labkit published --check --json",
        "labkit published ixgbe_ring_coalesce --store",
    ),
)
@click.argument("table_name", metavar="[TABLE]", required=False)
@click.option("--check", is_flag=True, help="Put the lab's own number and its error beside each figure.")
@click.option("--store", "stored", is_flag=True, help="Put the table into the results store as a sweep.")
@json_option
def command(table_name: str | None, check: bool, stored: bool, as_json: bool) -> None:
    """Numbers that others published, and how near the lab comes to them.

    Without a table's name: which tables there are, or, with --check, all of them.
    """
    if stored:
        _store(table_name, as_json)
    elif check:
        _check(table_name, as_json)
    else:
        _show(table_name, as_json)


def _store(table_name: str | None, as_json: bool) -> None:
    if table_name is None:
        raise WorkloadError("--store: which table? `labkit published` lists them")
    from labkit.paths import store_url
    from labkit.results.published_results import store_published
    from labkit.results.store import Store

    store = Store(store_url())
    sweep_id = store_published(store, table_name)
    if as_json:
        show.print_json({"sweep": sweep_id, "store": store.place})
    else:
        click.echo(f"table {table_name} is sweep {sweep_id} in {store.place}")


def _show(table_name: str | None, as_json: bool) -> None:
    from labkit.results.published import TABLES, published_table

    rows: list[dict[str, Any]]
    if table_name is None:
        about = {name: (row.__doc__ or "").strip().splitlines()[0] for name, row in TABLES.items()}
        rows = [{"table": name, "about": line} for name, line in about.items()]
    else:
        rows = [msgspec.to_builtins(row) for row in published_table(table_name)]
    if as_json:
        show.print_json(rows)
    else:
        click.echo("\n".join(show.records_table(rows)))


def _check(table_name: str | None, as_json: bool) -> None:
    from labkit.experiment.published import published_points, table_errors
    from labkit.experiment.unexplained import TEXT_COLUMNS, unexplained

    every = published_points()
    points = [point for point in every if table_name in {None, point.file, point.table}]
    if not points:
        known = list(dict.fromkeys(name for point in every for name in (point.file, point.table)))
        raise WorkloadError(f"nothing to check in table {table_name!r}; there are {', '.join(known)}")
    if as_json:
        show.print_json([point.as_json() for point in points])
        return
    files: dict[str, list[PublishedPoint]] = {}
    for point in points:
        files.setdefault(point.file, []).append(point)
    for file, rows in files.items():
        click.echo(f"{file}\n" + "\n".join(_file_lines(rows)) + "\n")
    click.echo("\n".join(show.records_table([_errors_line(errors) for errors in table_errors(points)])))
    click.echo("\n" + textwrap.fill(MEANING, TEXT_COLUMNS))
    if table_name is None:
        click.echo("\nUnexplained\n" + "\n\n".join(found.as_text() for found in unexplained(every)))


def _file_lines(points: Sequence[PublishedPoint]) -> list[str]:
    """Lines of one file: its points, then once each what has to be said of them."""
    head = ["table", "setting", "unit", "published", "lab", "error %", "answer", "limited by"]
    rows = [
        [
            point.table,
            point.setting_text,
            point.unit,
            _figure(point.published),
            _figure(point.lab),
            show.DASH if point.error is None else f"{point.error:+z.2f}",
            point.answer,
            point.limited_by or show.DASH,
        ]
        for point in points
    ]
    told = [any(row[place] not in {show.DASH, points[0].file} for row in rows) for place in range(len(head))]
    head, *rows = ([*compress(row, told)] for row in (head, *rows))
    reasons = Counter((point.answer, point.reason) for point in points if point.reason)
    notes = [f" {answer} for {count}: {reason}" for (answer, reason), count in reasons.items()]
    return show.table(head, rows) + notes


def _figure(value: float | None) -> str:
    return show.number(value, 0 if value is None or abs(value) >= 1000 else 3)


def _errors_line(errors: TableErrors) -> dict[str, Any]:
    return {
        "file": errors.file,
        "unit": errors.unit,
        "answer": "fitted" if errors.fitted else "predicted",
        "points": errors.points,
        "median %": show.number(errors.median_percent, 2),
        "worst %": show.number(errors.worst_percent, 2),
    }
