"""What single operations of this machine cost: raw nanoseconds, taken in a process of their own.

``python -I -m labkit.engines.overhead`` measures; `measure_apart` starts it and reads what it found.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import msgspec

from labkit import _native
from labkit.errors import LabError
from labkit.units import NS_PER_S

LOOP: Final = "loop"
SHARED_LINE: Final = "shared_line"
BLOCK_NS: Final = 50_000
"""Aimed-at length of a block: a thousand times what the two clock reads around it cost, and short beside the
time between two ticks."""
BLOCKS: Final = 5
"""Blocks an operation and round, of which the quickest counts: what disturbs a block only ever adds to it."""
MOST_OPERATIONS: Final = 1 << 20
ANSWER_WITHIN_NS: Final = NS_PER_S // 10
"""Longest block of a line that two CPUs share; the other CPU may be somebody else's for a while."""
LIMIT_S: Final = 120


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured where.

    Attributes
    ----------
    cpu : int
        CPU that works.
    other_cpu : int or None
        CPU that shares a cache line with it; None leaves that out.
    rounds : int
        Values of each operation; a round measures all of them once, so that drift meets all alike.
    """

    cpu: int
    other_cpu: int | None
    rounds: int


class RawCost(msgspec.Struct, frozen=True, kw_only=True):
    """One operation's values.

    Attributes
    ----------
    name, how, source : str
        Which operation, what it is, and what its code is made of here.
    rounds_ns : list of float
        Nanoseconds an operation, a value a round; an eighth of an empty loop's turn is subtracted, which
        is too much by as much at most, where the CPU does both at once. Fewer values where the other CPU
        fell silent, none where there is no other.
    """

    name: str
    how: str
    source: str
    rounds_ns: list[float]


class RawCosts(msgspec.Struct, frozen=True, kw_only=True):
    """All operations' values, and how often the thread lost its CPU against its will meanwhile."""

    costs: list[RawCost]
    involuntary_switches: int


class Meter:
    """Times blocks of operations on one CPU.

    Attributes
    ----------
    involuntary_switches : int
        How often the thread lost its CPU against its will in all blocks so far.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._counts: dict[str, int] = {}
        self.involuntary_switches = 0

    def quickest_ns(self, name: str) -> float | None:
        """Nanoseconds an operation in the quickest of `BLOCKS` blocks, the loop included.

        None where the other CPU did not answer in time.
        """
        if name not in self._counts:
            self._counts[name] = self._fitting_count(name)
        found = [self.block_ns(name, self._counts[name]) for _ in range(BLOCKS)]
        whole = [ns for ns in found if ns is not None]
        return min(whole, default=None)

    def block_ns(self, name: str, count: int) -> float | None:
        """Nanoseconds an operation in one block of `count`, the loop included; None as in `quickest_ns`."""
        block = self._block(name, count)
        self.involuntary_switches += block.involuntary_switches
        return block.elapsed_ns / count if block.done == count else None

    def _block(self, name: str, count: int) -> _native.MicrocostBlock:
        cpu, other_cpu = self._asked.cpu, self._asked.other_cpu
        if other_cpu is not None and name == SHARED_LINE:
            return _native.shared_line_block(count, cpu, other_cpu, ANSWER_WITHIN_NS)
        return _native.microcost_block(name, count, cpu)

    def _fitting_count(self, name: str) -> int:
        """Operations that take about `BLOCK_NS`."""
        count = _native.OPERATIONS_PER_TURN
        while count < MOST_OPERATIONS and self._block(name, count).elapsed_ns < BLOCK_NS:
            count *= 2
        return count


def measure(asked: Asked) -> RawCosts:
    """Every operation in every round, in this process."""
    meter, loop_ns = Meter(asked), 0.0
    operations = [*_native.microcosts(), _native.shared_line()]
    found: dict[str, list[float]] = {each.name: [] for each in operations}
    silent = {SHARED_LINE} if asked.other_cpu is None else set()
    for _ in range(asked.rounds):
        for name, values in found.items():
            taken_ns = None if name in silent else meter.quickest_ns(name)
            if taken_ns is None:
                silent.add(name)
                continue
            if name == LOOP:
                loop_ns = taken_ns
            elif name != SHARED_LINE:  # there the waiting is what is measured
                taken_ns -= loop_ns / _native.OPERATIONS_PER_TURN
            values.append(taken_ns)
    return RawCosts(
        costs=[
            RawCost(name=each.name, how=each.how, source=each.source, rounds_ns=found[each.name])
            for each in operations
        ],
        involuntary_switches=meter.involuntary_switches,
    )


def measure_apart(asked: Asked) -> RawCosts:
    """The same in a process of its own, which ends with it.

    Raises
    ------
    LabError
        It took too long, or ended with another word than its values.
    """
    command = [sys.executable, "-I", "-m", "labkit.engines.overhead", msgspec.json.encode(asked).decode()]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends that one
            cwd="/",
        )
    except subprocess.TimeoutExpired as late:
        raise LabError(
            f"microcosts: CPU {asked.cpu} gave no values within {LIMIT_S} s; somebody else holds it: "
            "take another one"
        ) from late
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise LabError(f"microcosts: the measuring process ended with {done.returncode}: {words}")
    try:
        return msgspec.json.decode(done.stdout, type=RawCosts)
    except msgspec.MsgspecError as odd:
        raise LabError(f"microcosts: the measuring process told no values ({odd}); run `make setup`") from odd


if __name__ == "__main__":
    asked_here = msgspec.json.decode(sys.argv[1], type=Asked)
    sys.stdout.buffer.write(msgspec.json.encode(measure(asked_here)))
