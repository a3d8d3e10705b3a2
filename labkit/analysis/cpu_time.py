"""Divides a packet's time among what the sending CPUs were seen to do. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from labkit.analysis.cpu_profile import BY_TIMER, IN_STEP, TOLERANCE, Cost, CpuProfile
from labkit.analysis.kernel_groups import (
    ENTRIES,
    FOREIGN,
    IDLE,
    INTERRUPT,
    INTERRUPTS,
    SOFTIRQ,
    USER,
    function,
    kernel_group,
)
from labkit.errors import LabError
from labkit.linux.perf_script import CpuSamples, Stack
from labkit.records import Trial

TIMER: Final = "cpu-clock"
Z_95: Final = 1.959964
"""Of the normal distribution, for 95 %."""
CALLERS: Final = 3
ENOUGH: Final = 100
"""Samples among which a function is not missed that has a twentieth of the time (in 0.6 % of runs it is)."""
UNTOLD: Final = "{} samples are too few to tell whether frames came to ip_rcv; take a longer run"
NO_FUNCTION: Final = "[unknown]"


def cpu_profile(
    trial: Trial, seen: CpuSamples, *, plain: Trial | None = None, xmit_mode: str | None = None
) -> CpuProfile:
    """Divide `trial`'s time among what its CPUs were `seen` to do.

    Parameters
    ----------
    trial : Trial
        What was sampled.
    seen : CpuSamples
        Of the senders' CPUs.
    plain : Trial or None
        The same without perf.
    xmit_mode : str or None
        pktgen's, for `profile_validity`.

    Raises
    ------
    LabError
        No packet was sent, or no sample taken: there is nothing to divide, or nothing to divide it by.
    """
    packets, total = trial.device_sent, sum(stack.period for stack in seen.stacks)
    if not packets:
        raise LabError("profile: the device counted no packet, so that no time belongs to one")
    if not total:
        raise LabError("profile: no sample was taken in the run; take a longer one (duration_s, --duration)")
    busy_ns = (seen.end_ns - seen.start_ns) * len(seen.cpus)
    whole = busy_ns / packets
    # periods of the timer are nanoseconds; cycles are divided as shares of the time
    sum_ns = total / packets if seen.event == TIMER else whole
    agrees, why_not = _agreement(seen, sum_ns, whole, packets)
    functions = _costs(seen.stacks, total, sum_ns, lambda stack: (_group(stack), _name(stack)))
    samples = sum(stack.samples for stack in seen.stacks)
    invalid, too_few = profile_validity(_met(seen.stacks), xmit_mode), samples < ENOUGH
    return CpuProfile(
        event=seen.event,
        rate_hz=seen.rate_hz,
        cpus=seen.cpus,
        samples=samples,
        lost=seen.lost,
        ns_per_packet=whole,
        sum_ns=sum_ns,
        unsampled_ns=seen.unsampled_ns / packets,
        longest_gap_ns=seen.longest_gap_ns,
        sum_agrees=agrees,
        why_not=why_not,
        slowed_by=_slowed_by(trial, plain),
        notes=(*_notes(trial, seen), *((UNTOLD.format(samples),) if invalid and too_few else ())),
        invalid=None if too_few else invalid,
        groups=_costs(seen.stacks, total, sum_ns, lambda stack: (_group(stack), _group(stack))),
        functions=functions,
    )


def profile_validity(functions: Iterable[str], xmit_mode: str | None) -> str | None:
    """Why a run of pktgen did not do what its `xmit_mode` says; None where nothing speaks against it.

    `functions` are those that were met, at work or as callers. Frames that pktgen injects must come to
    ip_rcv, which itself drops those for another MAC address (ip_rcv_core, net/ipv4/ip_input.c, Linux 6.1); in
    kernel 4.1 those of a device that nobody had listened on did not come there (A. Starovoitov, "pktgen: fix
    packet generation", netdev, May 2015).
    """
    if xmit_mode == "netif_receive" and "ip_rcv" not in functions:
        return (
            "no ip_rcv among the functions: injected frames never came to the IP stack, so this run measures "
            "something else; look at the frames' addresses and at the device's state"
        )
    return None


def _notes(trial: Trial, seen: CpuSamples) -> tuple[str, ...]:
    by_timer = (BY_TIMER,) if seen.event == TIMER else ()
    return (*by_timer, IN_STEP) if trial.environment.get("emulated") else by_timer


def _slowed_by(trial: Trial, plain: Trial | None) -> float | None:
    costs = [
        each.cpu_ns / each.device_sent if each.cpu_ns and each.device_sent else None
        for each in (trial, plain)
        if each is not None
    ]
    match costs:
        case [float(sampled), float(without)]:
            return sampled / without - 1
    return None


def _agreement(seen: CpuSamples, sum_ns: float, whole: float, packets: int) -> tuple[bool | None, str | None]:
    if seen.event != TIMER:
        return (
            None,
            f"{seen.event} are no time: functions have their shares of {whole:.1f} ns, idle CPUs none",
        )
    if abs(sum_ns - whole) <= TOLERANCE * whole:
        return True, None
    reasons = [f"{seen.lost} samples were lost"] if seen.lost else []
    if seen.unsampled_ns / packets > TOLERANCE * whole / 2:
        reasons.append(
            f"in {seen.unsampled_ns / packets / whole:.1%} of the time none came, for "
            f"{seen.longest_gap_ns / 1e6:.1f} ms at most: interrupts were off, or the hypervisor had the CPU"
        )
    told = " and ".join(reasons) or "nothing here tells why"
    return False, f"THE SUM IS WRONG: samples make {sum_ns:.1f} ns of {whole:.1f} ns a packet; {told}"


def _group(stack: Stack) -> str:
    """Group of a chain: by its innermost function, unless it is idle, another program's, or an interrupt's.

    A softirq behind an interrupt works on anybody's packets, one within a program's own call on that one's.
    """
    names = [function(symbol) for symbol in stack.kernel]
    inside = next((name for name in names if name in SOFTIRQ or name.startswith(INTERRUPT)), None)
    if inside is None and stack.task == "idle":
        return IDLE
    if stack.task == "foreign" and not any(name.startswith(INTERRUPT) for name in names):
        entered = any(name.startswith(ENTRIES) for name in names)
        if entered or not names or stack.user is not None:
            return FOREIGN
    if inside is not None and inside not in SOFTIRQ:
        return INTERRUPTS
    return kernel_group(names[0]) if names else USER


def _name(stack: Stack) -> str:
    return function(stack.kernel[0]) if stack.kernel else stack.user or NO_FUNCTION


def _met(stacks: Iterable[Stack]) -> set[str]:
    """Functions of all chains: one that only calls others is rarely met itself."""
    return {function(symbol) for stack in stacks for symbol in stack.kernel}


def _caller(stack: Stack) -> str:
    if len(stack.kernel) > 1:
        return function(stack.kernel[1])
    return stack.user or NO_FUNCTION if stack.kernel else NO_FUNCTION


def _costs(
    stacks: Iterable[Stack], total: int, sum_ns: float, key: Callable[[Stack], tuple[str, str]]
) -> tuple[Cost, ...]:
    found: dict[tuple[str, str], list[Stack]] = {}
    for stack in stacks:
        found.setdefault(key(stack), []).append(stack)
    every = sum(stack.samples for each in found.values() for stack in each)
    costs = [_cost(group, name, each, total, sum_ns, every) for (group, name), each in found.items()]
    return tuple(sorted(costs, key=lambda cost: (-cost.ns_per_packet, cost.name)))


def _cost(group: str, name: str, stacks: list[Stack], total: int, sum_ns: float, every: int) -> Cost:
    period, samples = sum(stack.period for stack in stacks), sum(stack.samples for stack in stacks)
    low, high = interval(samples, every)
    callers: Counter[str] = Counter()
    for stack in stacks if name != group else ():
        callers[_caller(stack)] += stack.period
    return Cost(
        name=name,
        group=group,
        ns_per_packet=sum_ns * period / total,
        share=period / total,
        low=low * sum_ns,
        high=high * sum_ns,
        samples=samples,
        callers={caller: part / period for caller, part in callers.most_common(CALLERS)},
    )


def interval(found: int, every: int) -> tuple[float, float]:
    """95 % interval of the share that `found` of `every` samples show.

    E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209: unlike the usual one it stays within 0 and 1.
    """
    share, spread = found / every, Z_95**2 / every
    middle = (share + spread / 2) / (1 + spread)
    half = Z_95 / (1 + spread) * math.sqrt(share * (1 - share) / every + spread / (4 * every))
    return max(0.0, middle - half), min(1.0, middle + half)
