"""`labkit run`."""

from __future__ import annotations

from typing import Any

import click

from labkit.cli import show
from labkit.cli.options import (
    SENDING,
    capture,
    examples,
    flow_of,
    open_rig,
    pairs,
    parameters_of,
    rig_parameters,
    sending,
    traffic,
)
from labkit.cli.options import as_json as json_option
from labkit.records import Workload


@click.command(
    "run",
    epilog=examples(
        "labkit run --rig veth --engine sendmmsg --duration 1 --json",
        "labkit run --rig sim:ixgbe --engine pktgen --set tx_ring=512 --set rx_usecs=30",
        "labkit run --rig sim:ixgbe --engine pktgen --batch 8 --clone-skb 0 --cpus 2",
        "labkit run --rig sim:ixgbe --engine pktgen --fault carrier_lost_after_s=0.5",
        "labkit run --engine tcp --message-bytes 1500",
        "labkit run --imix",
        "labkit run --profile",
        "labkit run --pcap frames.pcap",
        "labkit run --rig nic:eth8 --port eth9 --set tx_ring=512 --dry-run",
    ),
)
@click.option("--rig", "rig_name", default="veth", show_default=True, metavar="NAME", help="See labkit rigs.")
@click.option("--engine", default="sendmmsg", show_default=True, metavar="NAME", help="Who sends.")
@click.option("--duration", "duration_s", type=float, default=1.0, show_default=True, help="Seconds to send.")
@click.option("--count", type=int, help="Frames to send; whichever ends first.")
@traffic
@capture
@sending
@rig_parameters
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, as in txqueuelen=100."
)
@click.option("--dry-run", is_flag=True, help="Say what --set would change, and neither change nor send.")
@click.option("--unchecked", is_flag=True, help="Let the kernel refuse what labkit would refuse beforehand.")
@click.option("--profile", is_flag=True, help="Sample the CPUs with perf: where the nanoseconds go.")
@json_option
def command(
    rig_name: str,
    engine: str,
    duration_s: float,
    count: int | None,
    settings: tuple[str, ...],
    dry_run: bool,
    unchecked: bool,
    profile: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """One trial: send, count at three independent places, say what limited it."""
    from labkit.experiment.trial import run_trial
    from labkit.report.values import guess
    from labkit.rigs.choose import preview

    asked = {name: guess(text) for name, text in pairs(settings, "--set").items()}
    if dry_run:
        changes = preview(rig_name, asked, **parameters_of(others))
        if as_json:
            show.print_json({"rig": rig_name, "changes": changes.splitlines()})
        else:
            click.echo(changes)
        return
    flow = flow_of(others)
    workload = Workload(flow=flow, engine=engine, **{name: others[name] for name in SENDING})
    length: dict[str, Any] = {"duration_s": duration_s, "count": count}
    with open_rig(rig_name, others) as rig:
        if profile:
            from labkit.experiment.profile import profile as run_profiled

            seen = run_profiled(rig, workload, settings=asked or None, check=not unchecked, **length)
            trial, told = seen.trial, seen.as_json()
        else:
            seen = None
            trial = run_trial(rig, workload, settings=asked or None, check=not unchecked, **length)
            told = trial.as_json()
    if as_json:
        show.print_json(told)
    else:
        click.echo("\n".join([show.trial_text(trial), *([seen.profile.text()] if seen else [])]))
