"""Settings of the other real drivers: what each rounds, refuses and does not have."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import CapabilityMissingError, SettingRefusedError
from labkit.factors import Scalar
from labkit.guest.image import GuestImage
from labkit.guest.missing import NICS, QEMU, _devices, program
from labkit.rigs.vm import VmRig

pytestmark = pytest.mark.vm

ONE_FLOW = lk.Workload(lk.udp_flow(flows=1), engine="pktgen")
COUNT = 2000


def refusal(rig: VmRig, asked: dict[str, Scalar]) -> tuple[type[BaseException], int | None, str]:
    """Kind, errno and words of what `rig` says to `asked`, after which everything is as it was."""
    with rig.applied({}) as now:
        before = dict(now.accepted)
    with pytest.raises((SettingRefusedError, CapabilityMissingError)) as refused, rig.applied(asked):
        pass
    with rig.applied({}) as now:
        assert now.accepted == before
    return refused.type, refused.value.errno, str(refused.value)


@pytest.mark.parametrize("ring", [64, 128, 256])
def test_virtio_takes_rings_up_to_what_its_device_has(virtio_net: VmRig, ring: int) -> None:
    with virtio_net.applied({"tx_ring": ring, "rx_ring": 128}) as now:
        assert (now.accepted["tx_ring"], now.accepted["rx_ring"]) == (ring, 128)
        trial = virtio_net.run(ONE_FLOW, count=COUNT, duration_s=30)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (COUNT, COUNT, COUNT)


@pytest.mark.parametrize(
    ("asked", "kind", "number", "words"),
    [
        ({"tx_ring": 300}, SettingRefusedError, None, "tx_ring 300: the device takes 256 at most"),
        ({"channels": 2}, SettingRefusedError, None, "channels 2: the device takes 1 at most"),
        ({"rx_usecs": 50}, CapabilityMissingError, errno.EOPNOTSUPP, "rx_usecs 50: not supported"),
        ({"tx_usecs": 50}, CapabilityMissingError, errno.EOPNOTSUPP, "tx_usecs 50: not supported"),
        ({"tx_frames": 0}, SettingRefusedError, errno.EBUSY, "tx_frames 0: refused by the kernel"),
        ({"tx_frames": 2}, SettingRefusedError, errno.EINVAL, "tx_frames 2: refused by the kernel"),
        ({"rx_frames": 2}, SettingRefusedError, errno.EINVAL, "rx_frames 2: refused by the kernel"),
    ],
)
def test_virtio_refuses_what_its_device_does_not_offer(
    virtio_net: VmRig, asked: dict[str, Scalar], kind: type[BaseException], number: int | None, words: str
) -> None:
    said = refusal(virtio_net, asked)
    assert said[:2] == (kind, number)
    assert said[2].startswith(f"eth0: {words}")


def test_vmxnet3_rounds_up_to_32_descriptors_and_has_no_moderation(vmxnet3: VmRig) -> None:
    with vmxnet3.applied({"tx_ring": 300}) as now:
        assert (now.accepted["tx_ring"], now.effective["tx_ring"]) == (320, 320)
        trial = vmxnet3.run(ONE_FLOW, count=COUNT, duration_s=30)
    assert (trial.engine_sent, trial.device_sent, trial.peer_received) == (COUNT, COUNT, COUNT)
    kind, number, words = refusal(vmxnet3, {"rx_usecs": 50})
    assert (kind, number) == (CapabilityMissingError, errno.EOPNOTSUPP)
    assert words.startswith("eth0 has no setting 'rx_usecs': eth0: coalescing: not supported")
    assert refusal(vmxnet3, {"channels": 2})[0] is SettingRefusedError
    assert "the device takes 4096 at most" in refusal(vmxnet3, {"tx_ring": 65536})[2]


@pytest.mark.parametrize("driver", ["virtio_net", "vmxnet3"])
def test_a_long_frame_arrives(driver: str, request: pytest.FixtureRequest) -> None:
    rig: VmRig = request.getfixturevalue(driver)
    with rig.applied({"mtu": 9000}):
        long = lk.Workload(lk.udp_flow(frame_bytes=9014), engine="sendmmsg")
        trial = rig.run(long, count=200, duration_s=30)
    assert trial.peer_received == trial.device_sent == 200


def test_igb_has_channels_where_qemu_has_igb(guest_image: GuestImage, guest_cache: Path) -> None:
    if NICS["igb"] not in _devices(program(QEMU)):
        words = r"vm:igb: .* has no igb \(QEMU 8 and later have one\); it has .*vm:e1000e"
        with pytest.raises(CapabilityMissingError, match=words):
            VmRig("igb", cache=guest_cache)
        return
    with VmRig("igb", cache=guest_cache) as rig:
        for channels in (2, 1):
            with rig.applied({"channels": channels}) as now:
                assert now.accepted["channels"] == channels
                trial = rig.run(ONE_FLOW, count=COUNT, duration_s=30)
            assert trial.peer_received == COUNT
