"""`labkit latency`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from labkit.cli import show
from labkit.cli.options import SENDING, capture, examples, flow_of, open_rig, pairs, rig_parameters
from labkit.cli.options import as_json as json_option
from labkit.cli.options import sending as sending_options
from labkit.cli.options import traffic as traffic_options
from labkit.errors import WorkloadError
from labkit.records import Workload, caveat_of
from labkit.units import NS_PER_US

if TYPE_CHECKING:
    from labkit.experiment.latency import LatencyAtLoad, LatencyPoint

USUAL_SINK = "rx_ring"


@click.command(
    "latency",
    epilog=examples(
        "labkit latency --engine sendmmsg",
        "labkit latency --sink socket --load 0.1,0.9 --duration 5 --plot out/latency.html",
    ),
)
@click.option("--rig", "rig_name", default="veth", show_default=True, metavar="NAME", help="A real rig.")
@click.option("--engine", default="sendmmsg", show_default=True, metavar="NAME", help="Who sends.")
@click.option("--load", "loads", metavar="A,B,...", help="Parts of the found rate.  [default: 0.1,0.5,0.9]")
@click.option("--duration", "duration_s", type=float, default=1.0, show_default=True, help="Seconds a run.")
@traffic_options
@capture
@sending_options
@rig_parameters
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, as in txqueuelen=100."
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Figure as a page."
)
@json_option
def command(
    rig_name: str,
    engine: str,
    loads: str | None,
    duration_s: float,
    settings: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
    **others: Any,
) -> None:
    """How late frames are below the rate that a rig can take: 10, 50 and 90 % of it.

    The first run, without a rate, finds what arrives. Then each load: frames are stamped, and a frame's
    latency counts from when it was due. The sink is rx_ring unless --sink says socket.
    """
    from labkit.experiment.latency import SHARES, latency_at_load
    from labkit.report.values import guess

    if others["rate_pps"] is not None:
        raise WorkloadError("latency finds the rate itself and takes parts of it; leave out --rate")
    asked = {name: guess(text) for name, text in pairs(settings, "--set").items()}
    sending = {name: others[name] for name in SENDING} | {"sink": others["sink"] or USUAL_SINK}
    workload = Workload(flow=flow_of(others), engine=engine, **sending)
    shares = SHARES if loads is None else tuple(map(_share, loads.split(",")))
    with open_rig(rig_name, others) as rig:
        found = latency_at_load(rig, workload, shares=shares, settings=asked or None, duration_s=duration_s)
    if as_json:
        show.print_json(_plain(found))
    else:
        click.echo(latency_text(found))
    if plot is not None:
        from labkit.plots.latency import latency_curves

        show.write_figure(latency_curves(found), plot)


def latency_text(found: LatencyAtLoad) -> str:
    """A line a load, in microseconds by percentile; what is doubtful about it stands below."""
    from labkit.experiment.latency import PERCENTILES

    rows = []
    for point in found.points:
        known = point.latency_ns or {}
        times = [known[name] / NS_PER_US if name in known else None for name in PERCENTILES]
        lost = (point.trial.environment.get("sink") or {}).get("lost")
        rates = map(show.number, (point.asked_pps, point.trial.pps, lost))
        rows.append([f"{point.share:g}", *rates, *(show.number(time, 1) for time in times)])
    head = ["load", "asked pps", "pps", "lost", *(f"{name} µs" for name in PERCENTILES)]
    lines = [f"{show.number(found.found_pps)} pps arrived unpaced", *show.table(head, rows)]
    lines += map(_doubt, (point for point in found.points if point.reason))
    return "\n".join([*lines, *show.caveat_lines(caveat_of(found.found.environment))])


def _doubt(point: LatencyPoint) -> str:
    return f"load {point.share:g}: {point.reason}"


def _plain(found: LatencyAtLoad) -> dict[str, Any]:
    points = [msgspec.structs.asdict(point) | {"trial": point.trial.as_json()} for point in found.points]
    return {"found_pps": found.found_pps, "found": found.found.as_json(), "points": points}


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WorkloadError(f"--load {text!r}: give parts of the found rate, as in 0.1,0.9") from None
