"""`labkit published`."""

from __future__ import annotations

from typing import Any, Final

import click
import msgspec

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples
from labkit.errors import WorkloadError

COMPARED: Final = "ixgbe_ring_coalesce"
"""The published table that the lab's law is put beside."""


@click.command(
    "published",
    epilog=examples(
        "labkit published", "labkit published gianfar_netperf", "labkit published --check --json"
    ),
)
@click.argument("table_name", metavar="[TABLE]", required=False)
@click.option("--check", is_flag=True, help=f"Put the lab's numbers and errors beside table {COMPARED}.")
@json_option
def command(table_name: str | None, check: bool, as_json: bool) -> None:
    """Numbers that others published, and how near the lab comes to them.

    Without a table's name: which tables there are.
    """
    rows = _compared(table_name) if check else _published(table_name)
    if as_json:
        show.print_json(rows)
        return
    click.echo("\n".join(show.records_table(rows)))
    if check:
        worst = max(abs(point["error"]) for point in rows)
        click.echo(f"{len(rows)} points, error in percent, largest {worst:.3f}")


def _published(table_name: str | None) -> list[dict[str, Any]]:
    """Rows of one published table in the order printed; without a name each table and what is in it."""
    from labkit.results.published import TABLES, published_table

    if table_name is None:
        about = {name: (row.__doc__ or "").strip().splitlines()[0] for name, row in TABLES.items()}
        return [{"table": name, "about": line} for name, line in about.items()]
    return [msgspec.to_builtins(row) for row in published_table(table_name)]


def _compared(table_name: str | None) -> list[dict[str, Any]]:
    """Points of the compared table, of one part of it where `table_name` is a part's name."""
    from labkit.experiment.published import compare_published

    points = [point.as_json() for point in compare_published()]
    parts = list(dict.fromkeys(point["table"] for point in points))
    if table_name in {None, COMPARED}:
        return points
    if table_name not in parts:
        raise WorkloadError(f"nothing to check in table {table_name!r}; there is {COMPARED} with {parts}")
    return [point for point in points if point["table"] == table_name]
