"""`labkit published`."""

from __future__ import annotations

from typing import Any

import click

from labkit.cli import rooms, show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples


@click.command("published", epilog=examples("labkit published", "labkit published --check --json"))
@click.argument("table_name", metavar="[TABLE]", required=False)
@click.option(
    "--check", is_flag=True, help="Put the lab's own numbers and the error of each point beside them."
)
@json_option
def command(table_name: str | None, check: bool, as_json: bool) -> None:
    """Numbers that others published, and how near the lab comes to them."""
    points = rooms.published_points(table_name)
    if as_json:
        show.print_json(points if check else [_published_only(point) for point in points])
        return
    for name in dict.fromkeys(point["table"] for point in points):
        click.echo(f"\n{name}")
        click.echo("\n".join(_lines([point for point in points if point["table"] == name], check)))


def _published_only(point: dict[str, Any]) -> dict[str, Any]:
    return {name: point[name] for name in ("table", "setting", "published")}


def _lines(points: list[dict[str, Any]], check: bool) -> list[str]:
    head = ["setting", "published"] + (["lab", "error %", "fitted"] if check else [])
    rows = []
    for point in points:
        setting = point["setting"]
        words = show.levels_text(setting) if isinstance(setting, dict) else str(setting)
        row = [words, show.number(point["published"])]
        if check:
            fitted = "yes" if point["fitted"] else "no"
            row += [show.number(point["lab"]), show.number(point["error"], 2), fitted]
        rows.append(row)
    return show.table(head, rows)
