"""The simulated NIC as a rig: it answers at once and the same every time. No agent, no privilege."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from labkit.drivers.facts import DriverFacts
from labkit.drivers.values import whole_number
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.factors import Scalar, Settings, typed
from labkit.nic.guard import change_list
from labkit.records import SCHEMA_VERSION, RigInfo, Sample, Traffic, Trial, Workload
from labkit.rigs import catalog
from labkit.rigs.base import Applied, OpenRig, check_length
from labkit.simnic.law import Outcome, interrupt_period_ns, outcome
from labkit.simnic.profile import Profile
from labkit.traffic.limits import check_frames
from labkit.units import (
    ETHERNET_HEADER_BYTES,
    NS_PER_S,
    NS_PER_US,
    ns_per_packet,
    rate_pps,
    seconds_to_ns,
)

MTU_BYTES: Final = 1500
SAMPLES: Final = 5
"""Samples of a trial, evenly spaced over the simulated time."""


class SimulatedRig(OpenRig):
    """One simulated machine.

    Parameters
    ----------
    profile : Profile
        The machine, as `labkit.rigs.profiles.load_profile` reads it.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._asked: dict[str, Scalar] = {}
        self._accepted = profile.driver.defaults

    @property
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""
        return catalog.simulated(self.profile)

    @property
    def driver(self) -> DriverFacts:
        """Facts of the simulated driver."""
        return self.profile.driver

    def check(self, workload: Workload) -> None:
        """Raise what no rig could do, or what the closed law does not cover.

        `cpu` and `qdisc_bypass` are not looked at: the law has one CPU, and pktgen never meets a qdisc.
        """
        catalog.check_engine(self.info, workload.engine)
        catalog.check_sink(self.info, workload.sink)
        self._check_batch(workload.batch)
        self._check_frames(workload.flow)
        rate_pps = workload.rate_pps
        if rate_pps is not None and not 0 < rate_pps < math.inf:
            raise WorkloadError(f"rate_pps {rate_pps}: give a rate above 0, or none for full speed")

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do; nothing changes."""
        wanted = {name: self._accept(name, value) for name, value in settings.items()}
        rounded = [
            f"{name}: {value} becomes {wanted[name]}"
            for name, value in settings.items()
            if value != wanted[name]
        ]
        return "\n".join([change_list(wanted, self._accepted, {}), *rounded, catalog.PRIVATE])

    @contextmanager
    def applied(self, settings: Settings) -> Iterator[Applied]:
        """Turn `settings` and put the old ones back at the end.

        ``asked`` holds what was asked for; ``accepted`` and ``effective`` hold the defaults in force as well.
        An effective ``rx_usecs`` is the hardware's interval in microseconds.

        Raises
        ------
        WorkloadError, CapabilityMissingError, SettingRefusedError
            As `labkit.rigs.base.Rig.applied` says.
        """
        accepted = {name: self._accept(name, value) for name, value in settings.items()}
        asked = {name: typed(name, value) for name, value in settings.items()}
        before = self._asked, self._accepted
        self._asked, self._accepted = {**self._asked, **asked}, {**self._accepted, **accepted}
        try:
            yield self._in_force()
        finally:
            self._asked, self._accepted = before

    def outcome(self, frame_bytes: int = 60) -> Outcome:
        """What the law says under the settings in force for frames of `frame_bytes`, sent at full speed."""
        return outcome(self.profile, **self._accepted, frame_bytes=frame_bytes)

    def run(
        self,
        workload: Workload,
        *,
        duration_s: float = 1.0,
        count: int | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        check: bool = True,  # noqa: ARG002 the law has no kernel that would refuse a frame later
    ) -> Trial:
        """One trial of `duration_s` simulated seconds or `count` frames, whichever ends first.

        The law knows one count. So there is no peer and nothing to reconcile with, and nothing that counts
        drops: a full ring makes pktgen wait, and pktgen hands frames to the driver past any qdisc.
        """
        self.check(workload)
        check_length(duration_s, count)
        full_speed = self.outcome(workload.flow.frame_bytes)
        asked_pps = math.inf if workload.rate_pps is None else workload.rate_pps
        speed_pps = min(asked_pps, full_speed.pps)
        sent = int(speed_pps * duration_s)
        if count is not None:
            sent = min(sent, count)
        waited = not sent and count != 0
        elapsed_ns = seconds_to_ns(duration_s) if waited else round(sent / speed_pps * NS_PER_S)
        samples = _evenly_spaced(sent, elapsed_ns)
        if on_sample is not None:
            for sample in samples:
                on_sample(sample)
        pps = rate_pps(sent, elapsed_ns)
        in_force = self._in_force()
        return Trial(
            rig=self.info.name,
            engine=workload.engine,
            sink=None,
            frame_bytes=workload.flow.frame_bytes,
            batch=workload.batch,
            duration_s=duration_s,
            rate_pps=workload.rate_pps,
            elapsed_ns=elapsed_ns,
            cpu_ns=None,
            pps=pps,
            ns_per_packet=None if pps is None else ns_per_packet(pps),
            engine_sent=sent,
            engine_refused=0,
            refused_by_errno={},
            partial_returns=0,
            segments_sent=None,
            qdisc_dropped=None,
            device_sent=sent,
            device_dropped=None,
            peer_received=None,
            peer_dropped=None,
            reconciled=None,
            difference_reason=f"not verified at the peer: the law of {self.info.name} has no peer",
            limiter=_limiter(asked_pps, full_speed),
            marks=[] if sent else ["nothing-sent"],
            settings_asked=in_force.asked,
            settings_accepted=in_force.accepted,
            settings_effective=in_force.effective,
            environment=self._environment(full_speed),
            privilege="none",
            schema_version=SCHEMA_VERSION,
            samples=samples,
        )

    def stop(self) -> None:
        """Do nothing: a simulated run takes no time, so it is over before it can be stopped."""

    def close(self) -> None:
        """Do nothing: a simulated rig holds nothing."""

    def _in_force(self) -> Applied:
        period_ns = interrupt_period_ns(self.profile, self._accepted["rx_usecs"])
        return Applied(
            asked=dict(self._asked),
            accepted={**self._accepted},
            effective={**self._accepted, "rx_usecs": period_ns / NS_PER_US},
        )

    def _accept(self, name: str, asked: Scalar) -> int:
        """Value of setting `name` that the driver reads back when `asked` is wanted."""
        catalog.check_setting(self.info, name)
        value = whole_number(name, asked)
        if name == "tx_ring":
            return self.profile.driver.tx_ring.accepted(value, name)
        interrupt_period_ns(self.profile, value)
        return self.profile.driver.rx_usecs.accepted(value, name)

    def _check_batch(self, batch: int | None) -> None:
        whole = isinstance(batch, int) and not isinstance(batch, bool)
        if batch is not None and not (whole and 1 <= batch <= 1024):
            raise WorkloadError(f"batch {batch!r}: give 1 to 1024")
        if batch not in (None, 1):
            raise CapabilityMissingError(
                f"rig '{self.info.name}': batch {batch} is pktgen's burst, which the law does not cover; "
                f"leave the batch out, or take engine 'sendmmsg' on rig '{catalog.VETH.name}'"
            )

    def _check_frames(self, flow: Traffic) -> None:
        if not ETHERNET_HEADER_BYTES <= flow.frame_bytes <= MTU_BYTES + ETHERNET_HEADER_BYTES:
            check_frames(flow.table(), MTU_BYTES)

    def _environment(self, full_speed: Outcome) -> dict[str, Any]:
        """Where the numbers come from, and the law's full answer at full speed."""
        return {
            "profile": self.profile.name,
            "kernel": self.profile.kernel,
            "cpu": self.profile.cpu,
            "nic": self.profile.nic,
            "driver": f"{self.profile.driver.name} of {self.profile.driver.kernel}",
            "constants": self.profile.constants.values(),
            "sources": self.profile.constants.origins(),
            "full_speed": msgspec.to_builtins(full_speed),
        }


def _limiter(asked_pps: float, full_speed: Outcome) -> str | None:
    """What one number proves to be the limit; the CPU and the wire are conclusions, so None."""
    if asked_pps < full_speed.pps:
        return "pacing"
    return "TX ring" if full_speed.limited_by == "TX ring" else None


def _evenly_spaced(sent: int, elapsed_ns: int) -> tuple[Sample, ...]:
    """Counts at `SAMPLES` instants, the last at the end."""
    return tuple(
        Sample(
            at_ns=elapsed_ns * part // SAMPLES,
            engine_sent=sent * part // SAMPLES,
            engine_refused=0,
            device_sent=sent * part // SAMPLES,
            peer_received=None,
        )
        for part in range(1, SAMPLES + 1)
    )
