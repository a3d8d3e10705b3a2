"""`labkit audit`."""

from __future__ import annotations

import click

from labkit.audit.check import VERDICTS, Audit
from labkit.audit.run import audit
from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples


@click.command("audit", epilog=examples("labkit audit", "labkit audit eth1 --cpu 2 --json"))
@click.argument("device", required=False)
@click.option("--cpu", type=int, help="CPU that will send; all of them if absent.")
@json_option
def command(device: str | None, cpu: int | None, as_json: bool) -> None:
    """What of this machine moves packet rates, why, and how to change it; changes nothing.

    With DEVICE, the interface that will send, its own checks too.
    """
    found = audit(device, cpu=cpu)
    if as_json:
        show.print_json(found.as_json())
    else:
        click.echo(audit_text(found))


def audit_text(found: Audit) -> str:
    """A table of all checks, what to do about those that are not ok, and the verdict."""
    rows = [
        {"check": each.name, "verdict": each.verdict, "value": _value(each.value)} for each in found.findings
    ]
    lines = show.records_table(rows)
    for each in found.findings:
        if each.verdict == "unknown":
            lines += ["", f"{each.name}: not known ({each.why_unknown})"]
        elif each.verdict != "ok":
            lines += ["", f"{each.name}: {each.why}", f"    {each.advice}"]
    counted = ", ".join(f"{found.counts[verdict]} {verdict}" for verdict in reversed(VERDICTS))
    return "\n".join([*lines, "", f"verdict: {found.verdict} ({counted})"])


def _value(value: object) -> object:
    return "none" if value == "" else value  # an empty list, such as that of isolated CPUs
