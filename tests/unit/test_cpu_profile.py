"""A packet's time by group and function: sums, intervals, and what makes a profile doubtful or invalid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.analysis import kernel_groups
from labkit.analysis.cpu_profile import BY_TIMER, IN_STEP, CpuProfile, Profiled
from labkit.analysis.cpu_time import cpu_profile, interval, profile_validity
from labkit.analysis.kernel_groups import GROUPS, function, kernel_group
from labkit.errors import CapabilityMissingError, LabError
from labkit.linux.perf_script import CpuSamples, Stack, counted
from labkit.plots.cpu_profile import profile_icicle
from tests.sweep_fakes import trial

TEXT = (Path(__file__).parent / "inputs/perf_script_6.1_k6.18.txt").read_text()
DUE_NS = 200_040


def seen(**more: Any) -> CpuSamples:
    """Seven samples of CPU 1, as long as their periods."""
    asked: dict[str, Any] = {"event": "cpu-clock", "rate_hz": 4999, "cpus": (1,), "own_pids": {11179}}
    found = counted(TEXT, start_ns=717_686_300_000, end_ns=717_686_300_000 + 7 * DUE_NS, **asked)
    return msgspec.structs.replace(found, **more)


def stack(*kernel: str, samples: int = 1, **more: Any) -> Stack:
    given: dict[str, Any] = {"task": "own", "user": None, "period": samples * DUE_NS}
    return Stack(kernel=kernel, samples=samples, **(given | more))


def profile(*stacks: Stack, packets: int = 1000, **more: Any) -> CpuProfile:
    """A profile of these stacks, in a run as long as their samples."""
    every = sum(each.samples for each in stacks)
    told = seen(**({"stacks": stacks, "end_ns": 717_686_300_000 + every * DUE_NS, "lost": 0} | more))
    return cpu_profile(trial(device_sent=packets), told)


def groups(found: CpuProfile) -> dict[str, int]:
    return {group.name: group.samples for group in found.groups}


def test_captured_samples_are_told_by_group_and_function() -> None:
    found = cpu_profile(trial(device_sent=1000), seen(lost=0))
    assert groups(found) == {
        "driver": 1,
        "IP and above": 1,
        "user space": 1,
        "receive path and softirq": 1,
        "idle": 1,
        "scheduler": 1,
        "other programs": 1,
    }
    assert found.ns_per_packet == pytest.approx(7 * DUE_NS / 1000)
    assert found.sum_ns == pytest.approx(sum(cost.ns_per_packet for cost in found.functions))
    assert found.sum_ns == pytest.approx(sum(cost.ns_per_packet for cost in found.groups))
    assert (found.sum_agrees, found.why_not, found.notes) == (True, None, (BY_TIMER,))


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("do_softirq.part.0", "receive path and softirq"),
        ("__netif_receive_skb_core.constprop.0", "receive path and softirq"),
        ("entry_SYSCALL_64_after_hwframe", "system call entry"),
        ("packet_sendmsg", "packet socket"),
        ("tpacket_rcv", "packet socket"),
        ("__alloc_skb", "skb allocation and free"),
        ("kmem_cache_alloc_node_noprof", "skb allocation and free"),
        ("sk_skb_reason_drop", "skb allocation and free"),
        ("skb_copy_datagram_from_iter", "memory copy"),
        ("__dev_queue_xmit", "transmit path and qdisc"),
        ("tbf_dequeue", "transmit path and qdisc"),
        ("veth_xmit", "driver"),
        ("ixgbe_xmit_frame_ring", "driver"),
        ("napi_gro_receive", "GRO"),
        ("napi_complete_done", "receive path and softirq"),
        ("memset_erms", "memory copy"),
        ("__kmem_cache_alloc_node", "skb allocation and free"),
        ("__list_del_entry_valid", "skb allocation and free"),
        ("cache_from_obj", "skb allocation and free"),
        ("kthread_should_stop", "pktgen"),
        ("make_kuid", "IP and above"),
        ("call_rcu", "locks and RCU"),
        ("__fq_codel_dequeue", "transmit path and qdisc"),
        ("e1000_xmit_frame", "driver"),
        ("ip_rcv_core", "IP and above"),
        ("bpf_prog_run_generic_xdp", "XDP and BPF"),
        ("xsk_generic_xmit", "AF_XDP socket"),
        ("_raw_spin_unlock_irqrestore", "locks and RCU"),
        ("pktgen_thread_worker", "pktgen"),
        ("srso_return_thunk", "CPU flaw mitigations"),
        ("a_function_that_nobody_named", "other"),
        ("[unknown]", "other"),
    ],
)
def test_kernel_functions_have_their_group_and_the_rest_is_other(name: str, group: str) -> None:
    assert kernel_group(name) == group


def test_no_name_or_prefix_belongs_to_two_groups() -> None:
    for words in ([*group.names] for group in GROUPS), ([*group.prefixes] for group in GROUPS):
        every = [word for each in words for word in each]
        assert len(every) == len(set(every))
    assert {kernel_groups.IDLE, kernel_groups.INTERRUPTS} <= {group.name for group in GROUPS}


def test_what_compilers_append_is_no_part_of_a_function() -> None:
    assert function("validate_xmit_skb.isra.0") == "validate_xmit_skb"
    assert function("dev_gro_receive.constprop.0.isra.0") == "dev_gro_receive"
    assert function("packet_snd.cold") == "packet_snd"
    parts = profile(stack("kfree.part.0"), stack("kfree"))
    assert [(cost.name, cost.samples) for cost in parts.functions] == [("kfree", 2)]


def test_interrupt_is_one_but_for_packets_that_its_softirq_works_on() -> None:
    timer = ("ktime_get", "hrtimer_interrupt", "asm_sysvec_apic_timer_interrupt", "packet_sendmsg")
    softirq = ("veth_xmit", "net_rx_action", "handle_softirqs", "asm_sysvec_apic_timer_interrupt", "do_idle")
    found = profile(stack(*timer), stack(*softirq, task="idle"), stack("do_idle", task="idle"))
    assert groups(found) == {"interrupts": 1, "driver": 1, "idle": 1}


def test_other_programs_are_told_apart_from_kernel_threads_that_work_on_packets() -> None:
    threads = stack("napi_poll", "kthread", "ret_from_fork", task="foreign")
    program = stack("kfree", "do_syscall_64", task="foreign")
    own_loop = stack(user="main", task="foreign")
    assert groups(profile(threads, program, own_loop)) == {"receive path and softirq": 1, "other programs": 2}
    own_packet = ("ip_rcv", "handle_softirqs", "__local_bh_enable_ip", "packet_sendmsg", "do_syscall_64")
    anybodys = ("ip_rcv", "handle_softirqs", "asm_sysvec_apic_timer_interrupt", "vfs_write", "do_syscall_64")
    packets = [stack(*kernel, task="foreign") for kernel in (own_packet, anybodys)]
    assert groups(profile(*packets)) == {"IP and above": 1, "other programs": 1}


def test_callers_are_told_with_their_parts() -> None:
    found = profile(stack("kfree", "a", samples=3), stack("kfree", "b"))
    assert found.functions[0].callers == {"a": 0.75, "b": 0.25}
    assert found.groups[0].callers == {}


def test_sum_that_is_off_by_more_than_two_percent_is_told_with_the_reason() -> None:
    start, end = 717_686_300_000, 717_686_300_000 + 100 * DUE_NS
    near = profile(stack("kfree", samples=99), start_ns=start, end_ns=end)
    assert (near.sum_agrees, near.why_not) == (True, None)
    lost = profile(stack("kfree", samples=90), end_ns=end, lost=10)
    assert lost.sum_agrees is False
    assert "THE SUM IS WRONG" in lost.text()
    assert "10 samples were lost" in str(lost.why_not)
    gone = profile(stack("kfree", samples=90), end_ns=end, unsampled_ns=10 * DUE_NS, longest_gap_ns=3_000_000)
    assert "in 10.0% of the time none came, for 3.0 ms at most" in str(gone.why_not)
    assert gone.sum_ns + gone.unsampled_ns == pytest.approx(gone.ns_per_packet)
    assert "nothing here tells why" in str(profile(stack("kfree", samples=90), end_ns=end).why_not)


def test_several_cpus_have_their_times_added_up() -> None:
    end = 717_686_300_000 + 10 * DUE_NS
    found = profile(stack("kfree", samples=20), cpus=(1, 0), end_ns=end)
    assert found.ns_per_packet == pytest.approx(20 * DUE_NS / 1000)
    assert found.sum_agrees is True
    assert "CPUs 1, 0" in found.text()


def test_price_of_sampling_is_told_where_it_is_known() -> None:
    sampled, plain = trial(device_sent=1000, cpu_ns=1_100_000), trial(device_sent=500, cpu_ns=500_000)
    found = cpu_profile(sampled, seen(), plain=plain)
    assert found.slowed_by == pytest.approx(0.1)
    assert "CPU time of a packet by +10.0%" in found.text()
    for unknown in (None, trial(device_sent=0, cpu_ns=5), trial(device_sent=5, cpu_ns=None)):
        assert cpu_profile(sampled, seen(), plain=unknown).slowed_by is None


def test_cycles_are_shares_of_the_time_and_no_timer_misplaced_them() -> None:
    found = profile(stack("kfree", samples=3, period=9000), stack("kmalloc", period=1000), event="cycles")
    assert [round(cost.share, 3) for cost in found.functions] == [0.9, 0.1]
    assert found.sum_ns == found.ns_per_packet
    assert found.sum_agrees is None
    assert "cycles are no time" in str(found.why_not)
    assert BY_TIMER not in found.text()


def test_interval_holds_the_share_and_narrows_with_the_count() -> None:
    # E. B. Wilson's formula, worked out by hand for 10 of 100
    assert interval(10, 100) == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert interval(0, 100)[0] == 0.0
    assert interval(100, 100)[1] == 1.0
    wide, narrow = interval(5, 50), interval(500, 5000)
    assert wide[0] < narrow[0] < 0.1 < narrow[1] < wide[1]


def test_nothing_sent_or_nothing_sampled_is_refused() -> None:
    with pytest.raises(LabError, match="no packet"):
        cpu_profile(trial(device_sent=0), seen())
    with pytest.raises(LabError, match="no sample"):
        cpu_profile(trial(device_sent=1), seen(stacks=()))


def test_injected_frames_that_never_came_to_ip_make_a_run_invalid() -> None:
    published = ("__netif_receive_skb_core", "kfree_skb", "ip_rcv", "pktgen_thread_worker")
    assert profile_validity(published, "netif_receive") is None
    told = profile_validity([name for name in published if name != "ip_rcv"], "netif_receive")
    assert "no ip_rcv" in str(told)
    assert profile_validity([], "start_xmit") is None
    assert profile_validity([], None) is None
    found = injected(samples=100)
    assert found.invalid == told
    assert "INVALID: no ip_rcv" in found.text()


def injected(samples: int) -> CpuProfile:
    """Of a run of netif_receive in which ip_rcv was not seen."""
    stacks = (stack("kfree", samples=samples),)
    return cpu_profile(trial(device_sent=9), seen(stacks=stacks), xmit_mode="netif_receive")


def test_few_samples_do_not_tell_whether_frames_came_to_ip() -> None:
    found = injected(samples=99)
    assert found.invalid is None
    assert "99 samples are too few to tell whether frames came to ip_rcv" in found.text()


def test_an_emulated_machines_profile_says_that_its_samples_may_be_in_step() -> None:
    emulated = trial(device_sent=9, environment={"emulated": True})
    assert cpu_profile(emulated, seen()).notes == (BY_TIMER, IN_STEP)
    assert IN_STEP in cpu_profile(emulated, seen()).text()
    assert IN_STEP not in cpu_profile(trial(device_sent=9), seen()).notes


def test_a_function_that_was_met_as_a_caller_only_was_there() -> None:
    chain = stack("ip_rcv_core.constprop.0", "ip_rcv.isra.0", "__netif_receive_skb_one_core")
    found = cpu_profile(trial(device_sent=9), seen(stacks=(chain,)), xmit_mode="netif_receive")
    assert [cost.name for cost in found.functions] == ["ip_rcv_core"]
    assert found.invalid is None


def test_a_kernel_threads_work_is_the_packets_and_what_a_program_asks_for_beside_it_is_not() -> None:
    sends = stack("pktgen_xmit", "pktgen_thread_worker", "kthread", "ret_from_fork", samples=3)
    looks = stack("pktgen_if_show", "seq_read_iter", "entry_SYSCALL_64_after_hwframe", task="foreign")
    assert groups(profile(sends, looks)) == {"pktgen": 3, "other programs": 1}


def test_idle_time_and_other_programs_are_no_work_and_have_no_functions_in_the_figure() -> None:
    idle, program = stack("do_idle", task="idle"), stack(user="main", task="foreign")
    found = profile(stack("veth_xmit", samples=2), idle, program)
    assert found.work_ns == pytest.approx(found.sum_ns / 2)
    assert f"{found.work_ns:.1f} ns are work" in found.text()
    labels = profile_icicle(found, whole=True).data[0]["labels"]
    assert labels[-2:] == ("idle", "other programs")
    assert not {"do_idle", "main"} & set(labels)
    of_work = profile_icicle(found)
    assert not {"idle", "other programs"} & set(of_work.data[0]["labels"])
    assert sum(of_work.data[0]["values"]) == pytest.approx(found.work_ns)
    assert "ns are work" in of_work.layout.annotations[0].text


def test_json_has_the_trial_and_the_profile() -> None:
    ran = trial(device_sent=1000)
    told = Profiled(ran, cpu_profile(ran, seen())).as_json()
    assert told["trial"]["device_sent"] == 1000
    assert {"event", "rate_hz", "cpus", "samples", "lost", "sum_ns", "sum_agrees"} <= told["profile"].keys()
    assert msgspec.json.decode(msgspec.json.encode(told))["profile"]["groups"][0]["samples"] == 1


def test_text_shows_functions_of_one_percent_and_every_group() -> None:
    text = profile(stack("kfree", samples=995), stack("ip_rcv", samples=5)).text()
    assert "kfree (skb" in text
    assert "ip_rcv (" not in text
    assert "IP and above" in text
    assert BY_TIMER in text


def test_icicle_adds_up_folds_what_is_small_and_says_how_it_was_sampled() -> None:
    small = [stack(f"veth_{name}", samples=5) for name in "abc"]
    found = profile(stack("veth_xmit", samples=985), stack("kfree", samples=985), *small)
    figure = profile_icicle(found)
    (boxes,) = figure.data
    assert sum(boxes["values"]) == pytest.approx(found.sum_ns)
    heights = dict(zip(boxes["labels"], boxes["text"], strict=True))
    assert heights["driver"] == f"{1000 * DUE_NS / 1000:,.0f} ns"
    assert "3 functions below 1%" in boxes["labels"]
    assert "veth_a 1" in " ".join(boxes["customdata"])
    (note,) = figure.layout.annotations
    assert BY_TIMER in note.text
    assert "4999 Hz" in note.text


def test_icicle_of_an_emulated_machine_says_so_and_has_room_for_all_its_remarks() -> None:
    ran = trial(device_sent=1000, environment={"emulated": True})
    figure = profile_icicle(Profiled(ran, cpu_profile(ran, seen())))
    assert "(emulated time)" in figure.layout.title.text
    (note,) = figure.layout.annotations
    lines = note.text.count("<br>") + 1
    assert figure.layout.margin.b >= 1.3 * note.font.size * lines


def test_simulated_rig_is_refused_and_what_explains_it_is_named() -> None:
    flow = lk.udp_flow(frame_bytes=60, flows=1)
    with (
        lk.rig("sim:ixgbe") as rig,
        pytest.raises(CapabilityMissingError, match=r"sim:ixgbe.*no CPU to sample.*labkit\.explain"),
    ):
        lk.profile(rig, lk.Workload(flow, engine="pktgen"))
