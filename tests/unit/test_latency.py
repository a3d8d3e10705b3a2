"""Latency at parts of the found rate: what is asked of the rig, and what comes of an answer without one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.errors import LabError, WorkloadError
from labkit.records import Trial, Workload
from tests.sweep_fakes import FakeRig, Flow, trial

LATENCY = {"p50": 4_000, "p90": 5_000, "p99": 9_000, "p99.9": 40_000, "p99.99": 90_000, "max": 120_000}
WORKLOAD = Workload(Flow(), engine="sendmmsg", sink="rx_ring")


class Meter:
    """Gives a trial for each workload and keeps what it was asked."""

    def __init__(self, received: int = 500_000, marks: tuple[str, ...] = ()) -> None:
        self.asked: list[Workload] = []
        self._received, self._marks = received, list(marks)

    def __call__(self, rig: Any, workload: Workload, **_: Any) -> Trial:
        self.asked.append(workload)
        paced = workload.rate_pps is not None
        sink = {
            "latency_ns": LATENCY if paced else None,
            "latency_note": None if paced else "an unpaced sender has no due times",
        }
        return msgspec.structs.replace(
            trial(pps=1e6),
            peer_received=self._received,
            elapsed_ns=1_000_000_000,
            environment={"sink": sink},
            marks=self._marks if paced else [],
        )


def measured(meter: Meter, workload: Workload = WORKLOAD, **more: Any) -> Any:
    return lk.latency_at_load(FakeRig(), workload, measure=meter, **more)


def test_loads_are_parts_of_what_arrived_unpaced_and_every_frame_is_stamped() -> None:
    meter = Meter()
    found = measured(meter, msgspec.structs.replace(WORKLOAD, rate_pps=77.0))
    assert found.found_pps == 500_000
    assert [asked.rate_pps for asked in meter.asked] == [None, 50_000, 250_000, 450_000]
    assert all(asked.stamp for asked in meter.asked)
    assert [point.latency_ns for point in found.points] == [LATENCY] * 3
    assert [point.reason for point in found.points] == [None] * 3


def test_a_marked_run_says_so_beside_its_latency() -> None:
    found = measured(Meter(marks=("rate-missed",)), shares=(0.9,))
    assert found.points[0].reason == "marked rate-missed"


def test_nothing_arrived_is_no_rate_to_take_parts_of() -> None:
    with pytest.raises(LabError, match="nothing arrived unpaced"):
        measured(Meter(received=0))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan"), float("inf")])
def test_share_that_is_no_load_below_saturation_is_refused(share: float) -> None:
    meter = Meter()
    with pytest.raises(WorkloadError, match="parts of the found rate between 0 and 1"):
        measured(meter, shares=(share,))
    assert meter.asked == []


@pytest.mark.parametrize("sink", [None, "stack", "xdp_drop"])
def test_sink_that_looks_at_no_time_is_refused(sink: str | None) -> None:
    with pytest.raises(WorkloadError, match="take one of rx_ring, socket"):
        measured(Meter(), msgspec.structs.replace(WORKLOAD, sink=sink))


def test_curves_are_in_microseconds_and_a_load_without_latency_is_a_gap() -> None:
    found = measured(Meter(), shares=(0.1, 0.9))
    bare = msgspec.structs.replace(found.points[1], latency_ns=None, reason="no frame was stamped")
    figure = lk.latency_curves(msgspec.structs.replace(found, points=(found.points[0], bare)))
    assert list(figure.data[0].y) == [4.0, 5.0, 9.0, 40.0, 90.0, 120.0]
    assert list(figure.data[1].y) == [None] * 6
    assert "no latency" in figure.data[1].name
    assert figure.data[1].customdata[0] == "no frame was stamped"
