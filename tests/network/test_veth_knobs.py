"""What a veth's two ends have besides the sender's queue: the receiving end's NAPI, through its own sysfs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.experiment.trial import run_trial
from labkit.records import Workload
from labkit.rigs.veth import VethRig
from labkit.traffic.flows import udp_flow

pytestmark = pytest.mark.network
WORKLOAD = Workload(flow=udp_flow(frame_bytes=60, flows=4), engine="sendmmsg")


@pytest.fixture(params=["own", "userns"])
def rig(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[VethRig]:
    if request.param == "userns":
        monkeypatch.setenv("LABKIT_USERNS", "1")
    with VethRig() as made:
        yield made


def settings_of(rig: VethRig) -> dict[str, object]:
    with rig.applied({}) as now:
        return dict(now.accepted)


def test_napi_settings_of_the_receiving_end_are_turned_and_put_back(rig: VethRig) -> None:
    before = settings_of(rig)
    looked = rig._client.look("stack")
    if looked.privilege == "userns" or rig.notes:
        # the kernel asks for power over the whole machine (net/core/net-sysfs.c, capable)
        with pytest.raises(CapabilityMissingError), rig.applied({"gro_flush_timeout_ns": 20_000}):
            pytest.fail("applied")
        assert settings_of(rig) == before
        return
    with rig.applied({"gro_flush_timeout_ns": 20_000, "napi_defer_hard_irqs": 2}) as applied:
        assert applied.accepted["gro_flush_timeout_ns"] == 20_000
        assert applied.accepted["napi_defer_hard_irqs"] == 2
        trial = run_trial(rig, WORKLOAD, count=100, warmup_s=0)
    assert trial.reconciled is True
    assert trial.settings_accepted["gro_flush_timeout_ns"] == 20_000
    with rig.applied({"mtu": 9000}) as now:
        assert {**now.accepted, "mtu": 1500} == before


def test_threads_without_napi_are_refused_in_the_kernels_words_and_change_nothing(rig: VethRig) -> None:
    before = settings_of(rig)
    with (
        pytest.raises((CapabilityMissingError, SettingRefusedError)) as told,
        rig.applied({"gro_flush_timeout_ns": 20_000, "threaded": True}),
    ):
        pytest.fail("applied")
    assert told.value.errno is not None or "threaded" not in before
    with rig.applied({"mtu": 9000}) as now:
        assert {**now.accepted, "mtu": 1500} == before


def test_nested_settings_come_back_level_by_level_on_every_device(rig: VethRig) -> None:
    rig.run(Workload(flow=WORKLOAD.flow, engine="send", sink="ifb"), count=1)
    before = settings_of(rig)
    with rig.applied({"qdisc": "pfifo", "txqueuelen": 50}):
        with rig.applied({"qdisc_limit": 7, "mtu": 9000}) as inner:
            assert (inner.accepted["qdisc"], inner.accepted["qdisc_limit"]) == ("pfifo", 7)
        with rig.applied({}) as now:
            assert (now.accepted["qdisc_limit"], now.accepted["txqueuelen"]) == (50, 50)
    with rig.applied({"mtu": 1400}) as now:
        assert {**now.accepted, "mtu": 1500} == before


def test_refused_value_leaves_every_setting_unchanged(rig: VethRig) -> None:
    with rig.applied({"mtu": 1400}) as outer:
        with pytest.raises(LabError), rig.applied({"txqueuelen": 9, "qdisc": "bfifo", "qdisc_rate_bps": 8}):
            pytest.fail("applied")
        with rig.applied({"txqueuelen": 10}) as now:
            assert {**now.accepted, "txqueuelen": 1000} == outer.accepted


@pytest.mark.parametrize(
    "asked",
    [{"tx_channels": 2}, {"rx_channels": 2}, {"gro": True}, {"gro": True, "threaded": True}],
    ids=["tx channels", "rx channels", "gro", "gro and threads"],
)
def test_channels_gro_and_threads_are_turned_counted_under_and_put_back(
    rig: VethRig, asked: dict[str, bool | int]
) -> None:
    before = settings_of(rig)
    if len(os.sched_getaffinity(0)) < 2 and "gro" not in asked:
        pytest.skip("a veth has as many queues as the machine has CPUs; here one")
    with rig.applied(asked) as applied:
        assert asked.items() <= applied.accepted.items()
        assert run_trial(rig, WORKLOAD, count=500, warmup_s=0).reconciled is True
    assert settings_of(rig) == before


def test_more_channels_than_the_device_has_are_refused_with_both_numbers(rig: VethRig) -> None:
    before = settings_of(rig)
    with pytest.raises(SettingRefusedError, match="tx_channels 9999"), rig.applied({"tx_channels": 9999}):
        pytest.fail("applied")
    assert settings_of(rig) == before
