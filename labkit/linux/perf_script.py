"""What `perf script` says of samples, as counted call chains. Pure: text in, records out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from labkit.errors import LabError
from labkit.units import NS_PER_S

FIELDS: Final = "pid,tid,cpu,time,event,period,ip,sym,dso"
"""Fields of `perf script` that `counted` reads."""
Task: TypeAlias = Literal["own", "idle", "foreign"]

_SAMPLE: Final = re.compile(
    r"\s*(-?\d+)/-?\d+\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\d+)\s+([\w-]+)[:\w]*:\s*(.*)"
)
_FRAME: Final = re.compile(r"\s*([0-9a-f]+)\s+(.*?)\s\((\S.*)\)\s*")
_LOST: Final = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\b.*\blost\s+(\d+)")
KERNEL_HALF: Final = 1 << 63
"""Addresses from here up are the kernel's (Documentation/arch/x86/x86_64/mm.rst, arm64/memory.rst)."""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """One call chain, and how often it was met.

    Attributes
    ----------
    task : str
        Whose time it is: the sending process's ``own``, ``idle``, or a ``foreign`` task's.
    kernel : tuple of str
        The kernel's functions, the innermost first.
    user : str or None
        The innermost function in user space below them; None where the chain shows none.
    samples : int
        How many there are.
    period : int
        Sum of their periods, in the event's unit.
    """

    task: Task
    kernel: tuple[str, ...]
    user: str | None
    samples: int
    period: int


class CpuSamples(msgspec.Struct, frozen=True, kw_only=True):
    """What some CPUs did from `start_ns` to `end_ns`.

    Attributes
    ----------
    event : str
        What was counted; a period of ``cpu-clock`` is nanoseconds.
    rate_hz : int
        Samples a second that were asked for.
    cpus : tuple of int
        Where.
    start_ns, end_ns : int
        CLOCK_MONOTONIC.
    stacks : tuple of Stack
        Every chain once.
    lost : int
        Samples that the kernel says it had no room for, from the sampling's start to its end.
    unsampled_ns : int
        Time of all these CPUs in which samples were due and none came.
    longest_gap_ns : int
        The longest time between two samples of one CPU.
    """

    event: str
    rate_hz: int
    cpus: tuple[int, ...]
    start_ns: int
    end_ns: int
    stacks: tuple[Stack, ...]
    lost: int
    unsampled_ns: int
    longest_gap_ns: int


class _Sample(msgspec.Struct, frozen=True):
    pid: int
    cpu: int
    at_ns: int
    event: str
    period: int
    kernel: tuple[str, ...]
    user: str | None


def counted(
    text: str,
    *,
    event: str,
    rate_hz: int,
    cpus: Sequence[int],
    start_ns: int,
    end_ns: int,
    own_pids: Collection[int],
) -> CpuSamples:
    """Count the samples of `cpus` from `start_ns` to `end_ns`; `own_pids` are the sending processes.

    Raises
    ------
    LabError
        A line that this reader does not know.
    """
    found: dict[tuple[Task, tuple[str, ...], str | None], list[int]] = {}
    times: dict[int, list[int]] = {cpu: [] for cpu in cpus}
    for sample in _samples(text.splitlines()):
        if sample.event != event or sample.cpu not in times or not start_ns <= sample.at_ns <= end_ns:
            continue
        times[sample.cpu].append(sample.at_ns)
        task: Task = "own" if sample.pid in own_pids else "foreign" if sample.pid else "idle"
        sums = found.setdefault((task, sample.kernel, sample.user), [0, 0])
        sums[0] += 1
        sums[1] += sample.period
    gaps = [gap for each in times.values() for gap in _gaps(start_ns, each, end_ns)]
    due_ns = NS_PER_S // rate_hz
    return CpuSamples(
        event=event,
        rate_hz=rate_hz,
        cpus=tuple(cpus),
        start_ns=start_ns,
        end_ns=end_ns,
        stacks=tuple(
            Stack(task=task, kernel=kernel, user=user, samples=samples, period=period)
            for (task, kernel, user), (samples, period) in found.items()
        ),
        lost=sum(int(each) for each in _LOST.findall(text)),
        unsampled_ns=sum(gap - due_ns for gap in gaps if gap > 3 * due_ns // 2),
        longest_gap_ns=max(gaps, default=0),
    )


def _gaps(start_ns: int, times: list[int], end_ns: int) -> Iterator[int]:
    """Time from each sample to the next, from the start and to the end."""
    last = start_ns
    for at_ns in [*sorted(times), end_ns]:
        yield at_ns - last
        last = at_ns


def _samples(lines: Iterable[str]) -> Iterator[_Sample]:
    head: re.Match[str] | None = None
    chain: list[str] = []
    for line in lines:
        if _LOST.search(line):
            continue
        if line.strip() and head is not None and _FRAME.fullmatch(line):
            chain.append(line)
            continue
        if head is not None:
            yield _sample(head, chain)
        head, chain = _SAMPLE.fullmatch(line), []
        if head is None and line.strip():
            raise LabError(
                f"perf script: a line that labkit does not read: {line.strip()!r}; "
                "please report it with the output of `perf version`"
            )
        if head is not None and head[7]:
            chain.append(head[7])  # a sample without a chain has its place on the same line
    if head is not None:
        yield _sample(head, chain)


def _sample(head: re.Match[str], chain: list[str]) -> _Sample:
    pid, cpu, seconds, nanoseconds, period, event, _ = head.groups()
    kernel: list[str] = []
    user = None
    for address, symbol, place in (each.groups() for each in map(_FRAME.fullmatch, chain) if each):
        if int(address, 16) < KERNEL_HALF:
            # behind the first frame in user space frame pointers lead anywhere
            user = symbol if symbol != "[unknown]" else place.rpartition("/")[2]
            break
        kernel.append(symbol)
    at_ns = int(seconds) * NS_PER_S + int(nanoseconds)
    return _Sample(int(pid), int(cpu), at_ns, event, int(period), tuple(kernel), user)
