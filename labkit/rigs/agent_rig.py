"""What every rig with an agent does: check, turn settings, run, count. A rig adds how it opens."""

from __future__ import annotations

import abc
import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from labkit.agent.client import AgentClient
from labkit.agent.protocol import Measured, Opened
from labkit.audit.run import audit_summary
from labkit.engines.choose import choose
from labkit.errors import LabError, LabWarning
from labkit.factors import PROGRAM_NAMES, RECEIVING_SINKS, STREAM_NAMES, Scalar, Settings
from labkit.linux.machine import machine_facts
from labkit.linux.perf_script import CpuSamples
from labkit.records import EMULATED, Frames, RigInfo, Sample, Traffic, Trial, Workload
from labkit.rigs import catalog
from labkit.rigs.assemble import Asked, trial_of
from labkit.rigs.base import Applied, OpenRig, check_length
from labkit.rigs.peer_counter import PeerRule
from labkit.rigs.pktgen_sink import sink_of
from labkit.rigs.push_back import pushed_back, seen_above
from labkit.rigs.requests import asked_of_sender, engine_config, run_request
from labkit.rigs.sink_checks import check_block
from labkit.rigs.streams import RULE, flow_of, frame_bytes_of
from labkit.traffic.limits import check_frames
from labkit.units import seconds_to_ns


