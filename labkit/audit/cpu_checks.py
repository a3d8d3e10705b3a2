"""Checks of the CPUs: how fast they run, how deep they sleep, with whom they share."""

from __future__ import annotations

from typing import Final

from labkit.audit.check import Check, Verdict
from labkit.linux import environment
from labkit.linux.environment import SleepState

SELF_SCALING_DRIVERS: Final = frozenset({"intel_pstate", "amd-pstate-epp"})
"""Their ``powersave`` scales with the load; everywhere else it is the lowest frequency
(Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst)."""
AWAKE_EXIT_USECS: Final = 2
"""Exit latency of C1 in the tables of drivers/idle/intel_idle.c; what is deeper takes longer."""


def judge_governors(found: frozenset[tuple[str, str]]) -> Verdict:
    """Judge (governor, driver) pairs: only ``performance`` holds one speed."""
    if all(governor == "performance" for governor, _ in found):
        return "ok"
    slow = any(governor == "powersave" and driver not in SELF_SCALING_DRIVERS for governor, driver in found)
    return "bad" if slow else "look"


def judge_sleep(state: SleepState) -> Verdict:
    """Judge the deepest idle state by the time to leave it."""
    return "ok" if state.exit_usecs <= AWAKE_EXIT_USECS else "look"


def look_if(found: object) -> Verdict:
    """Judge what is better off or empty."""
    return "look" if found else "ok"


def look_unless(found: object) -> Verdict:
    """Judge what is better on or filled."""
    return "ok" if found else "look"


CPU_CHECKS: Final = (
    Check(
        name="governor",
        read=lambda place: environment.governors(place.root, place.cpus()),
        judge=judge_governors,
        show=lambda found: ", ".join(sorted(f"{governor} ({driver})" for governor, driver in found)),
        why="A governor that follows the load changes the clock during a run; a packet costs cycles.",
        advice="cpupower frequency-set -g performance",
    ),
    Check(
        name="turbo",
        read=lambda place: environment.turbo(place.root),
        judge=look_if,
        why="Turbo speed depends on heat and on how many cores are busy, so equal runs get unequal clocks.",
        advice="echo 1 into intel_pstate/no_turbo, or 0 into cpufreq/boost, both below devices/system/cpu",
    ),
    Check(
        name="c_states",
        read=lambda place: environment.deepest_sleep(place.root, place.cpus()),
        judge=judge_sleep,
        show=lambda state: f"{state.name}, {state.exit_usecs} us to leave it ({state.driver})",
        why="A CPU that fell asleep between packets answers only after the idle state's exit latency.",
        advice="hold cpu_dma_latency at 0 while measuring, or cpupower idle-set -D 3",
    ),
    Check(
        name="smt",
        read=lambda place: environment.smt_active(place.root),
        judge=look_if,
        why="A sibling thread shares the core's execution units and caches; with it at work a packet takes "
        "longer.",
        advice="echo off into smt/control below devices/system/cpu, or keep the sibling idle",
    ),
    Check(
        name="isolated_cpus",
        read=lambda place: environment.isolated_cpus(place.root),
        judge=look_unless,
        why="On a CPU that is not isolated the scheduler may put other threads beside the sender.",
        advice="boot with isolcpus=LIST, or use a cpuset partition of type isolated",
    ),
    Check(
        name="nohz_full",
        read=lambda place: environment.tickless_cpus(place.root),
        judge=look_unless,
        why="The timer tick interrupts the sender at the kernel's HZ even when nothing else wants its CPU.",
        advice="boot with nohz_full=LIST, if the kernel was built with CONFIG_NO_HZ_FULL",
    ),
    Check(
        name="mitigations",
        read=lambda place: environment.mitigations(place.root),
        judge=look_if,
        show=", ".join,
        why="Work-arounds for CPU vulnerabilities make each system call and each indirect call dearer.",
        advice="compare only machines with the same list; mitigations=off at boot, on a lab machine alone",
    ),
)
