"""`labkit sweep`."""

from __future__ import annotations

from typing import Any

import click

from labkit import paths
from labkit.cli import show
from labkit.cli.options import (
    SENDING,
    capture,
    examples,
    flow_of,
    given,
    open_rig,
    pairs,
    rig_parameters,
    sending,
    traffic,
)
from labkit.cli.options import as_json as json_option
from labkit.errors import WorkloadError
from labkit.factors import Scalar
from labkit.records import Workload


@click.command(
    "sweep",
    epilog=examples(
        "labkit sweep --rig sim:ixgbe --engine pktgen --set tx_ring=64,256 --set rx_usecs=1,30",
        "labkit sweep --rig vm:e1000e --engine pktgen --set tx_ring=64,256 --count 60000",
        "labkit sweep --rig nic:eth8 --port eth9 --engine sendmmsg --set tx_ring=256,512,1024",
    ),
)
@click.option(
    "--rig", "rig_name", default="sim:ixgbe", show_default=True, metavar="NAME", help="See labkit rigs."
)
@click.option("--engine", default="pktgen", show_default=True, metavar="NAME", help="Who sends.")
@click.option(
    "--set", "factors", multiple=True, required=True, metavar="NAME=A,B,...", help="A factor's levels."
)
@click.option("--repeats", type=int, default=5, show_default=True, help="Trials of each combination.")
@click.option("--duration", "duration_s", type=float, default=1.0, show_default=True, help="Seconds a trial.")
@click.option("--count", type=int, help="Frames a trial; whichever ends first.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order.")
@click.option("--gaps", is_flag=True, help="Factors that this rig never has become gaps too.")
@click.option("--resume", is_flag=True, help="Go on with the newest unfinished sweep of this plan.")
@traffic
@capture
@sending
@rig_parameters
@json_option
def command(
    rig_name: str,
    engine: str,
    factors: tuple[str, ...],
    repeats: int,
    duration_s: float,
    count: int | None,
    seed: int,
    gaps: bool,
    resume: bool,
    as_json: bool,
    **others: Any,
) -> int:
    """Every combination of some factors, repeated in random order; each trial is kept as it ends."""
    from labkit.experiment.sweep import Sweep

    levels = {name: _levels(name, text) for name, text in pairs(factors, "--set").items()}
    flow = flow_of(others)
    workload = Workload(flow=flow, engine=engine, **{name: others[name] for name in SENDING})
    with open_rig(rig_name, others) as rig:
        length = {"duration_s": duration_s, **given({"count": count})}
        planned = Sweep(rig, workload, factors=levels, repeats=repeats, seed=seed, **length)
        for merged in planned.merged:
            click.echo(f"labkit: {merged}", err=True)
        try:
            results = planned.run(progress=True, gaps=gaps, resume=resume)
        except KeyboardInterrupt as interrupt:
            message = f"interrupted; finished trials are kept in {paths.store_url()}, --resume goes on"
            raise click.exceptions.Exit(_say_interrupted(message)) from interrupt
    if as_json:
        show.print_json({"trials": [trial.as_json() for trial in results.trials], "gaps": results.gaps})
    else:
        click.echo(show.sweep_text(results))
    return 1 if results.all_gaps else 0


def _levels(name: str, text: str) -> list[Scalar]:
    from labkit.report.values import guess

    levels = [guess(part.strip()) for part in text.split(",") if part.strip()]
    if not levels:
        raise WorkloadError(f"--set {name}= names no level; give some, as in {name}=64,256")
    return levels


def _say_interrupted(message: str) -> int:
    from labkit.cli.app import INTERRUPTED

    click.echo(f"labkit: {message}", err=True)
    return INTERRUPTED
