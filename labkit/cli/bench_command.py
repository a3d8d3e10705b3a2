"""`labkit bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples, flow_of, open_rig, rig_parameters, traffic
from labkit.experiment.bench import DURATION_S, MOST_PAIRS, PAIRS, USUAL_PEERS, Absent, Bench, PeerRatio

SLOWER: Final = 3
"""Exit code of a goal that is missed."""


@click.command(
    "bench",
    epilog=examples(
        "labkit bench --engine gso --against trafgen",
        "labkit bench --sink stack,ifb --engine sendmmsg,tx_ring --against trafgen,tcpreplay --json",
        "labkit bench --engine gso --against trafgen --goal 2.5 --plot out/bench.html",
    ),
)
@click.option("--rig", "rig_name", default="veth", show_default=True, metavar="NAME", help="A real rig.")
@click.option("--sink", "sinks", multiple=True, metavar="NAMES", help="Where frames end.  [default: stack]")
@click.option("--engine", "engines", multiple=True, metavar="NAMES", help="labkit's own; all if absent.")
@click.option(
    "--against",
    "peers",
    multiple=True,
    metavar="NAMES",
    help=f"Other programs, or other engines.  [default: {','.join(USUAL_PEERS)}]",
)
@click.option("--pairs", type=click.IntRange(1), default=PAIRS, show_default=True, help="Pairs of runs each.")
@click.option("--goal", type=float, help=f"Ratio to reach: up to {MOST_PAIRS} pairs until it is decided.")
@click.option(
    "--duration", "duration_s", type=float, default=DURATION_S, show_default=True, help="Seconds a run."
)
@click.option("--cpu", type=int, help="CPU of both senders.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Figure as a page."
)
@traffic
@rig_parameters
@json_option
def command(
    rig_name: str,
    sinks: tuple[str, ...],
    engines: tuple[str, ...],
    peers: tuple[str, ...],
    pairs: int,
    goal: float | None,
    duration_s: float,
    cpu: int | None,
    plot: Path | None,
    as_json: bool,
    **others: Any,
) -> int:
    """Engines against other packet generators: same rig, sink, CPU and frames, in alternated pairs.

    A ratio is the engine's packets a second over the peer's, both by the sink's counter between two moments
    within the run. Frames are of one flow unless --flows says otherwise. A missed goal is exit code 3.
    """
    from labkit.experiment.bench import bench

    flow = flow_of({**others, "flows": others["flows"] or (None if others["imix"] else 1)})
    with open_rig(rig_name, others) as rig:
        found = bench(
            rig,
            flow,
            sinks=_names(sinks) or rig.info.sinks[:1],
            engines=_names(engines),
            peers=_names(peers) or USUAL_PEERS,
            cpu=cpu,
            duration_s=duration_s,
            pairs=pairs,
            goal=goal,
            told=_tell,
        )
    if as_json:
        show.print_json(found.ratios)
    else:
        click.echo(bench_text(found, goal))
    if plot is not None:
        from labkit.plots.bench import bench_plot

        show.write_figure(bench_plot(found), plot)
    if not found.ratios:
        return 1
    missed = goal is not None and any(_verdict(each, goal) == "missed" for each in found.ratios)
    return SLOWER if missed else 0


def bench_text(found: Bench, goal: float | None) -> str:
    """A line a comparison; what is absent stands below with its reason."""
    head = ["sink", "engine", "peer", "ratio", "95 % from", "to", "pairs", *(["goal"] if goal else [])]
    rows = [
        [
            *(each.sink, each.engine, each.peer),
            *(show.number(value, 3) for value in (each.ratio, each.low, each.high)),
            show.number(each.pairs),
            *([_verdict(each, goal)] if goal else []),
        ]
        for each in found.ratios
    ]
    dashes = [show.DASH] * (len(head) - 3)
    rows += [[each.sink, each.engine, each.peer, *dashes] for each in found.absent]
    lines = [*show.table(head, rows), *map(_absence, found.absent)]
    return "\n".join([*lines, *show.caveat_lines(found.caveat)])


def _verdict(each: PeerRatio, goal: float) -> str:
    return "met" if each.low >= goal else "missed" if each.high < goal else "undecided"


def _absence(each: Absent) -> str:
    return f"not compared: {each.engine} / {each.peer}, sink {each.sink}: {each.reason}"


def _tell(each: PeerRatio | Absent) -> None:
    if isinstance(each, Absent):
        words = _absence(each)
    else:
        words = f"{each.engine} / {each.peer}, sink {each.sink}: {each.ratio:.3f} of {each.pairs} pairs"
    click.echo(f"labkit: {words}", err=True)


def _names(options: Sequence[str]) -> tuple[str, ...]:
    """``a,b`` and ``--x a --x b`` alike; each once."""
    return tuple(
        dict.fromkeys(name.strip() for option in options for name in option.split(",") if name.strip())
    )
