"""`labkit install-agent`."""

from __future__ import annotations

import getpass
import os

import click

from labkit.cli.options import examples
from labkit.errors import CapabilityMissingError


@click.command("install-agent", epilog=examples("sudo .venv/bin/labkit install-agent --user ann"))
@click.option("--user", metavar="NAME", help="Who may start it; the user of sudo by default.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
def command(user: str | None, dry_run: bool) -> None:
    """Copy the agent to a folder that only root can write, and let one user start it through sudo.

    A sudo rule without password for the checkout itself would make whoever can write the checkout root.
    """
    from labkit.agent.install import PREFIX, SUDOERS, check_user, install, sudoers_line
    from labkit.agent.trust import open_to_others

    name = user or os.environ.get("SUDO_USER") or getpass.getuser()
    if dry_run:
        check_user(name)
        click.echo(
            f"{PREFIX}: a copy of the agent that only root can write\n{SUDOERS}:\n{sudoers_line(name)}"
        )
        return
    if found := open_to_others(PREFIX.parent):
        raise CapabilityMissingError(
            f"install-agent: {found[0]} can be written by its group or by anyone, so the agent would refuse "
            f"to run below it; take that away: sudo chmod go-w {found[0]}"
        )
    install(name)
    click.echo(f"{PREFIX} is made, and {SUDOERS} lets {name} start it as root", err=True)
