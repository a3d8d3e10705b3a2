"""Rig `nic:` on a veth and a tap in a private host: settings turned, refused, guarded, and put back."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from labkit.errors import (
    AgentLostError,
    CapabilityMissingError,
    JournalError,
    LabError,
    LabWarning,
    RigBusyError,
    SettingRefusedError,
    WorkloadError,
)
from labkit.factors import Scalar
from labkit.linux.machine import machine_facts
from labkit.records import Workload
from labkit.rigs.choose import simulated_rig
from labkit.rigs.device import DeviceRig
from labkit.traffic.flows import udp_flow
from tests.network import nic_host
from tests.network.nic_host import (
    RX,
    TAP,
    TX,
    add_veth,
    agent_pid,
    in_private_host,
    interfaces,
    journals,
    leave_changed,
    needs_root,
    restore_all,
    set_link,
    settings_of,
)

pytestmark = [pytest.mark.network, pytest.mark.user, needs_root]
SENDMMSG = Workload(flow=udp_flow(frame_bytes=60, flows=4), engine="sendmmsg")


@pytest.mark.parametrize(
    "asked",
    [
        {"mtu": 1400},
        {"txqueuelen": 50},
        {"qdisc": "pfifo", "qdisc_limit": 7},
        {"qdisc": "tbf", "qdisc_limit": 3000, "qdisc_rate_bps": 1_000_000},
        {"gro": True},
        {"tx_udp_segmentation": False},
        {"rx_channels": 2, "tx_channels": 2},
        {"gro": True, "threaded": True},
        {"gro_flush_timeout_ns": 20_000, "napi_defer_hard_irqs": 2},
        {"rps_cpus": "0", "xps_cpus": "0"},
        {"mtu": 9000, "txqueuelen": 9, "qdisc": "pfifo", "gro": True, "tso": False, "rx_channels": 3},
    ],
    ids="-".join,
)
@in_private_host
def test_veth_settings_are_turned_read_back_and_put_back(tmp_path: Path, asked: Mapping[str, Scalar]) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        before = settings_of(rig)
        with rig.applied(asked) as applied:
            assert asked.items() <= applied.accepted.items()
            assert settings_of(rig) == applied.accepted
            assert len(journals(tmp_path)) == 1
        assert settings_of(rig) == before
        assert journals(tmp_path) == []


@pytest.mark.parametrize(
    "asked", [{"tx_channels": 1}, {"xps_cpus": "1", "rps_cpus": "0-1", "rx_channels": 2}]
)
@pytest.mark.parametrize("killed", [False, True])
@in_private_host
def test_queues_that_go_and_come_again_have_their_settings_again(
    tmp_path: Path, asked: Mapping[str, Scalar], killed: bool
) -> None:
    add_veth()
    queues = Path("/sys/class/net") / TX / "queues"
    for file, mask in (("tx-0/xps_cpus", "1"), ("tx-2/xps_cpus", "2"), ("rx-3/rps_cpus", "1")):
        (queues / file).write_text(mask)
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        assert (before["xps_cpus"], before["rps_cpus"]) == ("0;;1;", ";;;0")
        both = {"rx_channels": 1, "tx_channels": 1, **asked}
        with contextlib.suppress(AgentLostError), rig.applied(both) as applied:
            assert both.items() <= applied.accepted.items()
            if killed:
                os.kill(agent_pid(rig), signal.SIGKILL)
                settings_of(rig)
    with DeviceRig(TX, state=tmp_path) as rig:
        assert settings_of(rig) == before
        assert journals(tmp_path) == []


@in_private_host
def test_settings_come_back_when_the_rig_is_closed_within(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        rig._client.apply({"mtu": 1400, "qdisc": "pfifo"})
        assert len(journals(tmp_path)) == 1
    with DeviceRig(TX, state=tmp_path) as rig:
        assert rig.notes == ()
        assert settings_of(rig) == before


@in_private_host
def test_three_counts_agree_through_the_port(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        trial = rig.run(SENDMMSG, count=1000)
        assert trial.engine_sent == trial.device_sent == trial.peer_received == 1000
        assert trial.reconciled is True


@in_private_host
def test_trial_is_told_as_a_simulated_one_is_but_for_the_machine(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as device:
        real = device.run(SENDMMSG, count=10)
    with simulated_rig("sim:ixgbe-e5-2695") as card:
        simulated = card.run(SENDMMSG, count=10)
    missing = real.environment.keys() - simulated.environment.keys()
    assert missing <= machine_facts().keys() | {"audit"}
    assert {"push_back", "interrupts", "interrupts_by_queue", "statistics"} <= real.environment.keys()


@in_private_host
def test_tap_takes_rx_frames_and_no_rx_usecs(tmp_path: Path) -> None:
    with nic_host.tap(), DeviceRig(TAP, state=tmp_path) as rig:
        before = settings_of(rig)
        with rig.applied({"rx_frames": 7}) as applied:
            assert applied.accepted["rx_frames"] == 7
            with (
                pytest.raises(CapabilityMissingError, match="tap0 does not report 'rx_usecs'"),
                rig.applied({"rx_frames": 9, "rx_usecs": 7}),
            ):
                pytest.fail("applied")
            assert settings_of(rig)["rx_frames"] == 7
        assert settings_of(rig) == before


@pytest.mark.parametrize("asked", [{"tx_ring": 512}, {"rx_usecs": 7}, {"mtu": 1400, "pause_rx": True}])
@in_private_host
def test_what_a_veth_lacks_is_refused_in_the_kernels_words(
    tmp_path: Path, asked: Mapping[str, Scalar]
) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        for use in (lambda: rig.applied(asked).__enter__(), lambda: rig.preview(asked)):
            with pytest.raises(CapabilityMissingError, match="Operation not supported") as refused:
                use()
            assert refused.value.errno == errno.EOPNOTSUPP
            assert str(refused.value).startswith(f"tx0 has no setting '{list(asked)[-1]}'")
            assert len(str(refused.value)) < 300
        assert settings_of(rig) == before
        assert journals(tmp_path) == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"mtu": 1400, "rx_channels": 5}, SettingRefusedError),
        ({"gro_flush_timeout_ns": 20_000, "mtu": 10}, SettingRefusedError),
        ({"mtu": 1400, "qdisc": "nosuch"}, SettingRefusedError),
        ({"mtu": 1400, "gro_flush_timeout_ns": -1}, SettingRefusedError),
        ({"mtu": 1400, "xps_cpus": "9000"}, SettingRefusedError),
        ({"mtu": 1400, "threaded": True}, CapabilityMissingError),
        ({"mtu": 1400, "irq_affinity": "0"}, CapabilityMissingError),
        ({"mtu": 1400, "nosuch": 1}, WorkloadError),
        ({"mtu": "large"}, WorkloadError),
        ({"mtu": 2**40}, LabError),
        ({"mtu": -5}, LabError),
        ({"txqueuelen": -1}, LabError),
        ({"rx_channels": 0}, LabError),
        ({"rx_channels": -1}, LabError),
        ({"rx_channels": 2**33}, LabError),
        ({"gro_flush_timeout_ns": 2**70}, LabError),
        ({"qdisc": "pfifo", "qdisc_limit": 2**40}, LabError),
        ({"qdisc": "tbf", "qdisc_limit": 3000, "qdisc_rate_bps": 2**50}, LabError),
    ],
    ids=lambda asked: "-".join(map(str, asked.items())) if isinstance(asked, dict) else "",
)
@in_private_host
def test_refused_value_leaves_every_setting_as_it_was(
    tmp_path: Path, asked: Mapping[str, Scalar], error: type[LabError]
) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        with pytest.raises(error) as told, rig.applied(asked):
            pytest.fail("applied")
        assert not isinstance(told.value, AgentLostError)
        assert len(str(told.value)) < 2000
        assert settings_of(rig) == before
        assert journals(tmp_path) == []


@pytest.mark.parametrize("name", ["nosuch", "x" * 40, "a/b", "..", "tx0\n", "ä"])
@in_private_host
def test_unknown_interface_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    add_veth()
    with pytest.raises(LabError) as told:
        DeviceRig(name, state=tmp_path)
    assert not isinstance(told.value, AgentLostError)
    assert name in str(told.value) or repr(name) in str(told.value)


@in_private_host
def test_unknown_port_lets_the_device_go(tmp_path: Path) -> None:
    add_veth()
    with pytest.raises(LabError, match="nosuch"):
        DeviceRig(TX, port="nosuch", state=tmp_path)
    DeviceRig(TX, state=tmp_path).close()


@in_private_host
def test_second_lab_on_a_device_is_told_who_holds_it(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        with pytest.raises(RigBusyError, match=rf"pid {agent_pid(rig)}"):
            DeviceRig(TX, state=tmp_path)
        with DeviceRig(RX, state=tmp_path) as other, other.applied({"mtu": 1400}):
            assert settings_of(rig)["mtu"] == 1500
        with rig.applied({"mtu": 1400}):
            told = restore_all(tmp_path)
            assert settings_of(rig)["mtu"] == 1400, told
    DeviceRig(TX, state=tmp_path).close()


def mount(kind: str, where: Path, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    given = (kind.encode(), str(where).encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    assert libc.mount(*given) == 0, os.strerror(ctypes.get_errno())


@in_private_host
def test_read_only_journal_means_no_change(tmp_path: Path) -> None:
    add_veth()
    (tmp_path / "journal").mkdir(mode=0o700)
    mount("tmpfs", tmp_path / "journal", 1, "size=64k,mode=0700")
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        with pytest.raises(JournalError, match="journal") as told, rig.applied({"mtu": 1400}):
            pytest.fail("applied")
        assert told.value.errno == errno.EROFS
        assert settings_of(rig) == before


@in_private_host
def test_full_journal_means_no_change_and_a_rig_that_works_on(tmp_path: Path) -> None:
    add_veth()
    journal = tmp_path / "journal"
    journal.mkdir(mode=0o700)
    mount("tmpfs", journal, 0, "size=16k,mode=0700")
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        fill(journal / "filler")
        with pytest.raises(JournalError) as told, rig.applied({"mtu": 1400, "txqueuelen": 9}):
            pytest.fail("applied")
        assert told.value.errno == errno.ENOSPC
        assert settings_of(rig) == before
        (journal / "filler").unlink()
        with rig.applied({"mtu": 1400}) as applied:
            fill(journal / "filler")
            assert applied.accepted["mtu"] == 1400
        assert settings_of(rig) == before


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(512)):
            pass


@in_private_host
def test_folder_where_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    add_veth()
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal").chmod(0o777)
    with pytest.raises(JournalError, match="others may write there"):
        DeviceRig(TX, state=tmp_path)


@in_private_host
def test_device_of_the_default_route_is_refused_unless_its_name_is_repeated(tmp_path: Path) -> None:
    add_veth()
    with IPRoute() as ip:
        index = nic_host.index_of(ip, TX)
        ip.addr("add", index=index, address="192.0.2.1", prefixlen=24)
        ip.route("add", dst="default", oif=index, gateway="192.0.2.2")
    for name in ("LABKIT_I_KNOW", "I_KNOW", "LABKIT_NIC"):
        os.environ[name] = TX
    for i_know in (None, RX, "", "TX0", "1"):
        with pytest.raises(SettingRefusedError, match="default route"):
            DeviceRig(TX, i_know=i_know, state=tmp_path)
    with DeviceRig(TX, i_know=TX, state=tmp_path) as rig, rig.applied({"mtu": 1400}) as applied:
        assert applied.accepted["mtu"] == 1400
    with DeviceRig(RX, state=tmp_path):
        pass


@in_private_host
def test_member_of_a_bridge_is_refused(tmp_path: Path) -> None:
    add_veth()
    with IPRoute() as ip:
        ip.link("add", ifname="br0", kind="bridge")
        ip.link("set", index=nic_host.index_of(ip, TX), master=nic_host.index_of(ip, "br0"))
    for name in (TX, "br0"):
        with pytest.raises(SettingRefusedError, match="bridge"):
            DeviceRig(name, state=tmp_path)


@in_private_host
def test_value_of_somebody_else_is_told_and_left_alone(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        with (
            pytest.warns(LabWarning, match="tx0: mtu is 1300, which somebody else set: left alone"),
            rig.applied({"mtu": 1400, "txqueuelen": 9}),
        ):
            set_link(TX, mtu=1300)
        assert settings_of(rig) == {**before, "mtu": 1300}
        assert journals(tmp_path) == []


@in_private_host
def test_restoring_twice_is_harmless(tmp_path: Path) -> None:
    add_veth()
    before = leave_changed(TX, tmp_path, {"mtu": 1400, "gro": True})
    assert len(restore_all(tmp_path)) == 2
    assert restore_all(tmp_path) == []
    set_link(TX, mtu=1300)
    assert restore_all(tmp_path) == []
    with DeviceRig(TX, state=tmp_path) as rig:
        assert (rig.notes, settings_of(rig)) == ((), {**before, "mtu": 1300})


@in_private_host
def test_device_that_goes_while_it_is_held_is_a_clear_error(tmp_path: Path) -> None:
    add_veth()
    started = time.monotonic()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        rig.run(SENDMMSG, count=10)
        rig._client.apply({"mtu": 1400})
        with IPRoute() as ip:
            ip.link("del", index=nic_host.index_of(ip, TX))
        for use in (lambda: rig.run(SENDMMSG, count=10), lambda: rig._client.apply({"mtu": 1300})):
            with pytest.raises(LabError, match="no such interface"):
                use()
        rig._client.level = 0
        with pytest.raises(JournalError, match="tx0: mtu"):
            rig._client.restore()
        with pytest.raises(JournalError, match="tx0: mtu"):
            rig.close()
    assert time.monotonic() - started < 20
    assert interfaces() == ["lo"]
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        assert rig.notes == ()


@in_private_host
def test_renamed_device_gets_its_settings_back(tmp_path: Path) -> None:
    add_veth()
    before = leave_changed(TX, tmp_path, {"mtu": 1400, "gro": True})
    with IPRoute() as ip:
        index = nic_host.index_of(ip, TX)
        ip.link("set", index=index, state="down")
        ip.link("set", index=index, ifname="new0")
        ip.link("set", index=index, state="up")
    told = restore_all(tmp_path)
    assert len(told) == 2
    assert all("new0 (tx0 when it was changed)" in line for line in told)
    with DeviceRig("new0", state=tmp_path) as rig:
        assert settings_of(rig) == before


@in_private_host
def test_one_tap_is_not_taken_for_another(tmp_path: Path) -> None:
    with nic_host.tap("tap1"):
        with nic_host.tap("tap0"):
            leave_changed("tap0", tmp_path, {"rx_frames": 7})
            with DeviceRig("tap1", state=tmp_path) as other:
                assert other.notes == ()
                with other.applied({"rx_frames": 7}):
                    pass
        (told,) = restore_all(tmp_path)
        assert "is not there to be put back" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@in_private_host
def test_agent_that_is_asked_to_end_puts_everything_back_first(
    tmp_path: Path, number: signal.Signals
) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        rig._client.apply({"mtu": 1400, "gro": True})
        os.kill(agent_pid(rig), number)
        assert rig._client._process.how_it_ended() == "exit status 0"
        assert journals(tmp_path) == []
        with pytest.raises(AgentLostError):
            settings_of(rig)
    with DeviceRig(TX, state=tmp_path) as rig:
        assert (rig.notes, settings_of(rig)) == ((), before)


@in_private_host
def test_nested_settings_come_back_level_by_level(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig, warnings.catch_warnings():
        warnings.simplefilter("error")
        before = settings_of(rig)
        with rig.applied({"mtu": 1400, "gro": True}) as outer:
            with rig.applied({"mtu": 1300, "threaded": True, "qdisc": "pfifo"}):
                pass
            assert settings_of(rig) == outer.accepted
        assert settings_of(rig) == before
