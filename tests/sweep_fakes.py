"""A rig and a measurement without a network, for tests of sweeps; run as a program it sweeps slowly.

``python tests/sweep_fakes.py STORE [--resume]`` sweeps a hundred points into STORE and prints a line after
each point has been measured, so that a test can end it in the middle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from labkit.drivers.facts import DriverFacts
from labkit.errors import SettingRefusedError, WorkloadError
from labkit.experiment.sweep import Sweep
from labkit.records import SCHEMA_VERSION, RigInfo, Sample, Trial, Workload
from labkit.rigs.base import Applied
from labkit.traffic.table import FrameTable


class Flow:
    def __init__(self, frame_bytes: int = 60) -> None:
        self.frame_bytes = frame_bytes

    def with_frame_bytes(self, frame_bytes: int) -> Flow:
        if frame_bytes > 1514:
            raise WorkloadError(f"frame of {frame_bytes} bytes is longer than 1514; raise the MTU")
        return Flow(frame_bytes)

    def describe(self) -> dict[str, Any]:
        return {"kind": "test", "frame_bytes": self.frame_bytes}

    def table(self) -> FrameTable:
        return FrameTable.of([bytes(self.frame_bytes)])


class FakeRig:
    """Knows two settings, refuses a ring above 4096, and shows what is set now."""

    def __init__(self, factors: tuple[str, ...] = ("tx_ring", "rx_usecs")) -> None:
        self.info = RigInfo(
            name="fake", title="a fake", engines=("send", "sendmmsg"), sinks=("stack",), factors=factors
        )
        self.made_with: dict[str, Any] = {}
        self.driver: DriverFacts | None = None
        self.now: dict[str, Any] = {"tx_ring": 512, "rx_usecs": 1}

    def check(self, workload: Workload) -> None:
        if workload.batch is not None and not 1 <= workload.batch <= 1024:
            raise WorkloadError(f"batch {workload.batch} is outside 1 to 1024")

    @contextmanager
    def applied(self, settings: Mapping[str, Any]) -> Iterator[Applied]:
        if settings.get("tx_ring", 0) > 4096:
            raise SettingRefusedError(f"tx_ring {settings['tx_ring']} is above 4096")
        before = dict(self.now)
        self.now.update(settings)
        try:
            yield Applied(asked=dict(settings), accepted=dict(settings), effective=dict(settings))
        finally:
            self.now = before

    def run(self, workload: Workload, **_kind: Any) -> Trial:
        return trial(pps=1e6, settings={}, workload=workload)

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...


def trial(*, pps: float | None = 1e6, settings: Mapping[str, Any] | None = None, **more: Any) -> Trial:
    workload = more.pop("workload", Workload(flow=Flow(), engine="sendmmsg"))
    values: dict[str, Any] = {
        "rig": "fake",
        "engine": workload.engine,
        "sink": workload.sink,
        "frame_bytes": workload.flow.frame_bytes,
        "batch": workload.batch or 64,
        "duration_s": 1.0,
        "rate_pps": workload.rate_pps,
        "elapsed_ns": 1_000_000_000,
        "cpu_ns": None,
        "pps": pps,
        "ns_per_packet": 1e9 / pps if pps else None,
        "engine_sent": 1_000_000,
        "engine_refused": 0,
        "refused_by_errno": {},
        "partial_returns": 0,
        "segments_sent": None,
        "qdisc_dropped": None,
        "device_sent": None,
        "device_dropped": None,
        "peer_received": None,
        "peer_dropped": None,
        "reconciled": None,
        "difference_reason": None,
        "limiter": None,
        "marks": [],
        "settings_asked": dict(settings or {}),
        "settings_accepted": dict(settings or {}),
        "settings_effective": dict(settings or {}),
        "environment": {"cpu": 1},
        "privilege": "none",
        "schema_version": SCHEMA_VERSION,
        "samples": (Sample(at_ns=5, engine_sent=3, engine_refused=0, device_sent=None, peer_received=None),),
    }
    return Trial(**{**values, **more})


class Meter:
    """Measures by arithmetic; `before` runs inside the applied settings of each call."""

    def __init__(self, before: Callable[[int], None] = lambda call: None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._before = before

    def __call__(
        self, rig: Any, workload: Workload, *, settings: Mapping[str, Any], duration_s: float, warmup_s: float
    ) -> Trial:
        rig.check(workload)
        with rig.applied(settings):
            self.calls.append(dict(settings))
            self._before(len(self.calls))
            pps = 1000.0 * settings.get("tx_ring", 512) + 10 * settings.get("rx_usecs", 1) + len(self.calls)
            return trial(pps=pps, settings=settings, workload=workload)


def sweep(rig: FakeRig, meter: Meter, factors: Mapping[str, Any], **more: Any) -> Sweep:
    return Sweep(rig, Workload(flow=Flow(), engine="sendmmsg"), factors=factors, measure=meter, **more)


def slow_sweep(meter: Meter) -> Sweep:
    """A hundred trials."""
    return sweep(FakeRig(), meter, {"rx_usecs": list(range(1, 51))}, repeats=2)


def main(address: str, *options: str) -> None:
    def say(call: int) -> None:
        print(call, flush=True)  # noqa: T201 - the parent test waits for it
        sys.stdin.readline()

    slow_sweep(Meter(say)).run(address, progress=False, resume="--resume" in options)


if __name__ == "__main__":
    main(*sys.argv[1:])
