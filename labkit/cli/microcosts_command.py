"""`labkit microcosts`."""

from __future__ import annotations

import click

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples


@click.command("microcosts", epilog=examples("labkit microcosts", "labkit microcosts --cpu 2 --json"))
@click.option("--cpu", type=int, help="CPU that works; the last one that is allowed if absent.")
@json_option
def command(cpu: int | None, as_json: bool) -> None:
    """What single operations cost on this machine: a clock read, a system call, LOCK and its absence.

    In nanoseconds an operation: the median over 100 rounds with its 95 % interval; a round keeps the quickest
    of five blocks. On a machine that the audit finds unsteady, another run may give other numbers.
    """
    from labkit.experiment.microcosts import microcosts

    found = microcosts(cpu=cpu)
    if as_json:
        show.print_json(found.as_json())
    else:
        click.echo(found.text())
