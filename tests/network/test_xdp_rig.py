"""Live frames on a veth rig, as root: refused where they go nowhere, else counted by device and peer."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from labkit.errors import CapabilityMissingError
from labkit.experiment.trial import run_trial
from labkit.linux.ethtool import Ethtool
from labkit.records import Workload
from labkit.rigs.device import DeviceRig
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import Flow, udp_flow
from tests.network.nic_host import RX, TX, add_veth, in_private_host

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("LABKIT_USERNS") == "1",
    reason="live frames need root outside of any user namespace",
)
pytestmark = [pytest.mark.network, pytest.mark.user, as_root]

WORKLOAD = Workload(flow=udp_flow(frame_bytes=60, flows=16), engine="xdp_live")


@pytest.fixture
def rig() -> Iterator[VethRig]:
    with VethRig() as made:
        yield made


@pytest.mark.parametrize("count", [0, 1, 1001])
def test_counts_of_device_and_peer_are_what_was_handed_over(rig: VethRig, count: int) -> None:
    with rig.applied({"gro": True}):
        trial = run_trial(rig, WORKLOAD, count=count, warmup_s=0)
    assert trial.engine_sent is None
    assert trial.environment["handed_over"] == trial.device_sent == trial.peer_received == count
    assert (trial.reconciled, trial.difference_reason) == (True, None)
    assert trial.environment["path"] == "qdisc bypass"
    assert ("nothing-sent" in trial.marks) is (count == 0)


def test_speed_is_that_of_the_device(rig: VethRig) -> None:
    with rig.applied({"gro": True}):
        trial = run_trial(rig, WORKLOAD, duration_s=0.2)
    assert trial.device_sent is not None
    assert trial.pps == pytest.approx(trial.device_sent * 1e9 / trial.elapsed_ns)
    assert trial.environment["handed_over"] == trial.device_sent + (trial.device_dropped or 0)
    assert trial.reconciled is True
    assert trial.samples
    assert {sample.engine_sent for sample in trial.samples} == {None}


@pytest.mark.parametrize("stamp", [False, True])
@pytest.mark.parametrize("tags", [1, 2])
def test_tagged_frames_arrive_as_they_are_though_the_peer_untags_their_pages(
    rig: VethRig, tags: int, stamp: bool
) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Dot1Q, Ether

    packet = Ether(dst="02:00:00:00:00:02")
    for vlan in range(tags):
        packet /= Dot1Q(vlan=vlan)
    flow = Flow(packet / IP(dst="10.0.0.2") / UDP(dport=9) / bytes(40))
    workload = msgspec.structs.replace(WORKLOAD, flow=flow, sink="rx_ring", stamp=stamp)
    with rig.applied({"gro": True}):
        # a call prepares 64 pages, which come back
        trial = rig.run(workload, count=300)
    sink = trial.environment["sink"]
    assert (trial.reconciled, sink["received"], sink["foreign"]) == (True, 300, 0)
    assert (sink["lost"], sink["corrupted"]) == ((0, 0) if stamp else (None, None))


def test_several_cpus_share_the_count(rig: VethRig) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    with rig.applied({"gro": True}):
        trial = run_trial(rig, msgspec.structs.replace(WORKLOAD, cpus=2), count=10_001, warmup_s=0)
    assert trial.environment["handed_over"] == 10_001
    workers = trial.environment["workers"]
    assert [(worker["sent"], worker["handed_over"]) for worker in workers] == [(None, 5001), (None, 5000)]
    assert all(worker["pps"] is None and worker["cpu_ns_per_packet"] > 0 for worker in workers)
    assert trial.device_sent is not None
    assert trial.device_sent + (trial.device_dropped or 0) == 10_001
    assert trial.reconciled is True


def test_peer_without_napi_is_refused_beforehand_and_caught_by_the_counters(rig: VethRig) -> None:
    with pytest.raises(CapabilityMissingError, match=r"the peer has no NAPI; turn on setting gro"):
        rig.check(WORKLOAD)
    trial = rig.run(WORKLOAD, count=1001, check=False)
    assert (trial.device_sent, trial.peer_received, trial.reconciled) == (0, 0, False)
    assert "nothing-sent" in trial.marks
    assert trial.difference_reason is not None
    assert trial.difference_reason.startswith("1001 handed over by the engine never counted at the device")
    assert "turn on setting gro, or take sink 'xdp_drop'" in trial.difference_reason
    with rig.applied({"gro": True}):
        rig.check(WORKLOAD)


def test_ifb_takes_none(rig: VethRig) -> None:
    with rig.applied({"gro": True}), pytest.raises(CapabilityMissingError, match="an ifb device takes no"):
        rig.check(msgspec.structs.replace(WORKLOAD, sink="ifb"))


def test_private_user_namespace_is_refused_with_what_to_take_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LABKIT_USERNS", "1")
    with VethRig() as rig, rig.applied({"gro": True}):
        for check in (True, False):
            with pytest.raises(CapabilityMissingError, match=r"run it as root, or take engine 'af_xdp'"):
                rig.run(WORKLOAD, count=1, check=check)


@in_private_host
def test_interface_of_the_machine_sends_them_and_its_port_counts(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig, contextlib.closing(Ethtool()) as ethtool:
        nothing = rig.run(WORKLOAD, count=1000)
        ethtool.set_features(socket.if_nametoindex(RX), {"gro": True})
        trial = rig.run(WORKLOAD, count=1000)
    assert (nothing.device_sent, nothing.reconciled) == (0, False)
    assert "nothing-sent" in nothing.marks
    assert trial.environment["handed_over"] == trial.device_sent == trial.peer_received == 1000
    assert trial.reconciled is True
