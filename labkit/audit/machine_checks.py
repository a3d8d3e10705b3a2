"""Checks of what else runs: other load, other readers of packets, the hypervisor, the clock."""

from __future__ import annotations

from typing import Any, Final

from labkit.audit.check import Check, Verdict
from labkit.audit.cpu_checks import look_if
from labkit.linux import environment

STOLEN_LOOK, STOLEN_BAD = 0.001, 0.02
"""Shares of stolen time since boot; the upper one is that which marks a trial of the veth rig."""
GOOD_CLOCKS: Final = frozenset({"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"})
"""Read without leaving user space (arch/x86/include/asm/vdso/clocksource.h; arm64: the generic timer)."""
SLOW_CLOCKS: Final = frozenset({"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"})
"""Read over a bus, or too coarse."""


def judge_conntrack(tracked: int | None) -> Verdict:
    """Judge the number of tracked connections; None is no conntrack at all."""
    return "bad" if tracked else "ok"


def judge_taps(taps: int) -> Verdict:
    """Judge the number of packet taps."""
    return "bad" if taps else "ok"


def judge_load(found: tuple[float, int, int]) -> Verdict:
    """Judge (load average, runnable threads, CPUs); the average holds the lab's own sender: only told."""
    _, runnable, cpus = found
    return "bad" if runnable >= cpus else look_if(runnable)


def judge_stolen(share: float) -> Verdict:
    """Judge the share of stolen time."""
    if share > STOLEN_BAD:
        return "bad"
    return look_if(share > STOLEN_LOOK)


def judge_clock(name: str) -> Verdict:
    """Judge the clock source by its name."""
    if name in SLOW_CLOCKS:
        return "bad"
    return look_if(name not in GOOD_CLOCKS)


def _show_load(found: tuple[float, int, int]) -> str:
    average, runnable, cpus = found
    return f"{runnable} more threads run on {cpus} CPUs, load average {average:g}"


def _load(place: Any) -> tuple[float, int, int]:
    return (*environment.load(place.root), len(environment.online_cpus(place.root)))


MACHINE_CHECKS: Final = (
    Check(
        name="irqbalance",
        read=lambda place: "irqbalance" in environment.running_programs(place.root),
        judge=look_if,
        costly=True,
        why="irqbalance moves interrupts between CPUs during a run, onto the sender's CPU too.",
        advice="systemctl stop irqbalance, then set each interrupt's affinity",
    ),
    Check(
        name="netfilter",
        read=lambda place: environment.netfilter_tables(place.root),
        judge=look_if,
        show=", ".join,
        why="Each rule table costs every packet that goes through the IP stack; raw senders meet them at the "
        "receiver.",
        advice="unload the tables on a lab machine, or measure in a network namespace of its own",
    ),
    Check(
        name="conntrack",
        read=lambda place: environment.tracked_connections(place.root),
        judge=judge_conntrack,
        show=lambda tracked: "not loaded" if tracked is None else tracked,
        why="Tracking looks up or makes a table entry for each packet that reaches the IP stack.",
        advice="take out rules that use state or NAT, or measure in a network namespace of its own",
    ),
    Check(
        name="packet_taps",
        read=lambda place: environment.packet_taps(place.root, place.device),
        judge=judge_taps,
        why="A tap such as tcpdump or a DHCP client gets a clone of every frame, made on the sender's CPU.",
        advice="stop the program; ss -0 -p names it",
    ),
    Check(
        name="other_load",
        read=_load,
        judge=judge_load,
        show=_show_load,
        why="A sender that shares its CPU waits for its turn, and others fill caches and memory bandwidth.",
        advice="stop other work, or give the sender an isolated CPU",
    ),
    Check(
        name="steal",
        read=lambda place: environment.stolen_share(place.root),
        judge=judge_stolen,
        show=lambda share: f"{share:.2%} since boot",
        why="Time that the hypervisor gave to others is missing from the run but not from its clock.",
        advice="measure on a machine, or a virtual one with CPUs of its own",
    ),
    Check(
        name="clock_source",
        read=lambda place: environment.clock_source(place.root),
        judge=judge_clock,
        why="Every batch reads the clock; a slow one costs a system call or a read over a bus.",
        advice="boot with clocksource=tsc tsc=reliable where the machine's TSC is steady",
    ),
    Check(
        name="virtualisation",
        read=lambda place: environment.virtual_machine(place.root),
        judge=look_if,
        why="Under a hypervisor interrupts, timers and page tables cost exits whose price others set.",
        advice="compare only runs of the same machine, or measure without a hypervisor",
    ),
)
