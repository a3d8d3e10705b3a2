"""What perf writes of samples becomes counted call chains, cut to the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.linux.perf_script import CpuSamples, Stack, counted

TEXT = (Path(__file__).parent / "inputs/perf_script_6.1_k6.18.txt").read_text()
"""Samples as perf 6.1 told them of kernel 6.18, a few of each kind put 200 040 ns apart."""
START_NS, DUE_NS = 717_686_300_000, 200_040
AT_NS = [717_686_370_862 + place * DUE_NS for place in range(8)]


def read(text: str = TEXT, **more: Any) -> CpuSamples:
    asked: dict[str, Any] = {
        "event": "cpu-clock",
        "rate_hz": 4999,
        "cpus": (1,),
        "start_ns": START_NS,
        "end_ns": AT_NS[6] + 100_000,
        "own_pids": {11179},
    }
    return counted(text, **(asked | more))


def chains(seen: CpuSamples) -> dict[str, Stack]:
    return {stack.kernel[0] if stack.kernel else str(stack.user): stack for stack in seen.stacks}


def test_each_sample_keeps_its_kernel_chain_its_task_and_one_place_in_user_space() -> None:
    found = chains(read())
    assert {name: stack.task for name, stack in found.items()} == {
        "veth_xmit": "own",
        "ip_rcv": "own",
        "python3.11": "own",
        "handle_softirqs": "foreign",
        "pv_native_safe_halt": "idle",
        "finish_task_switch.isra.0": "foreign",
        "__memcg_slab_free_hook": "foreign",
    }
    assert found["veth_xmit"].kernel[-1] == "entry_SYSCALL_64_after_hwframe"
    assert (found["veth_xmit"].user, found["ip_rcv"].user) == ("__sendmmsg", "__sendmmsg")
    assert found["handle_softirqs"].user == "memfd:sealed-91173221a7ea (deleted)"
    assert found["finish_task_switch.isra.0"].user is None
    assert {stack.period for stack in found.values()} == {DUE_NS}


def test_equal_chains_are_counted_together() -> None:
    (stack, *others) = read(TEXT.split("\n\n")[0] + "\n\n" + TEXT.split("\n\n")[0]).stacks
    assert others == []
    assert (stack.samples, stack.period) == (2, 2 * DUE_NS)


def test_samples_outside_the_run_or_of_another_cpu_are_left_out() -> None:
    assert sum(stack.samples for stack in read().stacks) == 7
    cut = read(start_ns=AT_NS[1], end_ns=AT_NS[2])
    assert set(chains(cut)) == {"ip_rcv", "python3.11"}
    assert set(chains(read(cpus=(0,), end_ns=AT_NS[7]))) == {"__vdso_clock_gettime"}
    assert read(event="cycles").stacks == ()


def test_lost_samples_are_counted_and_time_without_samples_is_told() -> None:
    whole = read()
    assert (whole.lost, whole.unsampled_ns, whole.longest_gap_ns) == (2, 0, DUE_NS)
    samples = TEXT.split("\n\n")
    torn = read("\n\n".join([*samples[:1], *samples[4:]]))
    assert torn.longest_gap_ns == 4 * DUE_NS
    assert torn.unsampled_ns == 4 * DUE_NS - 1_000_000_000 // 4999
    late = read(end_ns=AT_NS[6] + 50 * DUE_NS)
    assert late.longest_gap_ns == 50 * DUE_NS


def test_sample_without_a_chain_has_its_place_on_its_line() -> None:
    head = "    0/0     [001]   717.687171022:     200040 cpu-clock:"
    assert read(f"{head}  ffffffff821f2c2b pv_native_safe_halt ([k])\n").stacks[0].kernel == (
        "pv_native_safe_halt",
    )


@pytest.mark.parametrize("odd", ["Error: something new", "\tffffffff81dbb6f5 veth_xmit ([kernel.kallsyms])"])
def test_line_that_is_not_known_is_refused_and_shown(odd: str) -> None:
    with pytest.raises(LabError, match="does not read") as refused:
        read(f"{odd}\n{TEXT}")
    assert odd.strip() in str(refused.value)


def test_nothing_is_no_sample_and_one_long_gap() -> None:
    empty = read("")
    assert (empty.stacks, empty.lost) == ((), 0)
    assert empty.longest_gap_ns == AT_NS[6] + 100_000 - START_NS
