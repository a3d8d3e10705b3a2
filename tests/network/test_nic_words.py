"""What a `nic:` rig says of requests that make no sense, a lost agent, and a damaged journal."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from pathlib import Path

import pytest

from labkit.cli.app import main
from labkit.errors import AgentLostError, CapabilityMissingError, JournalError, LabError, RigBusyError
from labkit.factors import Scalar
from labkit.linux.links import Links
from labkit.records import Workload
from labkit.rigs.device import DeviceRig
from labkit.traffic.flows import udp_flow
from tests.network.nic_host import (
    RX,
    TX,
    add_veth,
    agent_pid,
    in_private_host,
    journals,
    leave_changed,
    needs_root,
    restore_all,
)

pytestmark = [pytest.mark.network, pytest.mark.user, needs_root]
SENDMMSG = Workload(flow=udp_flow(frame_bytes=60, flows=4), engine="sendmmsg")


@in_private_host
def test_loss_of_the_agent_of_a_device_tells_what_puts_its_settings_back(tmp_path: Path) -> None:
    add_veth()
    rig = DeviceRig(TX, state=tmp_path)
    os.kill(agent_pid(rig), signal.SIGKILL)
    with pytest.raises(AgentLostError, match="`labkit restore`, or opening tx0 again, puts back") as told:
        rig.run(SENDMMSG, count=1)
    assert "namespaces" not in str(told.value)
    rig.close()


@in_private_host
def test_opening_a_device_tells_of_a_journal_that_cannot_be_read(tmp_path: Path) -> None:
    add_veth()
    leave_changed(TX, tmp_path, {"mtu": 1400})
    (journal,) = journals(tmp_path)
    journal.write_bytes(b"garbage\n")
    with DeviceRig(TX, state=tmp_path) as rig:
        (told,) = rig.notes
    assert f"{journal} is damaged" in told


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"qdisc": "nonsense"}, 1),
        ({"qdisc": "tbf"}, 1),
        ({"qdisc_limit": 5}, 1),
        ({"irq_affinity": "0-1"}, 4),
    ],
)
@in_private_host
def test_preview_refuses_what_apply_refuses_before_it_writes(
    tmp_path: Path, asked: dict[str, Scalar], code: int
) -> None:
    add_veth()
    with DeviceRig(TX, state=tmp_path) as rig:
        with pytest.raises(LabError) as previewed:
            rig.preview(asked)
        with pytest.raises(LabError) as applied, rig.applied(asked):
            pass
    assert str(previewed.value) == str(applied.value)
    assert previewed.value.exit_code == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rig nic:tx0 --port tx0", "tx0: frames do not arrive at their sender; name another port"),
        ("--rig nic:nope", "nope: no such interface here; ip link lists them"),
        ("--rig nic:tx0 --port nope", "nope: no such interface here; ip link lists them"),
        ("--rig nic:tx0 --mtu 1400", "mtu is a setting: --set mtu=VALUE"),
        ("--rig nic:tx0 --set qdisc=\udcff", "is not valid text; give it in UTF-8"),
    ],
)
@in_private_host
def test_request_that_makes_no_sense_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    add_veth()
    with pytest.raises(SystemExit) as ended:
        main(["run", "--count", "1", "--state", str(tmp_path), *words.split()])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@in_private_host
def test_setting_of_the_whole_namespace_is_turned_by_one_lab_at_a_time(tmp_path: Path) -> None:
    add_veth()
    shared = Path("/proc/sys/net/ipv4/tcp_limit_output_bytes")
    before = shared.read_text()
    asked = {"tcp_limit_output_bytes": 100_000}
    with DeviceRig(TX, state=tmp_path) as one, DeviceRig(RX, state=tmp_path) as other:
        with (
            one.applied({"tcp_limit_output_bytes": 200_000}),
            pytest.raises(RigBusyError, match="tcp_limit_output_bytes: another laboratory holds it"),
            other.applied(asked),
        ):
            pass
        with other.applied({"mtu": 1400}):
            pass
    leave_changed(TX, tmp_path, asked)
    with DeviceRig(RX, state=tmp_path) as other:
        with (
            pytest.raises(JournalError, match="on tx0 left it changed; run `labkit restore` first"),
            other.applied(asked),
        ):
            pass
        assert len(restore_all(tmp_path)) == 1
        with other.applied(asked):
            pass
    assert shared.read_text() == before


@in_private_host
def test_link_that_one_may_not_turn_is_a_missing_capability() -> None:
    add_veth()
    with contextlib.closing(Links()) as links:
        os.seteuid(65534)
        try:
            with pytest.raises(CapabilityMissingError, match="needs CAP_NET_ADMIN") as told:
                links.set_mtu(TX, 1400)
        finally:
            os.seteuid(0)
    assert told.value.errno == errno.EPERM
