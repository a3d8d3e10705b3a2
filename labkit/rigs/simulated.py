"""The simulated NIC as a rig: it answers at once and the same every time. No agent, no privilege."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from labkit.drivers.facts import DriverFacts
from labkit.errors import LabError, LabWarning, WorkloadError
from labkit.factors import Scalar, Settings, typed
from labkit.nic.put_back import notes_of
from labkit.records import RigInfo, Sample, Trial, Workload
from labkit.rigs import catalog
from labkit.rigs.assemble import Asked, trial_of
from labkit.rigs.base import Applied, OpenRig, check_length
from labkit.rigs.driver_view import driver_view, effective_settings
from labkit.rigs.queue_limits import simulated_limits
from labkit.rigs.simulated_counts import counter_names, measurement
from labkit.rigs.simulated_device import DEVICE, SimulatedDevice
from labkit.rigs.simulated_faults import Faults, check_faults, faults_of
from labkit.rigs.simulated_run import answer_of, ended_by, samples_of
from labkit.rigs.simulated_sender import sender_of
from labkit.rigs.simulated_view import stream_figures, view_of
from labkit.simnic import run as loop
from labkit.simnic.profile import Profile
from labkit.simnic.run import Simulated
from labkit.simnic.sender import HYPOTHESES, Sender
from labkit.traffic.limits import check_frames
from labkit.units import ETHERNET_HEADER_BYTES

LONGEST_S: Final = 100.0
"""Longest simulated run: a second of it takes 10 to 400 ms, and nothing stops it."""


class SimulatedRig(OpenRig):
    """One simulated machine.

    Parameters
    ----------
    profile : Profile
        The machine, as `labkit.rigs.profiles.load_profile` reads it.
    seed : int
        Of everything random: the same seed gives the same trial.
    faults : Faults, mapping or None
        What goes wrong on purpose.
    hypotheses : iterable of str
        Explanations that are taken to be true (`labkit.simnic.sender.HYPOTHESES`).
    random_arrivals : bool
        Engine ``receive``: frames arrive at random instead of evenly spaced.

    Raises
    ------
    WorkloadError
        An unknown fault or hypothesis, or a seed that is none.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        seed: int = 1,
        faults: Faults | Mapping[str, Any] | None = None,
        hypotheses: Iterable[str] = (),
        random_arrivals: bool = False,
    ) -> None:
        self.profile = profile
        self._faults, self._hypotheses = faults_of(faults), frozenset(hypotheses)
        self._seed, self._random_arrivals = seed, random_arrivals
        check_faults(self._faults, profile, counter_names(profile.driver))
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise WorkloadError(f"seed {seed!r}: give a whole number from 0 up, below 2^64")
        for name in sorted(self._hypotheses - HYPOTHESES.keys()):
            raise WorkloadError(f"unknown hypothesis '{name}'; known: {', '.join(HYPOTHESES)}")
        self._asked: dict[str, Scalar] = {}
        self._card = SimulatedDevice(profile, self._faults)

    @property
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""
        return catalog.simulated(self.profile)

    @property
    def made_with(self) -> Mapping[str, Any]:
        """Seed, faults, hypotheses, and whether arrivals are random."""
        return {
            "seed": self._seed,
            "faults": msgspec.to_builtins(self._faults),
            "hypotheses": sorted(self._hypotheses),
            "random_arrivals": bool(self._random_arrivals),
        }

    @property
    def driver(self) -> DriverFacts:
        """Facts of the simulated driver."""
        return self.profile.driver

    def check(self, workload: Workload) -> None:
        """Raise what is wrong with `workload` here; `cpu` is not looked at, for all CPUs are the same."""
        self._sender(workload)
        if not self._card.carrier:
            raise LabError(f"{DEVICE}: no carrier; put back the setting that took it, or drop that fault")

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do; nothing changes."""
        return f"{self._card.preview(self._checked(settings))}\n{catalog.PRIVATE}"

    @contextmanager
    def applied(self, settings: Settings) -> Iterator[Applied]:
        """Turn `settings`, read them back, and put the old ones back at the end.

        ``asked`` holds what was asked for; ``accepted`` and ``effective`` hold everything in force.

        Raises
        ------
        WorkloadError, CapabilityMissingError, SettingRefusedError
            As `labkit.rigs.base.Rig.applied` says.
        """
        asked = self._checked(settings)
        before, level = self._asked, self._card.settings.level
        try:
            if asked:
                self._card.settings.apply(asked)
            self._asked = {**self._asked, **asked}
            yield self._in_force()
        finally:
            self._asked = before
            for note in notes_of(self._card.settings.restore(level)):
                warnings.warn(note, LabWarning, stacklevel=3)

    def run(
        self,
        workload: Workload,
        *,
        duration_s: float = 1.0,
        count: int | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        check: bool = True,
    ) -> Trial:
        """One trial of `duration_s` simulated seconds or `count` frames, whichever ends first.

        At full speed past the qdisc, and without a count, the card has been busy for a while already, as
        behind a warm-up. With ``check=False`` it runs without carrier, too; what no simulated sender can
        do is refused anyway.
        """
        check_length(duration_s, count)
        if duration_s > LONGEST_S:
            raise WorkloadError(f"duration_s {duration_s:g}: a simulated run has {LONGEST_S:g} s at the most")
        if check:
            self.check(workload)
        sender, settings = self._sender(workload), dict(self._card.values)
        answer = self._answer(sender, duration_s, count)
        samples = samples_of(answer, sender)
        if on_sample is not None:
            for sample in samples:
                on_sample(sample)
        measured, rule = measurement(
            answer,
            sender,
            self.driver,
            self._faults,
            link_bits_per_s=self.profile.value("link_bits_per_s"),
            ended_by=ended_by(answer, sender, count),
            cpu=workload.cpu or 0,
            byte_limits=simulated_limits(answer, sender, self.profile, settings),
        )
        observed = driver_view(measured, self.driver)
        seen = view_of(answer, sender, self.profile, settings)
        in_force = self._in_force()
        asked = Asked(
            rig=self.info.name,
            engine=sender.engine,
            sink="stack" if sender.injects or sender.engine == "receive" else catalog.SIM_SINK,
            frame_bytes=sender.frame_bytes,
            batch=sender.batch,
            duration_s=duration_s,
            rate_pps=workload.rate_pps,
            qdisc_bypass=workload.qdisc_bypass,
            settings_asked=in_force.asked,
            settings_accepted=in_force.accepted,
            settings_effective=in_force.effective,
            privilege="none",
            environment={
                **self._environment(workload, sender),
                **observed,
                "simulated": seen,
                **stream_figures(seen),
            },
            push_back=observed["push_back"],
            device_resets=observed["device_resets"],
        )
        return trial_of(asked, measured, rule, samples)

    def stop(self) -> None:
        """Do nothing: a simulated second is over in some ten milliseconds, before it can be stopped."""

    def close(self) -> None:
        """Do nothing: a simulated rig holds nothing."""

    def _checked(self, settings: Settings) -> dict[str, Scalar]:
        for name in settings:
            catalog.check_setting(self.info, name)
        return {name: typed(name, value) for name, value in settings.items()}

    def _in_force(self) -> Applied:
        accepted = self._card.settings.current()
        effective = effective_settings(accepted, self.driver)
        return Applied(asked=dict(self._asked), accepted=accepted, effective=effective)

    def _sender(self, workload: Workload) -> Sender:
        """The simulated sender, everything checked."""
        catalog.check_workload(self.info, workload)
        mtu = self._card.values["mtu"]
        longest = workload.flow.frame_bytes
        if workload.engine != "tcp" and not ETHERNET_HEADER_BYTES <= longest <= mtu + ETHERNET_HEADER_BYTES:
            check_frames(workload.flow.table(), mtu)
        sender = sender_of(
            workload,
            self.profile,
            self._card.values,
            hypotheses=self._hypotheses,
            random_arrivals=self._random_arrivals,
        )
        catalog.check_costs(self.profile, sender)
        return sender

    def _answer(self, sender: Sender, duration_s: float, count: int | None) -> Simulated:
        faults = loop.Faults(
            carrier_lost_after_s=self._faults.carrier_lost_after_s if self._card.carrier else 0.0,
            drop_interrupt_every=self._faults.drop_interrupt_every,
        )
        run = loop.Run(duration_s=duration_s, count=count, seed=self._seed, faults=faults)
        return answer_of(self.profile, self._card.values, sender, run)

    def _environment(self, workload: Workload, sender: Sender) -> dict[str, Any]:
        """Where the numbers come from, and what was sent."""
        profile = self.profile
        shown = {"frame_bytes_asked": workload.flow.frame_bytes}
        return {
            "profile": profile.name,
            "what_if": profile.what_if,
            "kernel": profile.kernel,
            "cpu_model": profile.cpu,
            "nic": profile.nic,
            "driver": f"{profile.driver.name} of {profile.driver.kernel}",
            "constants": profile.constants.values(),
            "sources": profile.constants.origins(),
            "flow": workload.flow.describe(),
            "sender": msgspec.to_builtins(sender, order="deterministic"),
            "seed": self._seed,
            "faults": msgspec.to_builtins(self._faults),
            **(shown if workload.flow.frame_bytes != sender.frame_bytes else {}),
        }