class AgentRig(OpenRig):
    """A rig whose device is owned by an agent process.

    Parameters
    ----------
    info : RigInfo
        What the rig is and can do.
    client : AgentClient
        The agent; closed with the rig.
    opened : Opened
        State of the device as the agent found or made it.
    asked : dict
        Settings that were asked for when it was opened.
    sink : str
        Where frames end unless the workload says otherwise.
    made_with : mapping
        What else it was made with.

    Attributes
    ----------
    notes : tuple of str
        What people should know of it: settings put back when it was opened, and what this place lacks.
    caveat : str or None
        What has to be said of each trial (`labkit.records.caveat_of`).
    """

    caveat: str | None = None

    def __init__(
        self,
        info: RigInfo,
        client: AgentClient,
        opened: Opened,
        *,
        asked: dict[str, Scalar],
        sink: str,
        made_with: Mapping[str, Any],
    ) -> None:
        self._info = info
        self.notes = tuple(opened.notes)
        self._client = client
        self._privilege = opened.privilege
        self._asked = asked
        self._made_with = {**asked, "sink": sink, **made_with}
        self._accepted = opened.settings
        self._sink = sink
        self._machine = machine_facts()
        self._flow: Traffic | None = None
        self._frames: Frames | None = None
        self._rule: PeerRule | None = None
        self._rule_sink = sink

    @abc.abstractmethod
    def _checked(self, settings: Settings) -> dict[str, Scalar]:
        """Settings in Python's own types; raises for what this rig can know to be wrong."""

    def _effective(self, accepted: dict[str, Scalar]) -> dict[str, Scalar]:
        """What the hardware does with accepted settings, where its steps are known."""
        return accepted

    def _observed(self, measured: Measured, sink: str) -> dict[str, Any]:  # noqa: ARG002 - other rigs do
        """What else the rig's counters tell of a run."""
        return dict(seen_above(measured))

    def _disturbers(self, measured: Measured) -> dict[str, Any]:
        """What of this machine may disturb a run."""
        return {"audit": audit_summary(cpu=measured.cpu)}

    def _full(self, sink: str) -> str:  # noqa: ARG002 - a rig whose sinks differ reads it
        """What is full when the device takes no more."""
        return "TX ring"

    @abc.abstractmethod
    def _find_rule(self, frames: Frames, looked: Opened) -> PeerRule:
        """How arrivals of `frames` are counted, given the links that the sink uses."""

    @property
    def info(self) -> RigInfo:
        """Name, engines, sinks and factors."""
        return self._info

    @property
    def made_with(self) -> Mapping[str, Any]:
        """Settings, sink and whatever else it was opened with."""
        return self._made_with

    def check(self, workload: Workload) -> None:
        """Raise what is known to be wrong before anything is sent.

        Raises
        ------
        WorkloadError
            An unknown engine or sink, a batch the engine does not take, a frame over the MTU or too short.
        CapabilityMissingError
            An engine or sink that this rig does not have.
        LabError
            The link has no carrier.
        """
        self._check_workload(workload)
        engine, frames = choose(workload.engine), self._table(workload)
        engine.check(frames, engine_config(workload, frames, duration_ns=1, count=None))
        looked = self._client.look(sink_of(workload, self._sink))
        check_frames(frames, looked.link.mtu)
        check_block(workload, frames)
        if not looked.link.carrier:
            raise LabError(
                f"{looked.link.name}: no carrier, the peer is down; bring it up (on veth: peer_carrier=True, "
                f"--peer-carrier), or see what an engine does without (check=False, --unchecked)"
            )

    def preview(self, settings: Settings) -> str:
        """What applying `settings` would do, and how often the link would go down; nothing changes."""
        return self._client.preview(self._checked(settings))

    @contextlib.contextmanager
    def applied(self, settings: Settings) -> Iterator[Applied]:
        """Turn `settings`, read them back, and put the old ones back at the end.

        A LabWarning tells of one that somebody else changed meanwhile: it is left alone.
        ``asked`` holds what was asked for; ``accepted`` is everything in force as the kernel reads it back.
        """
        asked = self._checked(settings)
        before = self._asked, self._accepted, self._client.level
        try:
            if asked:
                self._accepted = self._client.apply(asked)
            self._asked = {**self._asked, **asked}
            effective = self._effective(self._accepted)
            yield Applied(asked=self._asked, accepted=self._accepted, effective=effective)
        finally:
            # by level, not by count: an interrupt may come before, within or behind apply, and here as well
            self._asked, self._accepted, self._client.level = before
            if asked:
                for note in self._client.restore():
                    warnings.warn(note, LabWarning, stacklevel=3)

    def run(
        self,
        workload: Workload,
        *,
        duration_s: float = 1.0,
        count: int | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        check: bool = True,
        sample_every_ns: int | None = None,
    ) -> Trial:
        """Send once for `duration_s` seconds or `count` frames, whichever ends first, and count.

        `sample_every_ns` asks for live samples at another distance than the usual 125 ms.

        Raises
        ------
        WorkloadError
            What makes no sense whatever the kernel would say, with ``check=False`` too.
        """
        return self._run(
            workload, duration_s, count, on_sample, check=check, sample_every_ns=sample_every_ns
        )[0]

    def run_sampled(
        self,
        workload: Workload,
        *,
        duration_s: float = 1.0,
        count: int | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        check: bool = True,
    ) -> tuple[Trial, CpuSamples]:
        """`run`, and what the senders' CPUs did meanwhile, as perf samples them.

        Raises
        ------
        CapabilityMissingError
            No perf here, or the kernel shows neither CPUs nor symbols to the agent: before anything is sent.
        """
        trial, samples = self._run(workload, duration_s, count, on_sample, check=check, profile=True)
        if samples is None:
            raise LabError("agent gave no samples where a profile was due; run `make setup`")
        return trial, samples

    def _run(
        self,
        workload: Workload,
        duration_s: float,
        count: int | None,
        on_sample: Callable[[Sample], None] | None,
        *,
        check: bool,
        profile: bool = False,
        sample_every_ns: int | None = None,
    ) -> tuple[Trial, CpuSamples | None]:
        self._client.stop_asked = False
        check_length(duration_s, count)
        if check:
            self.check(workload)
        self._check_workload(workload)
        sink, engine = sink_of(workload, self._sink), choose(workload.engine)
        frames = self._table(workload)
        config = engine_config(workload, frames, duration_ns=seconds_to_ns(duration_s), count=count)
        engine.check(frames, config)
        self._client.load(frames)
        rule = RULE if engine.name in STREAM_NAMES else self._peer_rule(frames, sink)
        measured, samples = self._client.run(
            run_request(workload, config, sink, rule, profile=profile, sample_every_ns=sample_every_ns),
            longest_s=duration_s,
            on_sample=on_sample,
        )
        observed = self._observed(measured, sink)
        asked = Asked(
            rig=self._info.name,
            engine=engine.name,
            sink=sink,
            frame_bytes=frame_bytes_of(engine.name, frames, self._accepted),
            batch=None if engine.name in PROGRAM_NAMES else config.batch,
            duration_s=duration_s,
            rate_pps=workload.rate_pps,
            qdisc_bypass=workload.qdisc_bypass,
            settings_asked=dict(self._asked),
            settings_accepted=dict(self._accepted),
            settings_effective=dict(self._effective(self._accepted)),
            privilege=self._privilege,
            environment={
                **self._machine,
                "flow": flow_of(engine.name, workload.flow),
                **self._disturbers(measured),
                **asked_of_sender(workload),
                **observed,
            },
            push_back=pushed_back(observed),
            full=self._full(sink),
            device_resets=observed.get("device_resets", ()),
            emulated=self.caveat == EMULATED,
        )
        return trial_of(asked, measured, rule, samples), measured.samples

    def stop(self) -> None:
        """End the run in progress; callable from another thread."""
        self._client.stop()

    def close(self) -> None:
        """End the agent, and its namespaces with it; harmless twice."""
        self._client.close()

    def _check_workload(self, workload: Workload) -> None:
        """Raise what is wrong with a workload on this rig, whose own sink counts where it names none."""
        named = msgspec.structs.replace(workload, sink=sink_of(workload, self._sink))
        catalog.check_workload(self._info, named)

    def _table(self, workload: Workload) -> Frames:
        """The workload's frames, built once for all runs of the same flow."""
        if self._frames is None or workload.flow is not self._flow:
            self._flow, self._frames, self._rule = workload.flow, workload.flow.table(), None
        return self._frames

    def _peer_rule(self, frames: Frames, sink: str) -> PeerRule:
        """The rule for these frames, found once; a sink that receives counts itself."""
        if sink in RECEIVING_SINKS:
            return PeerRule(counters=(), note=None)
        if self._rule is None or self._rule_sink != sink:
            self._rule, self._rule_sink = self._find_rule(frames, self._client.look(sink)), sink
        return self._rule
