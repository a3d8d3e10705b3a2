"""A workload holds values of the right kind, whoever made it; what no rig could mean is refused at once."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from labkit.errors import WorkloadError
from labkit.factors import BY_QUEUE_SETTINGS, SETTING_NAMES, WORKLOAD_FACTORS, typed
from labkit.records import Workload
from labkit.traffic.flows import udp_flow

FLOW = udp_flow(flows=1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch": "64"}, "batch '64': give a whole number"),
        ({"batch": 1.5}, r"batch 1\.5: give a whole number"),
        ({"batch": True}, "batch True: give a whole number"),
        ({"batch": np.array([1, 2])}, "batch .*: give a whole number"),
        ({"cpu": "0"}, "cpu '0': give a whole number"),
        ({"rate_pps": "fast"}, "rate_pps 'fast': give a number"),
        ({"qdisc_bypass": "false"}, "qdisc_bypass 'false': give true or false"),
        ({"qdisc_bypass": 1}, "qdisc_bypass 1: give true or false"),
        ({"sink": 3}, "sink 3: give a name"),
        ({"engine": None}, "engine None: give a name"),
        ({"flow": None}, r"flow None: give lk\.udp_flow"),
    ],
)
def test_value_of_the_wrong_kind_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        Workload(**{"flow": FLOW, "engine": "sendmmsg", **changes})
    good = Workload(FLOW, engine="sendmmsg")
    with pytest.raises(WorkloadError, match=said):
        msgspec.structs.replace(good, **changes)


def test_numbers_of_numpy_become_pythons_own() -> None:
    workload = Workload(
        FLOW,
        engine="sendmmsg",
        batch=np.int64(64),  # type: ignore[arg-type]
        rate_pps=np.float32(0.5),  # type: ignore[arg-type]
        qdisc_bypass=np.bool_(True),  # type: ignore[arg-type]
    )
    assert (workload.batch, workload.rate_pps, workload.qdisc_bypass) == (64, 0.5, True)
    kinds = [type(value) for value in (workload.batch, workload.rate_pps, workload.qdisc_bypass)]
    assert kinds == [int, float, bool]


def test_every_factor_has_a_kind() -> None:
    samples = (1, True, "word")
    for name in SETTING_NAMES | WORKLOAD_FACTORS:
        taken = []
        for sample in samples:
            try:
                taken.append(typed(name, sample))
            except WorkloadError:
                continue
        # one value for all queues may be a number or a switch, and then is its text
        assert len(set(map(type, taken))) == 1, name
        assert len(taken) == 1 + (name in BY_QUEUE_SETTINGS), name
