"""A device is renamed or deleted while a `nic:` rig holds it: the way back follows it, and nobody else."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from labkit.errors import JournalError, LabError, LabWarning
from labkit.factors import Scalar
from labkit.linux.interfaces import HeldInterface
from labkit.records import Sample, Workload
from labkit.rigs.device import DeviceRig
from labkit.traffic.flows import udp_flow
from tests.network.nic_host import (
    RX,
    TX,
    add_veth,
    agent_pid,
    in_private_host,
    index_of,
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
OF_LINK_QUEUES_AND_FILES: Mapping[str, Scalar] = {
    "mtu": 1400,
    "txqueuelen": 9,
    "qdisc": "pfifo",
    "gro": True,
    "threaded": True,
    "gro_flush_timeout_ns": 20_000,
    "xps_cpus": "0",
}
NEW, NEW_PORT = "new0", "new1"


def rename(name: str, new: str) -> None:
    set_link(name, state="down")
    set_link(name, ifname=new)
    set_link(new, state="up")


def delete(name: str) -> int:
    with IPRoute() as ip:
        index = index_of(ip, name)
        ip.link("del", index=index)
    return index


def add_other_pair(name: str, **fields: int) -> None:
    with IPRoute() as ip:
        ip.link("add", ifname=name, kind="veth", peer={"ifname": "other"}, **fields)
    set_link(name, state="up")
    set_link("other", state="up")


def written(name: str) -> tuple[str, ...]:
    folder = Path("/sys/class/net") / name
    return tuple((folder / file).read_text().strip() for file in ("mtu", "tx_queue_len", "gro_flush_timeout"))


@in_private_host
def test_settings_of_a_device_renamed_while_it_is_held_come_back_at_its_end(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        before = settings_of(rig)
        with rig.applied(OF_LINK_QUEUES_AND_FILES) as applied:
            rename(TX, NEW)
            add_other_pair(TX)
            newcomer = written(TX)
            assert settings_of(rig) == applied.accepted
            with rig.applied({"mtu": 1300, "gro_flush_timeout_ns": 30_000}):
                assert written(NEW) == ("1300", "9", "30000")
            assert settings_of(rig) == applied.accepted
        assert settings_of(rig) == before
        rig._client.apply(dict(OF_LINK_QUEUES_AND_FILES))
    assert written(TX) == newcomer
    assert journals(tmp_path) == []
    with DeviceRig(NEW, state=tmp_path) as rig:
        assert (rig.notes, settings_of(rig)) == ((), before)


@in_private_host
def test_trial_goes_on_and_counts_under_new_names(tmp_path: Path) -> None:
    add_veth()
    with DeviceRig(TX, port=RX, state=tmp_path) as rig, rig.applied({"mtu": 1400}):
        rig.run(SENDMMSG, count=100)
        rename(TX, NEW)
        rename(RX, NEW_PORT)
        add_other_pair(TX)
        trial = rig.run(SENDMMSG, count=1000)
        assert trial.engine_sent == trial.device_sent == trial.peer_received == 1000
        assert trial.reconciled is True
        assert trial.environment["device_counter"] == f"{NEW} tx_packets"


@in_private_host
def test_run_in_progress_goes_on_under_a_new_name(tmp_path: Path) -> None:
    add_veth()
    seen: list[Sample] = []

    def rename_once(sample: Sample) -> None:
        if not seen:
            set_link(TX, ifname=NEW)
        seen.append(sample)

    with DeviceRig(TX, port=RX, state=tmp_path) as rig:
        try:
            trial = rig.run(SENDMMSG, duration_s=0.6, on_sample=rename_once)
        except NetlinkError as refused:
            if refused.code != errno.EBUSY:
                raise
            pytest.skip("this kernel renames no interface that is up")
    assert interfaces() == ["lo", NEW, RX]
    assert trial.reconciled is True
    assert trial.environment["fatal_errno"] is None
    assert len(seen) > 1
    counts = [sample.device_sent for sample in seen]
    assert None not in counts
    assert sorted(set(counts)) == counts


@pytest.mark.parametrize("same_number", [False, True])
@in_private_host
def test_device_that_takes_the_name_of_a_deleted_one_is_never_written(
    tmp_path: Path, same_number: bool
) -> None:
    add_veth()
    asked: dict[str, Scalar] = {"mtu": 1400, "gro_flush_timeout_ns": 20_000, "tso": False}
    rig = DeviceRig(TX, state=tmp_path)
    rig._client.apply(asked)
    index = delete(TX)
    add_other_pair(TX, **({"index": index} if same_number else {}))
    set_link(TX, mtu=1400)
    (Path("/sys/class/net") / TX / "gro_flush_timeout").write_text("20000")
    newcomer = written(TX)
    gone = r"tx0: no such interface any more .*\[ENODEV: No such device\]"
    for use in (lambda: rig._client.apply({"mtu": 1300}), lambda: rig.run(SENDMMSG, count=10)):
        with pytest.raises(LabError, match=gone):
            use()
    with pytest.raises(JournalError) as told:
        rig.close()
    text = str(told.value)
    for name in asked:
        assert f"tx0: {name} is not there to be put back to" in text
    assert "[ENODEV: No such device]" in text
    assert "`labkit restore`" in text
    assert len(journals(tmp_path)) == 1
    assert written(TX) == newcomer
    with DeviceRig(TX, state=tmp_path) as rig:
        assert rig.notes == ()
        assert settings_of(rig)["tso"] is True
    assert all("is not there to be put back" in line for line in restore_all(tmp_path))
    assert written(TX) == newcomer
    assert len(journals(tmp_path)) == 1


@in_private_host
def test_failure_at_the_end_hides_no_error_that_is_under_way(tmp_path: Path) -> None:
    add_veth()

    def work() -> None:
        with DeviceRig(TX, state=tmp_path) as rig:
            rig._client.apply({"mtu": 1400})
            delete(TX)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as told:
        work()
    (note,) = told.value.__notes__
    assert "tx0: mtu is not there to be put back to 1500" in note


@in_private_host
def test_closing_tells_once_what_could_not_be_put_back(tmp_path: Path) -> None:
    add_veth()
    rig = DeviceRig(TX, state=tmp_path)
    rig._client.apply({"mtu": 1400})
    delete(TX)
    with pytest.raises(JournalError, match="tx0: mtu is not there"):
        rig.close()
    rig.close()


@in_private_host
def test_closing_tells_of_a_value_that_somebody_else_set(tmp_path: Path) -> None:
    add_veth()
    rig = DeviceRig(TX, state=tmp_path)
    rig._client.apply({"mtu": 1400})
    set_link(TX, mtu=1300)
    with pytest.warns(LabWarning, match="tx0: mtu is 1300, which somebody else set"):
        rig.close()


@in_private_host
def test_closing_tells_that_the_agent_died_with_settings_in_force(tmp_path: Path) -> None:
    add_veth()
    rig = DeviceRig(TX, state=tmp_path)
    rig._client.apply({"mtu": 1400})
    os.kill(agent_pid(rig), signal.SIGKILL)
    with pytest.raises(JournalError, match="nic:tx0: the agent ended while settings were in force"):
        rig.close()
    assert len(restore_all(tmp_path)) == 1


@in_private_host
def test_closing_with_nothing_changed_says_nothing(tmp_path: Path) -> None:
    add_veth()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with DeviceRig(TX, state=tmp_path) as rig, rig.applied({"mtu": 1400}):
            pass
        rig = DeviceRig(TX, state=tmp_path)
        os.kill(agent_pid(rig), signal.SIGKILL)
        rig.close()


@in_private_host
def test_held_interface_goes_by_its_number_and_is_gone_when_it_is_deleted() -> None:
    add_veth()
    held = HeldInterface(TX)
    number = held.ifindex
    rename(TX, NEW)
    assert (held.name, held.ifindex) == (NEW, number)
    assert delete(NEW) == number
    add_other_pair(NEW, index=number)
    for ask in (lambda: held.name, lambda: held.ifindex):
        with pytest.raises(LabError, match="new0: no such interface any more") as gone:
            ask()
        assert gone.value.errno == errno.ENODEV
    assert HeldInterface(NEW).ifindex == number


@in_private_host
def test_settings_come_back_to_their_device_and_not_to_another_of_its_mac(tmp_path: Path) -> None:
    add_veth()
    add_other_pair("twin")
    with IPRoute() as ip:
        (link,) = ip.get_links(index_of(ip, "twin"))
    set_link(TX, address=link.get_attr("IFLA_ADDRESS"))
    for name, other in (("twin", TX), (TX, "twin")):
        leave_changed(name, tmp_path, {"mtu": 1400})
        set_link(other, mtu=1400)
        with DeviceRig(other, state=tmp_path) as rig:
            assert rig.notes == ()
        assert restore_all(tmp_path) == [f"{name}: mtu put back to 1500"]
        assert (written(name)[0], written(other)[0]) == ("1500", "1400")
        set_link(other, mtu=1500)
