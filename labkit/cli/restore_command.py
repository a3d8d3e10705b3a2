"""`labkit restore`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import click

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples
from labkit.cli.options import state as state_option

NOT_AS_BEFORE: Final = frozenset({"refused", "gone", "busy", "inexact", "damaged"})
"""Endings that leave a device other than it was; what somebody else set since is theirs, and no failure."""


@click.command(
    "restore", epilog=examples("labkit restore", "labkit restore --json", "labkit restore --forget eth8")
)
@click.option("--forget", "gone", metavar="DEVICE", help="Dismiss what is kept of a device gone for good.")
@state_option
@json_option
def command(gone: str | None, state: Path | None, as_json: bool) -> int:
    """Put back what a lab that was killed left changed on this machine's devices.

    As root, or through sudo as the nic: rigs do. Harmless: what a running lab holds is left to it.
    Exit code 1 when something could not be put back; it is kept for the next time. With --forget nothing is
    put back, and what was kept of that device is told and dropped; one that is here is refused.
    """
    from labkit.agent.launch import connect_as_root

    with contextlib.closing(connect_as_root(state=state)) as client:
        results = client.restore_all() if gone is None else client.forget(gone)
    if as_json:
        show.print_json(results)
    else:
        click.echo("\n".join(each.text for each in results) or "nothing is left to put back")
    return 1 if any(each.outcome in NOT_AS_BEFORE for each in results) else 0
