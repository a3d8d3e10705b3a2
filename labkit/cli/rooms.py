"""What the commands ask of the rooms below; each is imported only when it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from labkit.records import RigInfo, Scalar, Traffic, Trial, Workload
from labkit.rigs.base import Rig

if TYPE_CHECKING:
    from labkit.experiment.published import PublishedPoint
    from labkit.experiment.sweep import Sweep
    from labkit.nic.put_back import PutBack


def open_rig(name: str, parameters: Mapping[str, object]) -> Rig:
    """Rig by its name; parameters that are None were not given. What opening it put back goes to stderr."""
    from labkit.rigs.choose import rig

    opened = rig(name, **{key: value for key, value in parameters.items() if value is not None})
    for note in getattr(opened, "notes", ()):
        click.echo(f"labkit: {note}", err=True)
    return opened


def preview(name: str, settings: Mapping[str, Scalar], parameters: Mapping[str, object]) -> str:
    """What turning `settings` on that rig would do; nothing is changed."""
    from labkit.rigs.choose import preview

    return preview(name, settings, **{key: value for key, value in parameters.items() if value is not None})


def restore_all(state: Path | None) -> list[PutBack]:
    """What became of each setting that dead laboratories had left changed on real devices."""
    from labkit.agent.launch import connect_as_root

    client = connect_as_root(state=state)
    try:
        return client.restore_all()
    finally:
        client.close()


def known_rigs() -> Sequence[RigInfo]:
    """Every rig of this version."""
    from labkit.rigs.catalog import known_rigs

    return known_rigs()


def udp_flow(**options: Any) -> Traffic:
    """UDP traffic; options that are None are left to the library."""
    from labkit.traffic.flows import udp_flow

    return udp_flow(**{name: value for name, value in options.items() if value is not None})


def parse_vary(texts: Sequence[str]) -> dict[str, Any]:
    """Varying fields from ``UDP.sport=1024:64`` and the like."""
    from labkit.traffic.flows import parse_vary

    return dict(parse_vary(text) for text in texts)


def run_trial(rig: Rig, workload: Workload, **options: Any) -> Trial:
    """One honest trial."""
    from labkit.experiment.trial import run_trial

    return run_trial(rig, workload, **options)


def sweep(rig: Rig, workload: Workload, factors: Mapping[str, Sequence[Scalar]], **options: Any) -> Sweep:
    """Planned sweep, not yet run."""
    from labkit.experiment.sweep import Sweep

    return Sweep(rig, workload, factors=factors, **options)


def published_tables() -> dict[str, str]:
    """Name of each published table and what is in it."""
    from labkit.results.published import TABLES

    return {name: (row.__doc__ or "").strip().splitlines()[0] for name, row in TABLES.items()}


def published_rows(table: str) -> list[dict[str, Any]]:
    """Rows of one published table in the order printed; a WorkloadError names the known tables."""
    from labkit.results.published import published_table

    return [msgspec.to_builtins(row) for row in published_table(table)]


def published_points() -> list[PublishedPoint]:
    """Every published figure beside the lab's own."""
    from labkit.experiment.published import published_points

    return published_points()


def published_summary(points: Sequence[PublishedPoint]) -> list[dict[str, Any]]:
    """Median and worst error by table, predicted points apart from fitted ones."""
    from labkit.experiment.published import table_errors

    return [msgspec.to_builtins(errors) for errors in table_errors(points)]


def unexplained(points: Sequence[PublishedPoint]) -> list[str]:
    """What stays unexplained, a line each, and what each hypothesis would make of it."""
    from labkit.experiment.unexplained import unexplained

    return [found.as_text() for found in unexplained(points)]


def store_published(table: str) -> tuple[int, str]:
    """Number of the sweep as which a published table now stands in the store, and the store's place."""
    from labkit.paths import store_url
    from labkit.results.published_results import store_published
    from labkit.results.store import Store

    store = Store(store_url())
    return store_published(store, table), store.place
