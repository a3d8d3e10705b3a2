"""`labkit published`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples
from labkit.errors import WorkloadError

if TYPE_CHECKING:
    from labkit.experiment.published import PublishedPoint

SHOWN: Final = ("table", "setting", "unit", "published", "lab", "error", "fitted", "limited_by", "reason")
"""Columns of a checked table; the file is in the lines below it, the rig in the JSON."""


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
    from labkit.experiment.unexplained import unexplained

    every = published_points()
    points = [point for point in every if table_name in {None, point.file, point.table}]
    if not points:
        known = list(dict.fromkeys(name for point in every for name in (point.file, point.table)))
        raise WorkloadError(f"nothing to check in table {table_name!r}; there are {', '.join(known)}")
    if as_json:
        show.print_json([point.as_json() for point in points])
        return
    click.echo("\n".join(show.records_table([_line(point) for point in points])))
    click.echo()
    click.echo(
        "\n".join(show.records_table([msgspec.to_builtins(errors) for errors in table_errors(points)]))
    )
    if table_name is None:
        click.echo("\nUnexplained:")
        click.echo("\n".join(found.as_text() for found in unexplained(every)))


def _line(point: PublishedPoint) -> dict[str, Any]:
    row = point.as_json()
    setting = ", ".join(f"{name} {value}" for name, value in point.setting.items() if value is not None)
    return {name: setting if name == "setting" else row[name] for name in SHOWN}
