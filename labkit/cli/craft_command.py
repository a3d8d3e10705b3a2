"""`labkit craft`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from labkit.cli import show
from labkit.cli.options import as_json as json_option
from labkit.cli.options import examples, flow_of, traffic
from labkit.errors import WorkloadError
from labkit.traffic.show import craft_text


def _vlan(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    """One id as a number, several as a tuple with the outer one first."""
    try:
        ids = tuple(int(part, 0) for part in text.split(",")) if text is not None else (None,)
    except ValueError as fault:
        raise WorkloadError(
            f"--vlan {text!r} is no VLAN id; write 7, or 30,7 with the outer one first"
        ) from fault
    return ids if len(ids) > 1 else ids[0]


@click.command(
    "craft",
    epilog=examples(
        "labkit craft --flows 4 --show 4",
        "labkit craft --imix --show 0 --pcap imix.pcap",
        "labkit craft --frame-bytes 128 --vlan 30,7 --vary UDP.dport=9,10",
    ),
)
@traffic
@click.option(
    "--vlan", metavar="ID[,ID]", callback=_vlan, help="VLAN id of an 802.1Q tag; OUTER,INNER are QinQ."
)
@click.option("--ipv6", is_flag=True, help="IPv6 instead of IPv4.")
@click.option(
    "--vary",
    multiple=True,
    metavar="FIELD=VALUES",
    help="Vary a field, as in UDP.dport=9,10 or IP.src=192.0.2.1:64.",
)
@click.option("--seed", type=int, help="Seed of the random fields.")
@click.option(
    "--pcap",
    "written",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write every frame into a pcap file, too.",
)
@click.option("--show", "shown", type=click.IntRange(0), default=1, show_default=True, help="Frames to dump.")
@json_option
def command(
    vlan: Any,
    ipv6: bool,
    vary: tuple[str, ...],
    seed: int | None,
    written: Path | None,
    shown: int,
    as_json: bool,
    **others: Any,
) -> None:
    """Show the frames that a run would send, without sending any."""
    from labkit.traffic.flows import parse_vary

    fields = dict(parse_vary(text) for text in vary) or None
    flow = flow_of(others, vlan=vlan, ipv6=ipv6, vary=fields, seed=seed)
    if written is not None:
        from labkit.traffic.captures import write_pcap

        write_pcap(flow, written)
    if not as_json:
        click.echo(craft_text(flow, shown))
        return
    frames = flow.table()
    dumped = [frames.frame(index).hex() for index in range(min(shown, len(frames)))]
    show.print_json({"flow": flow.describe(), "count": len(frames), "frames": dumped})
