"""Facts of the machine, read from a fake tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.errors import CapabilityMissingError
from labkit.linux.kernel_log import KernelLog
from labkit.linux.links import switch_ipv6_off
from labkit.linux.machine import kernel_at_least, machine_facts, runqueue_wait_ns, softnet_dropped, steal_ns
from labkit.linux.tbf import tbf_burst_bytes


def test_ipv6_is_off_for_links_to_come_absent_or_refused_with_advice(tmp_path: Path) -> None:
    assert switch_ipv6_off(tmp_path) is False
    scopes = [tmp_path / "sys/net/ipv6/conf" / scope / "disable_ipv6" for scope in ("all", "default")]
    for knob in scopes:
        knob.parent.mkdir(parents=True)
        knob.write_text("0")
    assert switch_ipv6_off(tmp_path) is True
    assert [knob.read_text() for knob in scopes] == ["1", "1"]
    scopes[1].unlink()
    scopes[1].mkdir()
    with pytest.raises(
        CapabilityMissingError, match=r"IPv6 cannot be switched off here .* writable /proc/sys"
    ):
        switch_ipv6_off(tmp_path)


def test_missing_files_are_none_not_zero(tmp_path: Path) -> None:
    facts = machine_facts(proc=tmp_path, sys=tmp_path)
    assert facts["cpu_model"] is None
    assert facts["governor"] is None
    assert steal_ns(0, tmp_path) is None
    assert runqueue_wait_ns(tmp_path) is None
    assert softnet_dropped(tmp_path) is None


@pytest.mark.parametrize(
    ("release", "known"),
    [
        ("6.16.0", True),
        ("6.16-rc1", True),
        ("6.18.44-generic", True),
        ("10.1", True),
        ("6.9.12", False),
        ("5.19", False),
        ("unknown", None),
        (None, None),
    ],
)
def test_kernels_release_is_compared_by_its_numbers(release: str | None, known: bool | None) -> None:
    assert kernel_at_least(release, (6, 16)) is known


def test_steal_of_one_cpu_is_read_from_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(
        "cpu 1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 0 0 0 0 0 0 0 3 0 0\n"
    )
    assert steal_ns(1, tmp_path) == 30_000_000
    assert steal_ns(7, tmp_path) is None


def test_runqueue_wait_is_the_second_field(tmp_path: Path) -> None:
    (tmp_path / "thread-self").mkdir()
    (tmp_path / "thread-self/schedstat").write_text("123 456 7\n")
    assert runqueue_wait_ns(tmp_path) == 456


def test_softnet_drops_add_up_over_cpus_in_hex(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/softnet_stat").write_text("000000ff 00000010 00000000\n00000001 00000001 00000000\n")
    assert softnet_dropped(tmp_path) == 17


def test_unreadable_kernel_log_is_unknown(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "nosuch")
    assert log.warnings() is None
    log.close()


def test_kernel_log_tells_new_warnings_only(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    device.write_text("4,1,1,-;old warning\n")
    log = KernelLog(device)
    with device.open("a") as kernel:
        kernel.write("4,2,2,-;veth0: trouble\n")
    assert log.warnings() == ["veth0: trouble"]
    with device.open("a") as kernel:
        kernel.write("6,3,3,-;just so you know\n")
    assert log.warnings() == []
    log.close()


def test_stop_of_what_has_stopped_is_no_warning(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    device.write_text("")
    log = KernelLog(device)
    with device.open("a") as kernel:
        kernel.write("4,2,2,-;pktgen: interface: eth0@lk1 is already stopped\n")
    assert log.warnings() == []
    with device.open("a") as kernel:
        kernel.write("4,3,3,-;pktgen: WARNING: Requested queue_map_min (zero-based) (3)\n")
    assert log.warnings() == ["pktgen: WARNING: Requested queue_map_min (zero-based) (3)"]
    log.close()


@pytest.mark.parametrize(
    "bits_per_s", [8, 8_000, 10**6, 843 * 10**6, 10**9, 2_345_678_912, 10**10, 2**35 - 8]
)
def test_burst_of_tbf_holds_a_full_frame_as_whole_microseconds(bits_per_s: int) -> None:
    bytes_per_s = bits_per_s // 8
    burst = tbf_burst_bytes(bytes_per_s)
    kept_us = int(1_000_000 * (float(burst) / bytes_per_s))  # what pyroute2 makes of it
    assert kept_us * bytes_per_s / 1_000_000 >= 1514
    assert burst <= max(1601, 1600 + bytes_per_s // 1_000_000 + 1)
