"""`labkit report`."""

from __future__ import annotations

from pathlib import Path

import click

from labkit import paths
from labkit.cli.options import examples, pairs


@click.command(
    "report",
    epilog=examples(
        "labkit report --param quick=true",
        "labkit report notebooks/20_fast_path.ipynb --param duration_s=5 --out out/slow",
    ),
)
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...", type=click.Path(path_type=Path))
@click.option("--param", "parameters", multiple=True, metavar="NAME=VALUE", help="A notebook's parameter.")
@click.option("--out", "out_dir", type=click.Path(path_type=Path), help="Folder to write to.  [default: out]")
@click.option(
    "--cell-limit", "cell_limit_s", type=float, default=900.0, show_default=True, help="Seconds a cell."
)
def command(
    notebooks: tuple[Path, ...], parameters: tuple[str, ...], out_dir: Path | None, cell_limit_s: float
) -> int:
    """Run notebooks and write one page that works offline; without names, all of the checkout.

    A parameter goes to every notebook that declares it; one that none declares is an error.
    """
    from labkit.cli.app import INTERRUPTED
    from labkit.report import run_report

    chosen = list(notebooks) or sorted(paths.notebooks_dir().glob("*.ipynb"))
    result = run_report(
        chosen, out_dir or paths.out_dir(), texts=pairs(parameters, "--param"), cell_limit_s=cell_limit_s
    )
    for record in result.runs:
        reason = f": {record.reason}" if record.reason else ""
        click.echo(f"{Path(record.notebook).stem} {record.state}{reason}", err=True)
    if result.cancelled:
        click.echo(f"labkit: interrupted; what was done so far is in {result.html}", err=True)
        return INTERRUPTED
    click.echo(str(result.html))
    return 0 if result.finished else 1
