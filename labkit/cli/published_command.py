"""`labkit published`."""

from __future__ import annotations

from typing import Any, Final

import click

from labkit.cli import rooms, show
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
    if check:
        rows = _compared(table_name)
    elif table_name is None:
        rows = [{"table": name, "about": about} for name, about in rooms.published_tables().items()]
    else:
        rows = rooms.published_rows(table_name)
    if as_json:
        show.print_json(rows)
        return
    click.echo("\n".join(show.records_table(rows)))
    if check:
        worst = max(abs(point["error"]) for point in rows)
        click.echo(f"{len(rows)} points, error in percent, largest {worst:.3f}")


def _compared(table_name: str | None) -> list[dict[str, Any]]:
    """Points of the compared table, of one part of it where `table_name` is a part's name."""
    points = rooms.compared_points()
    parts = list(dict.fromkeys(point["table"] for point in points))
    if table_name in {None, COMPARED}:
        return points
    if table_name not in parts:
        raise WorkloadError(f"nothing to check in table {table_name!r}; there is {COMPARED} with {parts}")
    return [point for point in points if point["table"] == table_name]
