"""The `vm:` rig: every frame counted at the second card, a clock that stands still, words when it fails."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit as lk
from labkit.agent.client import AgentClient
from labkit.errors import AgentLostError, CapabilityMissingError, LabError, WorkloadError
from labkit.guest import launch
from labkit.guest.image import GuestImage
from labkit.guest.launch import GuestProcess
from labkit.linux.processes import members_of_group
from labkit.records import EMULATED
from labkit.rigs import vm
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

FRAMES = 3000


def process(rig: VmRig) -> GuestProcess:
    own = rig._client._process
    assert isinstance(own, GuestProcess)
    return own


def group(rig: VmRig) -> list[int]:
    """The keeper and QEMU."""
    return members_of_group(process(rig).pid)


@pytest.fixture
def fresh(guest_image: GuestImage, guest_cache: Path) -> Iterator[VmRig]:
    with VmRig("e1000e", cache=guest_cache) as rig:
        yield rig


@pytest.mark.parametrize("engine", ["send", "sendmmsg", "tx_ring", "af_xdp"])
def test_every_frame_arrives_at_the_second_card(e1000e: VmRig, engine: str) -> None:
    trial = e1000e.run(lk.Workload(lk.udp_flow(), engine=engine), count=FRAMES, duration_s=30)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (FRAMES, FRAMES, FRAMES)
    assert trial.reconciled
    assert trial.difference_reason is None


@pytest.mark.parametrize("sink", ["rx_ring", "socket", "xdp_drop"])
def test_sinks_receive_every_frame_at_the_second_card(e1000e: VmRig, sink: str) -> None:
    asked = lk.Workload(lk.udp_flow(), engine="sendmmsg", sink=sink)
    trial = e1000e.run(asked, count=FRAMES, duration_s=30)
    assert trial.peer_received == trial.device_sent == FRAMES
    assert trial.reconciled


def test_the_hosts_iperf3_streams_from_card_to_card(e1000e: VmRig) -> None:
    trial = e1000e.run(lk.Workload(lk.udp_flow(), engine="iperf3_tcp"), duration_s=0.3)
    assert trial.device_sent
    assert trial.environment["tcp"]["device_mbit"] > 0


def test_a_trial_says_that_its_times_are_the_emulators(e1000e: VmRig) -> None:
    trial = e1000e.run(lk.Workload(lk.udp_flow(), engine="sendmmsg"), count=FRAMES, duration_s=30)
    assert trial.place == f"vm:e1000e ({EMULATED})"
    assert EMULATED in repr(trial)
    assert trial.environment["clock"] == vm.COUNTED
    assert trial.environment["kernel"] != os.uname().release
    assert trial.environment["cpus_online"] == 1
    assert "audit" not in trial.environment
    assert trial.marks == []


def test_between_requests_the_guest_stands_still(e1000e: VmRig) -> None:
    monitor = process(e1000e)._monitor
    assert monitor.ask("query-status")["status"] == "paused"
    with process(e1000e).needed():
        assert monitor.ask("query-status")["status"] == "running"
    assert monitor.ask("query-status")["status"] == "paused"


def test_stop_ends_a_run_and_the_rig_works_on(e1000e: VmRig) -> None:
    trial = e1000e.run(
        lk.Workload(lk.udp_flow(), engine="sendmmsg"),
        duration_s=30,
        on_sample=lambda _: e1000e.stop(),
    )
    assert trial.environment["ended_by"] == "stop"
    assert trial.peer_received == trial.device_sent
    again = e1000e.run(lk.Workload(lk.udp_flow(), engine="sendmmsg"), count=FRAMES, duration_s=30)
    assert again.peer_received == FRAMES


def test_several_cpus_have_the_hosts_clock(guest_image: GuestImage, guest_cache: Path) -> None:
    with VmRig("e1000e", guest_cpus=2, cache=guest_cache) as rig:
        asked = lk.Workload(lk.udp_flow(), engine="sendmmsg", cpus=2)
        trial = rig.run(asked, count=FRAMES, duration_s=30)
    assert trial.environment["clock"] == vm.HOSTS
    assert trial.environment["audit"]["verdict"]
    assert len(trial.environment["workers"]) == 2
    assert trial.peer_received == trial.device_sent
    assert trial.place == f"vm:e1000e ({EMULATED})"


def test_a_killed_machine_ends_the_run_with_words_and_leaves_nothing(fresh: VmRig) -> None:
    pids = group(fresh)
    keeper = process(fresh).pid
    (qemu,) = set(pids) - {keeper}
    with pytest.raises(AgentLostError, match="agent ended while it was needed"):
        fresh.run(
            lk.Workload(lk.udp_flow(), engine="sendmmsg"),
            duration_s=30,
            on_sample=lambda _: os.kill(qemu, signal.SIGKILL),
        )
    assert members_of_group(keeper) == []


def test_a_killed_keeper_takes_the_machine_along(fresh: VmRig) -> None:
    pids = group(fresh)
    descriptors = [os.pidfd_open(pid) for pid in pids]
    os.kill(process(fresh).pid, signal.SIGKILL)
    with pytest.raises(AgentLostError):
        fresh.run(lk.Workload(lk.udp_flow(), engine="sendmmsg"), count=FRAMES, duration_s=30)
    assert all(ended(descriptor) for descriptor in descriptors)


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 10.0)[0])


def test_a_guest_that_hangs_is_ended_in_time(fresh: VmRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process(fresh), "_answer_within_s", 0.5)
    monkeypatch.setattr(process(fresh), "_slower", 1.0)
    (qemu,) = set(group(fresh)) - {process(fresh).pid}
    os.kill(qemu, signal.SIGSTOP)
    monkeypatch.setattr(process(fresh)._monitor, "ask", lambda _: {})
    with pytest.raises(AgentLostError, match="did not answer in time and was ended") as lost:
        fresh.preview({"tx_ring": 128})
    assert "hub 0 is not connected" in lost.value.stderr_tail
    assert group(fresh) == []


def test_a_machine_that_does_not_come_up_shows_its_console(
    guest_image: GuestImage, guest_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "AGENT", ("-c", "import sys; sys.exit('no agent today')"))
    with pytest.raises(AgentLostError) as lost:
        VmRig("e1000e", cache=guest_cache)
    assert "no agent today" in lost.value.stderr_tail
    assert "agent ended with status 1" in lost.value.stderr_tail
    assert "the guest did not come up (QEMU ended, exit status 0)" in str(lost.value)


def test_a_qemu_that_ends_at_once_is_not_told_as_a_slow_guest(
    guest_image: GuestImage, guest_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = launch.qemu_arguments
    monkeypatch.setattr(launch, "qemu_arguments", lambda *of, **how: [*real(*of, **how), "-no-such-option"])
    with pytest.raises(AgentLostError, match=r"did not come up \(QEMU ended, exit status 1\)") as lost:
        VmRig("e1000e", cache=guest_cache)
    assert "no-such-option" in lost.value.stderr_tail


def test_kvm_that_gives_no_machine_is_told_and_done_without(
    guest_image: GuestImage, guest_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vm.connect_to_guest
    asked: list[bool] = []

    def connect(machine: launch.Machine, **place: object) -> AgentClient:
        asked.append(machine.kvm)
        if machine.kvm:
            raise AgentLostError("no answer within 10 s", stderr_tail="kvm: it hung\n")
        return real(machine, **place)  # type: ignore[arg-type]

    monkeypatch.setattr(vm, "connect_to_guest", connect)
    with VmRig("e1000e", kvm=True, cache=guest_cache) as rig:
        assert asked == [True, False]
        assert any("KVM gave no machine (kvm: it hung)" in note for note in rig.notes)
        assert rig.made_with["kvm"] is False


def test_a_machine_is_used_by_one_thread_at_a_time_and_by_its_own_process(e1000e: VmRig) -> None:
    found: list[BaseException] = []

    def preview() -> None:
        try:
            e1000e.preview({"tx_ring": 128})
        except LabError as refused:
            found.append(refused)

    def start(_: object) -> None:
        thread = threading.Thread(target=preview)
        thread.start()
        thread.join()
        e1000e.stop()

    e1000e.run(lk.Workload(lk.udp_flow(), engine="sendmmsg"), duration_s=30, on_sample=start)
    assert found
    assert "busy" in str(found[0])
    child = os.fork()
    if not child:
        try:
            e1000e.preview({"tx_ring": 128})
        except LabError as refused:
            os._exit(42 if "forked process opens one of its own" in str(refused) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert e1000e.run(lk.Workload(lk.udp_flow(), engine="sendmmsg"), count=FRAMES).peer_received == FRAMES


def test_two_machines_at_once_do_not_meet(e1000e: VmRig, fresh: VmRig) -> None:
    asked = lk.Workload(lk.udp_flow(), engine="sendmmsg")
    with fresh.applied({"tx_ring": 64}), e1000e.applied({}) as other:
        assert other.accepted["tx_ring"] == 256
        for rig in (fresh, e1000e):
            assert rig.run(asked, count=FRAMES, duration_s=30).peer_received == FRAMES


def test_a_profile_of_settings_is_for_the_guests_cpus(e1000e: VmRig) -> None:
    asked = e1000e.profile("overload").settings
    assert asked["irq_affinity"] == "0"
    with e1000e.applied(asked) as now:
        assert now.accepted["irq_affinity"] == "0"


def test_more_senders_than_the_guest_has_cpus_are_refused_with_the_option_that_gives_them(
    e1000e: VmRig,
) -> None:
    with pytest.raises(WorkloadError, match=r"the guest has 1 of its own.*guest_cpus=2 \(--guest-cpus\)"):
        e1000e.run(lk.Workload(lk.udp_flow(), engine="pktgen", cpus=2), count=FRAMES)


def test_what_it_lacks_is_named_with_a_rig_that_has_it(e1000e: VmRig) -> None:
    with pytest.raises(CapabilityMissingError, match=r"no engine 'xdp_live'.*try rig 'veth'"):
        e1000e.run(lk.Workload(lk.udp_flow(), engine="xdp_live"))


@pytest.mark.parametrize(
    ("driver", "given", "words"),
    [
        ("e1000e", {"guest_cpus": 0}, "give 1 to 16"),
        ("e1000e", {"guest_cpus": 1.5}, "guest_cpus 1.5: give 1 to 16"),
        ("ixgbe", {}, "known: vm:e1000e, vm:virtio_net, vm:vmxnet3, vm:igb"),
    ],
)
def test_machines_that_make_no_sense_start_nothing(driver: str, given: dict[str, int], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        VmRig(driver, **given)  # type: ignore[arg-type]
