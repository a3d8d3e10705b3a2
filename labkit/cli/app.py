"""The command group, and how each ending becomes an exit code."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from labkit.cli.options import examples
from labkit.errors import LabError

COMMANDS: Final = (
    *("rigs", "craft", "run", "sweep", "published", "report", "lab"),
    *("latency", "bench", "audit", "microcosts", "restore", "install-agent"),
)
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells have it."""


class Commands(click.Group):
    """Imports a command's module only when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click names it
        """Every command in the order of a first visit."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click names it
        """Command by its name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"labkit.cli.{cmd_name.replace('-', '_')}_command"
        ).command
        return command


@click.group(
    cls=Commands,
    epilog=examples("labkit run --rig veth --engine sendmmsg --duration 1"),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="labkit")
@click.option("--debug", is_flag=True, expose_value=False, help="Show where in labkit an error came from.")
def group() -> None:
    """The packet-per-second lab: what one CPU can push, what a packet costs, what limits it.

    Exit codes: 0 done, 1 the work failed, 2 usage, 3 slower than asked for, 4 this rig or machine lacks what
    was asked.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code; what labkit did not foresee is shown whole."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = group.main(args=given, prog_name="labkit", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as abort:
        click.echo("labkit: interrupted; nothing is left running", err=True)
        _tell_notes(abort.__cause__)
        sys.exit(INTERRUPTED)
    except (LabError, OSError) as error:  # a folder that cannot be written is no fault of labkit's
        if "--debug" in given:
            traceback.print_exc()
        click.echo(f"labkit: {error}", err=True)
        _tell_notes(error)
        sys.exit(getattr(error, "exit_code", 1))
    sys.exit(code if isinstance(code, int) else 0)


def _tell_notes(error: BaseException | None) -> None:
    """What else went wrong on the way out."""
    for note in getattr(error, "__notes__", ()):
        click.echo(f"labkit: {note}", err=True)
