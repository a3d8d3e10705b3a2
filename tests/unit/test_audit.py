"""Each check of the environment on a fake tree: a good value, a bad one, and none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import labkit as lk
from labkit.audit.check import Finding, audit_of
from labkit.audit.run import CHECKS, audit, audit_summary
from labkit.cli import audit_command, main
from labkit.errors import LabError, WorkloadError
from labkit.linux.latency import cpus_kept_awake

CPU = "sys/devices/system/cpu"
QUEUE = "sys/class/net/eth1/queues/tx-0/byte_queue_limits"
MAX_BYTES = "1879048192"
PACKET_HEAD = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
TAP = "ffff 3 3 0003 {} 1 0 0 5\n"

# a machine that is set up well: two CPUs, one of them isolated, one device
GOOD = {
    f"{CPU}/online": "0-1",
    f"{CPU}/intel_pstate/no_turbo": "1",
    f"{CPU}/cpuidle/current_driver": "intel_idle",
    f"{CPU}/smt/active": "0",
    f"{CPU}/isolated": "1",
    f"{CPU}/nohz_full": "1",
    f"{CPU}/vulnerabilities/l1tf": "Not affected",
    f"{CPU}/vulnerabilities/mds": "Vulnerable",
    "proc/1/comm": "systemd",
    "proc/modules": "nf_tables 1 0 - Live 0x0\nixgbe 1 0 - Live 0x0\n",
    "proc/sys/net/core/somaxconn": "4096",
    "proc/net/packet": PACKET_HEAD + "ffff 3 3 88cc 2 1 0 0 4\nffff 3 3 0003 3 0 0 0 4\n",
    "proc/loadavg": "0.90 0.20 0.30 1/127 29483",
    "proc/stat": "cpu  900 0 100 9000 0 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "proc/cpuinfo": "flags\t\t: fpu tsc\n",
    "sys/class/net/eth1/ifindex": "3",
    "sys/class/net/eth1/device/numa_node": "0",
    f"{QUEUE}/limit": "3000",
    f"{QUEUE}/limit_max": MAX_BYTES,
}
for number in (0, 1):
    GOOD |= {
        f"{CPU}/cpu{number}/cpufreq/scaling_governor": "performance",
        f"{CPU}/cpu{number}/cpufreq/scaling_driver": "intel_pstate",
        f"{CPU}/cpu{number}/node0/cpulist": "0-1",
    }
    for state, name, latency, off in ((0, "POLL", 0, 0), (1, "C1", 2, 0), (2, "C6", 133, 1)):
        folder = f"{CPU}/cpu{number}/cpuidle/state{state}"
        GOOD |= {f"{folder}/name": name, f"{folder}/latency": str(latency), f"{folder}/disable": str(off)}

SETTINGS: dict[str, Any] = {
    "qdisc": "mq",
    "tso": False,
    "gro": False,
    "lro": None,
    "pause_rx": False,
    "pause_tx": False,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, content in GOOD.items():
        write(tmp_path, name, content)
    return tmp_path


def write(root: Path, name: str, content: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content + "\n")


def found(root: Path, name: str, **settings: Any) -> Finding:
    told = audit("eth1", settings=lambda _: SETTINGS | settings, root=root)
    return next(each for each in told.findings if each.name == name)


def test_a_machine_that_is_set_up_well_is_ok_in_every_check(root: Path) -> None:
    told = audit("eth1", settings=lambda _: SETTINGS, root=root)
    assert [(each.name, each.verdict) for each in told.findings] == [(each.name, "ok") for each in CHECKS]
    assert told.verdict == "ok"
    assert told.counts == {"ok": len(CHECKS), "look": 0, "bad": 0, "unknown": 0}


def test_with_nothing_to_read_all_is_unknown_with_a_reason_each(tmp_path: Path) -> None:
    told = audit(root=tmp_path)
    assert {each.verdict for each in told.findings} == {"unknown"}
    assert all(each.value is None and each.why_unknown for each in told.findings)
    assert told.verdict == "unknown"


GOVERNOR, SCALING = f"{CPU}/cpu1/cpufreq/scaling_governor", f"{CPU}/cpu1/cpufreq/scaling_driver"


@pytest.mark.parametrize(
    ("check", "name", "content", "verdict", "value"),
    [
        ("governor", GOVERNOR, "powersave", "look", "performance (intel_pstate), powersave (intel_pstate)"),
        ("governor", GOVERNOR, "schedutil", "look", None),
        ("turbo", f"{CPU}/intel_pstate/no_turbo", "0", "look", True),
        (
            "c_states",
            f"{CPU}/cpu1/cpuidle/state2/disable",
            "0",
            "look",
            "C6, 133 us to leave it (intel_idle)",
        ),
        ("smt", f"{CPU}/smt/active", "1", "look", True),
        ("isolated_cpus", f"{CPU}/isolated", "", "look", ""),
        ("nohz_full", f"{CPU}/nohz_full", "(null)", "look", ""),
        ("mitigations", f"{CPU}/vulnerabilities/mds", "Mitigation: Clear CPU buffers", "look", "mds"),
        ("irqbalance", "proc/777/comm", "irqbalance", "look", True),
        ("netfilter", "proc/net/ip_tables_names", "filter\nnat", "look", "ip:filter, ip:nat"),
        ("netfilter", "proc/modules", "nf_tables 1 12 nft_compat, Live 0x0", "look", "nf_tables"),
        ("conntrack", "proc/sys/net/netfilter/nf_conntrack_count", "12", "bad", 12),
        ("conntrack", "proc/sys/net/netfilter/nf_conntrack_count", "0", "ok", 0),
        ("packet_taps", "proc/net/packet", PACKET_HEAD + TAP.format(3), "bad", 1),
        ("packet_taps", "proc/net/packet", PACKET_HEAD + TAP.format(0) * 2, "bad", 2),
        ("packet_taps", "proc/net/packet", PACKET_HEAD + TAP.format(9), "ok", 0),
        ("other_load", "proc/loadavg", "0.10 0.20 0.30 2/127 1", "look", None),
        ("other_load", "proc/loadavg", "4.00 0.20 0.30 3/127 1", "bad", None),
        ("steal", "proc/stat", "cpu  900 0 100 9000 0 0 0 50 0 0", "look", "0.50% since boot"),
        ("steal", "proc/stat", "cpu  900 0 100 8000 0 0 0 1000 500 0", "bad", "10.00% since boot"),
        (
            "clock_source",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet",
            "bad",
            "hpet",
        ),
        (
            "clock_source",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "newclock",
            "look",
            "newclock",
        ),
        ("virtualisation", "proc/cpuinfo", "flags : fpu hypervisor", "look", True),
        ("virtualisation", "sys/hypervisor/type", "xen", "look", True),
        ("numa", "sys/class/net/eth1/device/numa_node", "1", "bad", "device on node 1, CPUs on 0"),
        (
            "numa",
            "sys/class/net/eth1/device/numa_node",
            "-1",
            "ok",
            "the device has no node of its own",
        ),
        ("numa", f"{CPU}/cpu1/node1/cpulist", "1", "look", "device on node 0, CPUs on 0, 1"),
        ("bql", f"{QUEUE}/limit_max", "1514", "look", "limit 3000 of at most 1514 bytes"),
        ("bql", f"{QUEUE}/limit", "0", "ok", "not used so far"),
    ],
)
def test_a_value_that_moves_the_rate_is_seen(
    root: Path, check: str, name: str, content: str, verdict: str, value: object
) -> None:
    write(root, name, content)
    seen = found(root, check)
    assert seen.verdict == verdict
    assert seen.value is not None
    assert value is None or seen.value == value


def test_powersave_is_bad_where_the_driver_does_not_scale_by_itself(root: Path) -> None:
    write(root, GOVERNOR, "powersave")
    write(root, SCALING, "acpi-cpufreq")
    assert found(root, "governor").verdict == "bad"


def test_only_the_cpu_that_sends_is_judged_when_it_is_named(root: Path) -> None:
    write(root, GOVERNOR, "schedutil")
    verdicts = {cpu: audit(cpu=cpu, root=root).findings[0].verdict for cpu in (0, 1)}
    assert verdicts == {0: "ok", 1: "look"}


def test_turbo_of_other_drivers_is_read_from_boost(root: Path) -> None:
    (root / f"{CPU}/intel_pstate/no_turbo").unlink()
    assert found(root, "turbo").verdict == "unknown"
    write(root, f"{CPU}/cpufreq/boost", "1")
    assert found(root, "turbo").value is True


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("governor", GOVERNOR),
        ("c_states", f"{CPU}/cpuidle/current_driver"),
        ("smt", f"{CPU}/smt/active"),
        ("isolated_cpus", f"{CPU}/isolated"),
        ("netfilter", "proc/modules"),
        ("packet_taps", "proc/net/packet"),
        ("other_load", "proc/loadavg"),
        ("steal", "proc/stat"),
        ("clock_source", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ("virtualisation", "proc/cpuinfo"),
        ("bql", f"{QUEUE}/limit"),
    ],
)
def test_a_missing_file_is_named_and_its_value_is_unknown(root: Path, check: str, name: str) -> None:
    (root / name).unlink()
    seen = found(root, check)
    assert (seen.value, seen.verdict) == (None, "unknown")
    assert name in str(seen.why_unknown)
    assert "No such file or directory" in str(seen.why_unknown)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("proc/loadavg", "other_load"),
        ("proc/stat", "steal"),
        ("proc/net/packet", "packet_taps"),
        ("proc/modules", "netfilter"),
        ("proc/cpuinfo", "virtualisation"),
        (f"{QUEUE}/limit", "bql"),
    ],
)
def test_a_file_of_another_form_is_unknown_with_a_reason(root: Path, name: str, check: str) -> None:
    write(root, name, "first\nwhat")
    seen = found(root, check)
    assert (seen.value, seen.verdict) == (None, "unknown")
    assert seen.why_unknown


def test_a_kernel_without_idle_states_does_not_tell_how_deep_cpus_sleep(root: Path) -> None:
    for cpu in (0, 1):
        for state in (0, 1, 2):
            write(root, f"{CPU}/cpu{cpu}/cpuidle/state{state}/disable", "1")
    assert "no idle state is told" in str(found(root, "c_states").why_unknown)


def test_absent_bql_and_conntrack_are_known_and_fine(root: Path) -> None:
    for name in ("limit", "limit_max"):
        (root / QUEUE / name).unlink()
    (root / QUEUE).rmdir()
    assert (found(root, "bql").value, found(root, "bql").verdict) == ("no BQL", "ok")
    assert found(root, "conntrack").value == "not loaded"


@pytest.mark.parametrize(
    ("check", "settings", "verdict", "value"),
    [
        ("qdisc", {"qdisc": "noqueue"}, "ok", "noqueue"),
        ("qdisc", {"qdisc": "fq_codel"}, "look", "fq_codel"),
        ("qdisc", {"qdisc": "noop"}, "bad", "noop"),
        ("offloads", {"gro": True, "tso": True}, "look", "tso gro"),
        ("pause", {"pause_rx": True}, "bad", "pause_rx"),
        ("pause", {"pause_tx": None}, "unknown", None),
        ("offloads", {"tso": None}, "unknown", None),
        ("qdisc", {"qdisc": None}, "unknown", None),
    ],
)
def test_settings_of_the_device_are_judged(
    root: Path, check: str, settings: dict[str, Any], verdict: str, value: object
) -> None:
    seen = found(root, check, **settings)
    assert (seen.verdict, seen.value) == (verdict, value)


def test_settings_that_cannot_be_read_are_unknown_with_the_readers_words(root: Path) -> None:
    def refused(device: str) -> dict[str, Any]:
        raise LabError(f"{device}: refused", errno=1)

    told = audit("eth1", settings=refused, root=root)
    reasons = {each.name: each.why_unknown for each in told.findings if each.verdict == "unknown"}
    assert set(reasons) == {"offloads", "pause", "qdisc"}
    assert "eth1: refused [EPERM" in str(reasons["pause"])


def test_one_setting_that_is_refused_is_unknown_alone(root: Path) -> None:
    refused = LabError("interface 2: flow control not supported", errno=95)
    seen = found(root, "pause", pause_rx=refused)
    assert (seen.verdict, seen.value) == ("unknown", None)
    assert "pause_rx: interface 2: flow control not supported [" in str(seen.why_unknown)
    assert found(root, "offloads", pause_rx=refused).verdict == "ok"


def test_without_a_device_its_checks_are_left_out(root: Path) -> None:
    names = {each.name for each in audit(root=root).findings}
    assert names == {each.name for each in CHECKS if not each.of_device}


@pytest.mark.parametrize("device", ["nosuch", "", "../net/eth1"])
def test_a_device_that_is_not_there_is_refused(root: Path, device: str) -> None:
    with pytest.raises(WorkloadError, match="no such interface"):
        audit(device, root=root)


def test_a_cpu_that_does_not_run_is_refused_with_those_that_do(root: Path) -> None:
    with pytest.raises(WorkloadError, match="CPU 7 is not running here; these are: 0, 1"):
        audit(cpu=7, root=root)


def test_every_check_says_why_it_matters_and_what_to_do() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert check.why.endswith("."), check.name
        assert check.advice, check.name


def test_the_verdict_over_all_is_the_worst(root: Path) -> None:
    findings = audit("eth1", settings=lambda _: SETTINGS, root=root).findings
    for worst in ("unknown", "look", "bad"):
        findings = (msgspec.structs.replace(findings[0], verdict=worst), *findings)
        assert audit_of(findings).verdict == worst
    assert audit_of(findings).counts == {"ok": len(CHECKS), "look": 1, "bad": 1, "unknown": 1}


def test_summary_names_what_is_not_ok_and_reads_no_processes(root: Path) -> None:
    assert audit_summary(root=root) == {"verdict": "ok", "bad": [], "look": [], "unknown": []}
    write(root, "proc/777/comm", "irqbalance")
    write(root, f"{CPU}/smt/active", "1")
    write(root, "proc/net/packet", PACKET_HEAD + TAP.format(9))
    (root / "proc/stat").unlink()
    told = audit_summary(cpu=1, root=root)
    assert told == {"verdict": "bad", "bad": ["packet_taps"], "look": ["smt"], "unknown": ["steal"]}


def test_lk_audit_is_callable_before_and_after_its_room_is_imported(root: Path) -> None:
    for _ in range(2):
        assert lk.audit(root=root).verdict == "ok"
    assert lk.audit_summary(root=root)["verdict"] == "ok"


@pytest.fixture
def cli(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(audit_command, "audit", lambda *words, **options: audit(*words, **options, root=root))

    def call(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main(["audit", *words])
        return ended.value.code, capsys.readouterr().out

    return call


def test_command_ends_with_0_whatever_it_found_and_prints_one_json_object(root: Path, cli: Any) -> None:
    write(root, f"{CPU}/cpu1/cpufreq/scaling_governor", "powersave")
    code, out = cli("--json", "--cpu", "1")
    assert code == 0
    assert json.loads(out) == json.loads(msgspec.json.encode(audit(cpu=1, root=root).as_json()))
    assert json.loads(out)["verdict"] == "look"


def test_command_shows_a_table_advice_for_what_is_not_ok_and_the_verdict(root: Path, cli: Any) -> None:
    write(root, f"{CPU}/smt/active", "1")
    (root / "proc/stat").unlink()
    code, out = cli()
    assert code == 0
    assert "echo off into smt/control" in out
    assert "cpupower frequency-set" not in out
    assert "steal: not known (" in out
    assert "verdict: look (0 bad, 1 look, 1 unknown, 13 ok)" in out


def test_command_for_a_missing_device_is_a_usage_error(cli: Any) -> None:
    assert cli("nosuch")[0] == 2


def test_cpus_are_kept_awake_until_the_block_ends(tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with cpus_kept_awake(device) as hold:
            assert (hold.held, hold.reason) == (True, None)
            assert os.read(reader, 16) == b"\0\0\0\0"
            with pytest.raises(BlockingIOError):  # a writer still holds it
                os.read(reader, 16)
        assert os.read(reader, 16) == b""
    finally:
        os.close(reader)


@pytest.mark.parametrize("name", ["nosuch", "."], ids=["absent", "not to be written"])
def test_where_it_is_not_permitted_nothing_is_held_and_the_reason_is_told(tmp_path: Path, name: str) -> None:
    with cpus_kept_awake(tmp_path / name) as hold:
        assert hold.held is False
        assert hold.reason
    with cpus_kept_awake(Path("/dev/full")) as full:
        assert (full.held, full.reason) == (False, "/dev/full: No space left on device")
