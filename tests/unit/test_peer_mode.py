"""The peer's mode is three switches turned as one: read as what is in force, and put back as it was."""

from __future__ import annotations

import pytest

from labkit.agent.peer_mode import PEER_MODES, PeerKnob, Switches, check_peer
from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError, WorkloadError
from labkit.factors import Scalar
from labkit.nic.apply import SettingsHost
from labkit.nic.journal import MemoryJournal


class Switch:
    """A switch that keeps what it is told, and a list of all that were turned."""

    resets_link = False

    def __init__(self, name: str, *, value: Scalar, turned: list[tuple[str, Scalar]]) -> None:
        self.name, self.value, self._turned = name, value, turned

    def read(self) -> Scalar:
        return self.value

    def write(self, value: Scalar) -> None:
        self._turned.append((self.name, value))
        self.value = value


class Thread(Switch):
    """Threads only where there is a NAPI, as in the kernel (net/core/dev.c, netif_set_threaded)."""

    gro: Switch

    def write(self, value: Scalar) -> None:
        if not self.gro.value:
            raise CapabilityMissingError("threaded: this device has no NAPI", errno=95)
        super().write(value)


class Ends:
    """Both ends of a veth pair as they are when they are new."""

    def __init__(self, *, threads: bool = True) -> None:
        self.turned: list[tuple[str, Scalar]] = []
        self.gro = Switch("gro", value=False, turned=self.turned)
        self.tso = Switch("tso", value=True, turned=self.turned)
        self.thread = Thread("threaded", value=False, turned=self.turned)
        self.thread.gro = self.gro
        self.knob = PeerKnob(
            gro=self.gro,
            threaded=self.thread if threads else None,
            tso=self.tso,
            why_not_threaded="no sysfs here",
        )
        self.host = SettingsHost("veth0", {"peer": self.knob}, MemoryJournal(), lambda: True)

    @property
    def switches(self) -> tuple[Scalar, ...]:
        return self.gro.value, self.thread.value, self.tso.value


@pytest.mark.parametrize(
    ("mode", "switches"),
    [
        ("backlog", (False, False, True)),
        ("napi", (True, False, False)),
        ("napi-threaded", (True, True, False)),
    ],
)
@pytest.mark.parametrize("before", PEER_MODES)
def test_each_mode_is_reached_from_each_other_read_back_and_left(
    before: str, mode: str, switches: tuple[bool, ...]
) -> None:
    ends = Ends()
    ends.host.apply({"peer": before})
    was = ends.switches
    assert ends.host.apply({"peer": mode}) == {"peer": mode, "gro": switches[0], "threaded": switches[1]}
    assert ends.switches == switches
    assert {result.outcome for result in ends.host.restore(1)} <= {"restored"}
    assert ends.switches == was
    ends.host.restore(0)
    assert ends.switches == (False, False, True)


def test_mode_in_force_writes_nothing() -> None:
    ends = Ends()
    assert ends.host.apply({"peer": "backlog"})["peer"] == "backlog"
    assert ends.turned == []


@pytest.mark.parametrize(
    ("switches", "mode"),
    [
        ("gro on threaded off tso on", "mixed"),
        ("gro on threaded on tso on", "mixed"),
        ("gro off threaded off tso off", "backlog"),
        ("gro off threaded on tso on", "backlog"),
        ("gro on threaded - tso off", "napi"),
        ("gro on threaded 2 tso off", "napi-threaded"),
        ("gro - threaded off tso off", None),
    ],
)
def test_what_is_in_force_is_told_whoever_turned_it(switches: str, mode: str | None) -> None:
    assert Switches.of(switches).mode == mode
    assert Switches.of(switches).text == switches


def test_switches_by_themselves_and_the_mode_lead_back_in_any_order() -> None:
    ends = Ends()
    assert ends.host.apply({"gro": True})["peer"] == "mixed"
    assert ends.host.apply({"threaded": True})["peer"] == "mixed"
    assert ends.host.apply({"peer": "napi"}) == {"peer": "napi", "gro": True, "threaded": False}
    assert ends.host.apply({"gro": False})["peer"] == "backlog"
    assert ends.host.apply({"peer": "napi-threaded"})["peer"] == "napi-threaded"
    assert ends.host.apply({"gro": False}) == {"peer": "backlog", "gro": False, "threaded": True}
    for level, switches in ((5, (True, True, False)), (2, (True, True, True)), (0, (False, False, True))):
        ends.host.restore(level)
        assert ends.switches == switches


def test_thread_left_behind_by_a_peer_without_napi_is_given_up_through_one() -> None:
    ends = Ends()
    ends.thread.value = True
    assert ends.host.apply({"peer": "backlog"}) == {"peer": "backlog", "gro": False, "threaded": False}
    assert ends.turned == [("gro", True), ("threaded", False), ("gro", False)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"peer": "turbo"}, "unknown peer 'turbo'; known: backlog, napi, napi-threaded"),
        ({"peer": "mixed"}, "unknown peer 'mixed'"),
        ({"peer": "napi", "gro": False}, "peer napi means gro on, not off; leave out gro, or peer"),
        ({"gro": True, "peer": "backlog"}, "peer backlog means gro off, not on"),
        ({"peer": "napi", "threaded": True}, "peer napi means threaded off, not on"),
        ({"peer": "napi-threaded", "threaded": False}, "peer napi-threaded means threaded on, not off"),
    ],
)
def test_mode_and_a_part_that_contradicts_it_are_refused_together(
    asked: dict[str, Scalar], words: str
) -> None:
    ends = Ends()
    with pytest.raises(WorkloadError, match=words):
        ends.host.apply(asked)
    with pytest.raises(WorkloadError, match=words):
        check_peer(asked)
    assert ends.turned == []


def test_mode_beside_parts_that_agree_with_it_is_taken() -> None:
    ends = Ends()
    assert (
        ends.host.apply({"threaded": True, "gro": True, "peer": "napi-threaded"})["peer"] == "napi-threaded"
    )


def test_threads_that_the_kernel_refuses_leave_all_switches_alone() -> None:
    ends = Ends()
    with pytest.raises(LabError, match="no NAPI"):
        ends.host.apply({"threaded": True})
    assert ends.switches == (False, False, True)


def test_without_the_peers_sysfs_there_is_napi_and_no_thread() -> None:
    ends = Ends(threads=False)
    assert ends.host.apply({"peer": "napi"}) == {"peer": "napi", "gro": True}
    with pytest.raises(CapabilityMissingError, match="'threaded': no sysfs here"):
        ends.host.apply({"peer": "napi-threaded"})
    with pytest.raises(CapabilityMissingError, match="no setting 'threaded'"):
        ends.host.apply({"threaded": True})
    ends.host.restore(0)
    assert ends.switches == (False, False, True)


def test_refusal_in_the_middle_puts_back_what_was_turned_before_it() -> None:
    ends = Ends()

    def refuse(value: Scalar) -> None:
        if value is False:
            raise SettingRefusedError("tso is fixed")

    ends.tso.write = refuse  # type: ignore[method-assign]
    with pytest.raises(SettingRefusedError, match="tso is fixed"):
        ends.host.apply({"peer": "napi-threaded"})
    assert ends.switches == (False, False, True)
