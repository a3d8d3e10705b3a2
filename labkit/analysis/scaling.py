"""How much each CPU still brings when several send."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from labkit.analysis.summary import CONFIDENCE, RESAMPLES, ResultsLike, RowLike
from labkit.errors import WorkloadError


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """Rate of one number of CPUs.

    Attributes
    ----------
    cpus : int
        CPUs that sent.
    pps : float
        Mean of all CPUs together, packets per second.
    pps_per_cpu : float
        The same for each.
    efficiency : float
        `pps_per_cpu` over that of the fewest CPUs measured; 1 is a CPU that nobody disturbs.
    low, high : float or None
        95 % percentile-bootstrap interval of `efficiency`; None with fewer than two trials a side.
    n : int
        Unmarked trials.
    """

    cpus: int
    pps: float
    pps_per_cpu: float
    efficiency: float
    low: float | None
    high: float | None
    n: int


def scaling(results: ResultsLike, *, seed: int = 0) -> tuple[Scaling, ...]:
    """Efficiency of each level of factor ``cpus``, against the lowest one; marked trials are left out.

    Raises
    ------
    WorkloadError
        ``cpus`` is no factor of these results, another factor varies too, or no unmarked trial is left.
    """
    import numpy as np

    if "cpus" not in results.factors:
        raise WorkloadError("scaling: cpus is no factor of these results; sweep factors={'cpus': [1, 2]}")
    others = [name for name, levels in results.factors.items() if name != "cpus" and len(levels) > 1]
    if others:
        raise WorkloadError(
            f"scaling: {others[0]} varies too; choose a level with results.only({others[0]}=...)"
        )
    rates = _rates(results.rows)
    if not rates:
        raise WorkloadError("scaling: no unmarked trial with a rate is left; repeat the sweep")
    fewest = min(rates)
    random = np.random.Generator(np.random.PCG64(seed))

    def means(cpus: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        sample = np.array(rates[cpus]) / cpus
        drawn: np.ndarray[tuple[int], np.dtype[np.float64]] = random.choice(
            sample, (RESAMPLES, sample.size)
        ).mean(axis=1)
        return drawn

    alone = float(np.mean(rates[fewest])) / fewest
    tail = (1 - CONFIDENCE) / 2
    found = []
    for cpus in sorted(rates):
        low = high = None
        if cpus != fewest and min(len(rates[cpus]), len(rates[fewest])) > 1:
            low, high = (float(edge) for edge in np.quantile(means(cpus) / means(fewest), (tail, 1 - tail)))
        pps = float(np.mean(rates[cpus]))
        each = pps / cpus
        found.append(
            Scaling(
                cpus=cpus,
                pps=pps,
                pps_per_cpu=each,
                efficiency=each / alone,
                low=low,
                high=high,
                n=len(rates[cpus]),
            )
        )
    return tuple(found)


def _rates(rows: Sequence[RowLike]) -> dict[int, list[float]]:
    rates: dict[int, list[float]] = {}
    for row in rows:
        cpus = row.levels["cpus"]
        if row.trial.pps is not None and not row.trial.marks:
            rates.setdefault(1 if cpus is None else int(cpus), []).append(row.trial.pps)
    return rates
