"""A trial that something disturbed is run again, a few times at the most."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from labkit.experiment.trial import CURABLE_MARKS, MAX_REPEATS, run_trial
from labkit.records import Mark, Trial, Workload
from tests.sweep_fakes import FakeRig, Flow, trial


class DisturbedRig(FakeRig):
    """Gives one trial a run with the marks of that run; the last marks stay."""

    def __init__(self, *marks: list[str]) -> None:
        super().__init__()
        self.marks = marks
        self.runs = 0

    def run(self, workload: Workload, **_kind: Any) -> Trial:
        self.runs += 1
        return trial(workload=workload, marks=self.marks[min(self.runs, len(self.marks)) - 1])


def measured(rig: DisturbedRig) -> Trial:
    return run_trial(rig, Workload(flow=Flow(), engine="send"), warmup_s=0)


@pytest.mark.parametrize("mark", sorted(CURABLE_MARKS))
def test_disturbed_run_is_repeated_until_it_is_clean(mark: str) -> None:
    rig = DisturbedRig([mark], [mark, "nothing-sent"], [])
    assert (measured(rig).marks, rig.runs) == ([], 3)


@pytest.mark.parametrize("mark", sorted(CURABLE_MARKS))
def test_run_that_stays_disturbed_keeps_its_marks(mark: str) -> None:
    rig = DisturbedRig([mark])
    assert (measured(rig).marks, rig.runs) == ([mark], 1 + MAX_REPEATS)


@pytest.mark.parametrize("mark", sorted(set(get_args(Mark)) - CURABLE_MARKS))
def test_what_no_second_try_cures_is_not_repeated(mark: str) -> None:
    rig = DisturbedRig([mark])
    assert (measured(rig).marks, rig.runs) == ([mark], 1)
