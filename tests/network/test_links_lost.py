"""The link goes while an engine sends on it; and what the mapped ring and super-packets count on a device."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.errors import LabError
from labkit.records import Sample, Workload
from labkit.rigs.device import DeviceRig
from labkit.traffic.flows import udp_flow
from tests.network.nic_host import (
    RX,
    TX,
    add_veth,
    in_private_host,
    index_of,
    interfaces,
    needs_root,
    set_link,
)

pytestmark = [pytest.mark.network, pytest.mark.user, needs_root]
FLOW = udp_flow(frame_bytes=60, flows=1)
LONGEST_S = 30.0
every_way = pytest.mark.parametrize(
    ("engine", "qdisc_bypass"),
    [
        *[(engine, False) for engine in ("send", "sendmmsg", "tx_ring", "gso")],
        *[(engine, True) for engine in ("send", "sendmmsg", "tx_ring")],
    ],
)


def once(act: Callable[[], object]) -> Callable[[Sample], None]:
    """Do it at the first sample of a run, and at no other."""
    left = [act]

    def at_sample(_: Sample) -> None:
        if left:
            left.pop()()

    return at_sample


def delete_link() -> None:
    with IPRoute() as ip:
        ip.link("del", index=index_of(ip, TX))


@every_way
@in_private_host
def test_interface_set_down_while_sending_ends_the_run_with_its_counts(
    tmp_path: Path, engine: str, qdisc_bypass: bool
) -> None:
    add_veth()
    workload = Workload(FLOW, engine=engine, qdisc_bypass=qdisc_bypass)
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        trial = rig.run(workload, duration_s=LONGEST_S, on_sample=once(lambda: set_link(TX, state="down")))
        assert trial.elapsed_ns is not None
        assert trial.elapsed_ns < LONGEST_S * 0.5e9
        assert (trial.environment["fatal_errno"], trial.environment["ended_by"]) == ("ENETDOWN", "error")
        assert "the engine ended early (ENETDOWN)" in str(trial.difference_reason)
        assert "no-carrier" in trial.marks
        assert trial.limiter == "carrier"
        assert trial.device_sent is not None
        assert trial.device_sent > 0
        assert trial.device_sent == trial.peer_received
        set_link(TX, state="up")
        again = rig.run(Workload(FLOW, engine="send"), count=10)
        assert (again.engine_sent, again.device_sent, again.peer_received) == (10, 10, 10)


@every_way
@in_private_host
def test_interface_deleted_while_sending_is_a_clear_error_in_time(
    tmp_path: Path, engine: str, qdisc_bypass: bool
) -> None:
    add_veth()
    workload = Workload(FLOW, engine=engine, qdisc_bypass=qdisc_bypass)
    started_s = time.monotonic()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        with pytest.raises(LabError, match="tx0: no such interface any more") as gone:
            rig.run(workload, duration_s=LONGEST_S, on_sample=once(delete_link))
        assert gone.value.errno == errno.ENODEV
        with pytest.raises(LabError, match="tx0: no such interface any more"):
            rig.run(workload, count=1)
    assert time.monotonic() - started_s < LONGEST_S / 2
    assert interfaces() == ["lo"]


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 3, 1001])
@in_private_host
def test_mapped_ring_of_a_device_sends_exactly_the_count(tmp_path: Path, count: int, cpus: int) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        trial = rig.run(Workload(FLOW, engine="tx_ring", ring_frames=256, cpus=cpus), count=count)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (count, count, count)
    assert trial.reconciled is True


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("whole", [False, True])
@in_private_host
def test_super_packets_of_a_device_are_counted_as_it_takes_them(
    tmp_path: Path, whole: bool, cpus: int
) -> None:
    add_veth()
    workload = Workload(FLOW, engine="gso", batch=50, cpus=cpus)
    with (
        DeviceRig(TX, port=RX, state=tmp_path) as rig,
        rig.applied({"tx_udp_segmentation": whole}) as applied,
    ):
        trial = rig.run(workload, count=1001)
    carriers = 21  # 1001 by fifties, and so 501 and 500: the last one holds one frame
    assert applied.accepted["tx_udp_segmentation"] is whole
    assert (trial.segments_sent, trial.environment["super_packets"]) == (1001, carriers)
    packets = carriers if whole else 1001
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (packets, packets, packets)
    assert trial.environment["device_packets_are"] == ("super-packets" if whole else "frames")
    assert trial.reconciled is True
