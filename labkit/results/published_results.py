"""Published tables as results: each measured row a trial, so that what shows a sweep shows them too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.errors import WorkloadError
from labkit.factors import SETTING_NAMES, Scalar
from labkit.records import SCHEMA_VERSION, Trial
from labkit.results.published import PublishedRow, published_table
from labkit.results.results import Measured, Results
from labkit.results.store import Store
from labkit.units import NS_PER_S


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How a table's rows become trials.

    Attributes
    ----------
    engine : str
        What sent.
    frame_bytes : int
        Frame length without FCS.
    factors : mapping of str to str
        Column of each factor.
    rate : str or None
        Column of the packets per second; None for a table in other units, which stand in the environment.
    """

    engine: str
    frame_bytes: int
    factors: Mapping[str, str]
    rate: str | None = "pps"


_RING: Final = {"tx_ring": "ring", "rx_usecs": "rx_usecs"}
SHAPES: Final[Mapping[str, Shape]] = {
    "ixgbe_ring_coalesce": Shape(engine="pktgen", frame_bytes=60, factors={"table": "table", **_RING}),
    "pktgen_patch_steps": Shape(
        engine="pktgen", frame_bytes=60, factors={"series": "series", "step": "step", **_RING}
    ),
    "af_packet_flush": Shape(
        engine="tx_ring", frame_bytes=60, factors={"path": "path", "variant": "variant"}
    ),
    "ab_ndo_xmit_flush": Shape(engine="pktgen", frame_bytes=60, factors={"arm": "arm"}, rate="average_pps"),
    "gianfar_netperf": Shape(
        engine="tcp",
        frame_bytes=1514,
        factors={
            "image": "image",
            "coalescing": "coalescing",
            "tcp_limit_output_bytes": "tcp_limit_output_bytes",
        },
        rate=None,
    ),
    "pktgen_netif_receive": Shape(
        engine="pktgen", frame_bytes=60, factors={"device": "device", "burst": "burst"}
    ),
    "beyond_the_seeds": Shape(
        engine="pktgen", frame_bytes=60, factors={"setting": "setting", "cpus": "cpus"}
    ),
}
"""Tables that hold runs; the others are sums, shares and conclusions."""


def published_results(name: str, /, folder: Path | None = None, **levels: Scalar) -> Results:
    """Rows of a published table as results; several runs of one setting are its repeats.

    What was not printed is None in the trials: counts, times, the device's share.

    Parameters
    ----------
    name : str
        CSV file, without its ending.
    folder : Path or None
        Folder of the published tables; None is the checkout's.
    **levels
        Only rows with these: ``table="v1-followup"``. Other factors keep the levels that these rows have.

    Raises
    ------
    WorkloadError
        An unknown table, or one that holds no runs.
    """
    rows = published_table(name, folder)
    if name not in SHAPES:
        raise WorkloadError(f"published table '{name}' holds no runs; these do: {', '.join(SHAPES)}")
    shape = SHAPES[name]
    if unknown := sorted(levels.keys() - shape.factors.keys()):
        raise WorkloadError(
            f"published table '{name}': no factor {', '.join(unknown)}; it varies {', '.join(shape.factors)}"
        )
    wanted = [row for row in rows if all(getattr(row, shape.factors[key]) == levels[key] for key in levels)]
    measured = tuple(_measured(name, wanted))
    return Results(
        sweep_id=None,
        rig=f"published:{name}",
        state="finished",
        factors={key: tuple(dict.fromkeys(row.levels[key] for row in measured)) for key in shape.factors},
        rows=measured,
        gaps=(),
        environment={"published": f"data/published/{name}.csv"},
    )


def store_published(store: Store, table: str, folder: Path | None = None) -> int:
    """Number of the sweep as which published `table` stands in `store`; it is entered once."""
    results = published_results(table, folder)
    for entry in store.sweeps():
        if entry.rig == results.rig and entry.state == "finished" and entry.planned == len(results.rows):
            return entry.sweep_id
    plan = {
        "factors": [{"name": name, "levels": list(levels)} for name, levels in results.factors.items()],
        "points": [row.levels for row in results.rows],
    }
    workload = {"engine": SHAPES[table].engine, "frame_bytes": SHAPES[table].frame_bytes}
    sweep_id = store.begin(
        rig=results.rig, plan=plan, workload=workload, made_with={}, environment=results.environment
    )
    for row in results.rows:
        store.keep(sweep_id, row)
    store.mark(sweep_id, "finished")
    return sweep_id


def _measured(table: str, rows: list[PublishedRow]) -> Iterator[Measured]:
    shape = SHAPES[table]
    seen: dict[tuple[Scalar, ...], list[int]] = {}
    for row in rows:
        levels: dict[str, Scalar] = {name: getattr(row, column) for name, column in shape.factors.items()}
        pps = None if shape.rate is None else getattr(row, shape.rate)
        if shape.rate is not None and pps is None:
            continue
        point, repeats = seen.setdefault(tuple(levels.values()), [len(seen), 0])
        seen[tuple(levels.values())][1] += 1
        trial = _trial(table, shape, levels, pps, msgspec.to_builtins(row))
        yield Measured(point=point, repeat=repeats, levels=levels, trial=trial)


def _trial(
    table: str, shape: Shape, levels: Mapping[str, Scalar], pps: float | None, row: dict[str, Any]
) -> Trial:
    settings = {name: value for name, value in levels.items() if name in SETTING_NAMES}
    return Trial(
        rig=f"published:{table}",
        engine=shape.engine,
        sink=None,
        frame_bytes=shape.frame_bytes,
        batch=None,
        duration_s=None,
        rate_pps=None,
        elapsed_ns=None,
        cpu_ns=None,
        pps=None if pps is None else float(pps),
        ns_per_packet=None if pps is None else NS_PER_S / pps,
        engine_sent=None,
        engine_refused=None,
        refused_by_errno={},
        partial_returns=None,
        segments_sent=None,
        qdisc_dropped=None,
        device_sent=None,
        device_dropped=None,
        peer_received=None,
        peer_dropped=None,
        reconciled=None,
        difference_reason="published figure; no counts were printed",
        limiter=None,
        marks=[],
        settings_asked=settings,
        settings_accepted={},
        settings_effective={},
        environment={"published": row},
        privilege="none",
        schema_version=SCHEMA_VERSION,
        samples=(),
    )
