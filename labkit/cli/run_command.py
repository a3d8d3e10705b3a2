"""`labkit run`."""

from __future__ import annotations

from typing import Any

import click

from labkit.cli import show
from labkit.cli.options import (
    RIG_PARAMETERS,
    SENDING,
    examples,
    given,
    open_rig,
    pairs,
    rig_parameters,
    sending,
    traffic,
    udp_flow,
)
from labkit.cli.options import as_json as json_option
from labkit.records import Workload


@click.command(
    "run",
    epilog=examples(
        "labkit run --rig veth --engine sendmmsg --duration 1 --json",
        "labkit run --rig sim:ixgbe --engine pktgen --set tx_ring=512 --set rx_usecs=30",
        "labkit run --rig nic:eth8 --port eth9 --set tx_ring=512 --dry-run",
    ),
)
@click.option("--rig", "rig_name", default="veth", show_default=True, metavar="NAME", help="See labkit rigs.")
@click.option("--engine", default="sendmmsg", show_default=True, metavar="NAME", help="Who sends.")
@click.option("--duration", "duration_s", type=float, default=1.0, show_default=True, help="Seconds to send.")
@click.option("--count", type=int, help="Frames to send; whichever ends first.")
@traffic
@sending
@rig_parameters
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, as in txqueuelen=100."
)
@click.option("--dry-run", is_flag=True, help="Say what --set would change, and neither change nor send.")
@click.option("--unchecked", is_flag=True, help="Let the kernel refuse what labkit would refuse beforehand.")
@json_option
def command(
    rig_name: str,
    engine: str,
    duration_s: float,
    count: int | None,
    frame_bytes: int | None,
    flows: int,
    settings: tuple[str, ...],
    dry_run: bool,
    unchecked: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """One trial: send, count at three independent places, say what limited it."""
    from labkit.experiment.trial import run_trial
    from labkit.report.values import guess
    from labkit.rigs.choose import preview

    asked = {name: guess(text) for name, text in pairs(settings, "--set").items()}
    if dry_run:
        changes = preview(rig_name, asked, **given({name: others[name] for name in RIG_PARAMETERS}))
        if as_json:
            show.print_json({"rig": rig_name, "changes": changes.splitlines()})
        else:
            click.echo(changes)
        return
    flow = udp_flow(frame_bytes=frame_bytes, flows=flows)
    workload = Workload(flow=flow, engine=engine, **{name: others[name] for name in SENDING})
    with open_rig(rig_name, others) as rig:
        trial = run_trial(
            rig, workload, settings=asked or None, duration_s=duration_s, count=count, check=not unchecked
        )
    if as_json:
        show.print_json(trial.as_json())
    else:
        click.echo(show.trial_text(trial))
