"""`labkit rigs`."""

from __future__ import annotations

import click
import msgspec

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples


@click.command("rigs", epilog=examples("labkit rigs"))
@json_option
def command(as_json: bool) -> None:
    """Where packets can be sent: each rig with its engines, sinks and settings."""
    from labkit.rigs.catalog import known_rigs
    from labkit.rigs.here import lacking

    known = known_rigs()
    lacks = {info.name: what for info in known if (what := lacking(info.name)) is not None}
    if as_json:
        show.print_json([{**msgspec.to_builtins(info), "lacks": lacks.get(info.name)} for info in known])
        return
    for info in known:
        click.echo(f"{info.name}: {info.title}")
        for what, names in (("engines", info.engines), ("sinks", info.sinks), ("settings", info.factors)):
            if names:
                click.echo(f"    {what}: {', '.join(names)}")
        if info.name in lacks:
            click.echo(f"    not here: {lacks[info.name]}")
