"""A sweep runs levels that the rig's driver accepts as one only once, and says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.drivers.choose import facts_of
from labkit.drivers.levels import distinct_levels
from labkit.experiment.plan import Plan
from labkit.experiment.sweep import Sweep
from labkit.records import Workload
from labkit.results.store import Store
from labkit.rigs.choose import simulated_rig
from tests.sweep_fakes import FakeRig, Flow, Meter


def test_levels_that_a_driver_accepts_as_one_are_one() -> None:
    levels = distinct_levels(facts_of("ixgbe"), "tx_ring", [1001, 50, 1008, 64, 2048])
    assert levels.levels == (1001, 50, 2048)
    assert [(each.asked, each.instead, each.accepted) for each in levels.merged] == [
        (1008, 1001, 1008),
        (64, 50, 64),
    ]
    assert str(levels) == (
        "tx_ring: 3 of 5 levels are run: ixgbe makes 1008 of 1008 as of 1001, 64 of 64 as of 50"
    )


def test_levels_of_equal_hardware_step_stay_apart_because_they_read_back_apart() -> None:
    assert distinct_levels(facts_of("ixgbe"), "rx_usecs", [30, 31]).levels == (30, 31)


def test_refused_and_unknown_levels_stay() -> None:
    assert distinct_levels(facts_of("igb"), "rx_usecs", [2, 4, 10]).levels == (2, 4, 10)
    levels = distinct_levels(facts_of("frobnic"), "tx_ring", [1001, 1008])
    assert levels.levels == (1001, 1008)
    assert levels.merged == ()
    assert str(levels) == "tx_ring: 2 levels, all different to frobnic"


def swept(driver: str | None, measure: Meter | None = None) -> Sweep:
    rig = FakeRig()
    rig.driver = None if driver is None else facts_of(driver)
    factors = {"tx_ring": [512, 1000, 1024], "batch": [1, 2]}
    workload = Workload(flow=Flow(), engine="sendmmsg")
    return Sweep(rig, workload, factors=factors, repeats=2, seed=7, measure=measure)


@pytest.mark.parametrize(
    ("driver", "run"), [("ena", (512, 1024)), ("mlx5", (512, 1000)), ("igb", (512, 1000, 1024))]
)
def test_a_sweep_runs_what_its_driver_tells_apart(driver: str, run: tuple[int, ...]) -> None:
    sweep = swept(driver)
    assert sweep.plan == Plan.of({"tx_ring": run, "batch": [1, 2]}, repeats=2, seed=7)
    assert [levels.setting for levels in sweep.merged] == (["tx_ring"] if len(run) < 3 else [])


def test_results_name_the_levels_that_were_not_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "lab.sqlite")
    assert swept("ena", Meter()).run(store, progress=False).environment["merged"] == [
        {
            "setting": "tx_ring",
            "driver": "ena",
            "levels": [512, 1024],
            "merged": [{"asked": 1000, "instead": 512, "accepted": 512}],
        }
    ]
    assert store.load(1).environment["merged"][0]["setting"] == "tx_ring"


def test_a_sweep_on_a_rig_without_known_driver_runs_all() -> None:
    sweep = swept(None)
    assert sweep.plan.factors[0].levels == (512, 1000, 1024)
    assert sweep.merged == ()


def test_the_simulated_rig_knows_its_driver() -> None:
    with simulated_rig("sim:ixgbe") as rig:
        sweep = Sweep(rig, Workload(flow=Flow(), engine="pktgen"), factors={"tx_ring": [4096, 8192, 64]})
    assert sweep.plan.factors[0].levels == (4096, 64)
    assert [str(levels) for levels in sweep.merged] == [
        "tx_ring: 2 of 3 levels are run: ixgbe makes 4096 of 8192 as of 4096"
    ]
