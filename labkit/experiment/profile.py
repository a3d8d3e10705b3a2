"""A trial that also tells where its nanoseconds go."""

from __future__ import annotations

from collections.abc import Callable

from labkit.analysis.cpu_profile import Profiled
from labkit.analysis.cpu_time import cpu_profile
from labkit.errors import CapabilityMissingError, WorkloadError
from labkit.experiment.trial import undisturbed
from labkit.factors import PEER_NAMES, Settings
from labkit.records import Sample, Workload
from labkit.rigs.agent_rig import AgentRig
from labkit.rigs.base import Rig

LONGEST_S = 60.0
"""Longest run that is sampled: more samples tell nothing more."""
PLAIN_S = 0.5
"""Length of the run without perf that tells what perf costs."""


def profile(
    rig: Rig,
    workload: Workload,
    *,
    settings: Settings | None = None,
    duration_s: float = 1.0,
    count: int | None = None,
    warmup_s: float = 0.1,
    check: bool = True,
    on_sample: Callable[[Sample], None] | None = None,
) -> Profiled:
    """One trial of `workload` on `rig`, with its time a packet by the functions that the CPUs were in.

    The parameters are those of `labkit.run_trial`. perf samples the senders' CPUs, which slows them down: a
    run without it comes before, and the profile says by how much. Take speeds from trials without one.

    Raises
    ------
    CapabilityMissingError
        A simulated rig, which has no CPU to sample; an engine that is another program, whose work would be
        told as other programs'; or, before anything is sent, no perf here, or the kernel shows neither CPUs
        nor symbols.
    WorkloadError, SettingRefusedError, AgentLostError, LabError
        As `labkit.run_trial` raises them; LabError for perf's own failures, too.
    """
    if not isinstance(rig, AgentRig):
        raise CapabilityMissingError(
            f"rig '{rig.info.name}' has no CPU to sample; labkit.explain(trial) tells where a simulated "
            "packet's time goes"
        )
    if workload.engine in PEER_NAMES:
        raise CapabilityMissingError(
            f"profile: engine '{workload.engine}' is another program, and only work of labkit's own is told "
            "from other programs'; take an engine of labkit's own"
        )
    if duration_s > LONGEST_S:
        raise WorkloadError(f"duration_s {duration_s:g}: a profile is taken of {LONGEST_S:g} s at the most")
    with rig.applied(settings or {}):
        if check:
            rig.check(workload)
        if warmup_s:
            rig.run_sampled(workload, duration_s=warmup_s, count=count, check=False)
        plain = rig.run(workload, duration_s=min(duration_s, PLAIN_S), count=count, check=False)
        trial, seen = undisturbed(
            lambda: rig.run_sampled(
                workload, duration_s=duration_s, count=count, on_sample=on_sample, check=False
            ),
            lambda told: told[0],
        )
    return Profiled(trial, cpu_profile(trial, seen, plain=plain, xmit_mode=workload.xmit_mode))
