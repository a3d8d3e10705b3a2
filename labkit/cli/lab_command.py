"""`labkit lab`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Final

import click

from labkit import paths
from labkit.cli.options import examples
from labkit.errors import WorkloadError

COPIED: Final = ".copied.json"
"""What was copied last time, by name and SHA-256: a copy that differs from it is the user's own work."""

NO_NEWS: Final = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}
}


@click.command("lab", epilog=examples("labkit lab", "labkit lab -- --no-browser --port 9000"))
@click.option(
    "--out", "out_dir", type=click.Path(path_type=Path), help="Folder of the copies.  [default: out/lab]"
)
@click.argument("jupyter_options", nargs=-1, metavar="[-- JUPYTER_OPTIONS]...")
def command(out_dir: Path | None, jupyter_options: tuple[str, ...]) -> None:
    """Open JupyterLab on a copy of the notebooks; copies that you changed stay as they are."""
    folder = (out_dir or paths.out_dir() / "lab").resolve()
    for name in copy_notebooks(paths.notebooks_dir(), folder):
        click.echo(f"{name}: yours has changed and is kept; delete it to get the new one", err=True)
    settings = write_settings(folder)
    search = [str(settings), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    environment = os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, search))}
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    words = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}", *as_root, *jupyter_options]
    os.execve(sys.executable, words, environment)  # noqa: S606 - JupyterLab takes this process's place


def copy_notebooks(source: Path, folder: Path) -> list[str]:
    """Bring `folder` up to date with the notebooks of `source`; returns the names of changed copies kept.

    Raises
    ------
    WorkloadError
        `source` has no notebooks.
    """
    notebooks = sorted(source.glob("*.ipynb"))
    if not notebooks:
        raise WorkloadError(f"{source} has no notebooks; run labkit from a checkout")
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / COPIED
    copied: dict[str, str] = json.loads(ledger.read_text()) if ledger.exists() else {}
    kept = []
    for notebook in notebooks:
        content, target = notebook.read_bytes(), folder / notebook.name
        now = _digest(target.read_bytes()) if target.exists() else None
        if now in {None, copied.get(notebook.name), _digest(content)}:
            target.write_bytes(content)
            copied[notebook.name] = _digest(content)
        elif copied.get(notebook.name) != _digest(content):
            kept.append(notebook.name)
    ledger.write_text(json.dumps(copied, indent=1) + "\n")
    return kept


def write_settings(folder: Path) -> Path:
    """Write settings that keep JupyterLab's news pop-up shut; gives the folder that holds them."""
    configuration = folder / ".jupyter"
    overrides = configuration / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True, exist_ok=True)
    overrides.write_text(json.dumps(NO_NEWS, indent=1) + "\n")
    return configuration


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
