"""Where files live. Nothing else in labkit knows a path; everyone is handed theirs.

Computing a path makes nothing: the writer makes its folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def lab_home(env: Mapping[str, str] = os.environ) -> Path:
    """Folder of results and run records: ``$LABKIT_HOME``, else ``$XDG_STATE_HOME/labkit``."""
    if chosen := env.get("LABKIT_HOME"):
        return Path(chosen)
    return _xdg("XDG_STATE_HOME", ".local/state", env) / "labkit"


def store_url(env: Mapping[str, str] = os.environ) -> str:
    """SQLAlchemy address of the results: ``$LABKIT_DB`` (an address or a file), else under `lab_home`."""
    chosen = env.get("LABKIT_DB")
    if chosen and "://" in chosen:
        return chosen
    return f"sqlite:///{Path(chosen) if chosen else lab_home(env) / 'results.sqlite'}"


def run_records(env: Mapping[str, str] = os.environ) -> Path:
    """Folder of the run records, one JSON file a notebook and run."""
    return lab_home(env) / "runs"


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Folder of what may be deleted at any time and is made again: ``$XDG_CACHE_HOME/labkit``."""
    return _xdg("XDG_CACHE_HOME", ".cache", env) / "labkit"


def data_dir() -> Path:
    """`data/` of the checkout, beside the package: published tables and profiles."""
    return checkout_dir() / "data"


def notebooks_dir() -> Path:
    """`notebooks/` of the checkout."""
    return checkout_dir() / "notebooks"


def checkout_dir() -> Path:
    """Folder that holds the package: the product is a checkout."""
    return Path(__file__).resolve().parent.parent


def out_dir() -> Path:
    """`./out`, what the user looks at: reports and executed notebooks."""
    return Path("out")


def _xdg(name: str, fallback: str, env: Mapping[str, str]) -> Path:
    chosen = env.get(name)
    # the specification ignores relative values: https://specifications.freedesktop.org/basedir-spec/
    if chosen and Path(chosen).is_absolute():
        return Path(chosen)
    return Path(env.get("HOME") or Path.home()) / fallback
