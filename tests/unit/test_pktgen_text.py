"""pktgen's files as two kernels wrote them, and the fake kernel beside their answers."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import CapabilityMissingError
from labkit.linux.pktgen_text import parse_device, parse_result, parse_thread
from tests.pktgen_fakes import FakeDevice, Interface, RefusedError

INPUTS = Path(__file__).parent / "inputs"
KERNELS = ("6.1", "6.12")
RUNS = sorted(path for end in ("dummy", "e1000e", "lo") for path in INPUTS.glob(f"pktgen_6*_{end}_*.txt"))


def captured(name: str) -> str:
    return (INPUTS / f"pktgen_{name}.txt").read_text()


def test_documentations_example_is_read_and_its_finer_rate_is_not_overwritten() -> None:
    """100 000 frames in 15 430 us are 6 480 881 pps; the kernel divides finer time and prints 6 480 562."""
    device = parse_device(captured("kerneldoc_ok"))
    result = device.run_result
    assert result is not None
    assert (result.pps, result.errors, result.size_bytes) == (6480562, 0, 60)
    assert result.ns_per_packet == pytest.approx(154.31, abs=0.005)
    assert result.consistent
    assert (device.interface, device.suffix, device.params["clone_skb"]) == ("eth4", "0", "64")
    assert device.flags == ("UDPSRC_RND", "NO_TIMESTAMP", "QUEUE_MAP_CPU")


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_captured_run_agrees_with_itself(path: Path) -> None:
    device = parse_device(path.read_text())
    result = device.run_result
    assert result is not None
    assert result.consistent
    assert (result.packets, result.errors) == (device.sofar, device.errors)
    assert result.elapsed_us in (
        device.stopped_us - device.started_us,
        device.stopped_us - device.started_us - 1,
    )
    assert result.active_us + result.idle_us in (result.elapsed_us, result.elapsed_us - 1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_parameters_are_read_by_their_own_names(kernel: str) -> None:
    run = parse_device(captured(f"{kernel}_e1000e_burst32_clone"))
    assert (run.params["count"], run.params["clone_skb"], run.params["burst"]) == ("20000", "1000", "32")
    assert (run.params["dst_min"], run.params["dst_max"], run.params["src_max"]) == ("10.9.9.9", "", "")
    assert run.params["dst_mac"] == "02:00:00:00:00:02"
    assert run.flags == (() if kernel == "6.1" else ("SHARED",))
    assert parse_device(captured(f"{kernel}_e1000e_queue_xmit")).params["xmit_mode"] == "xmit_queue"


def test_both_tags_and_lists_are_told_apart() -> None:
    text = captured("6.1_fresh_device").replace(
        "     Flags:",
        "     imix_weights: 60,7 576,4 \n     mpls: 0001000a, 0002000a\n"
        "     vlan_id: 5  vlan_p: 1  vlan_cfi: 0\n     svlan_id: 6  vlan_p: 2  vlan_cfi: 1\n     Flags:",
    )
    params = parse_device(text).params
    assert params["imix_weights"] == "60,7 576,4"
    assert params["mpls"] == "0001000a, 0002000a"
    assert [params[name] for name in ("vlan_id", "vlan_p", "vlan_cfi")] == ["5", "1", "0"]
    assert [params[name] for name in ("svlan_id", "svlan_p", "svlan_cfi")] == ["6", "2", "1"]


def test_ipv6_addresses_are_values_too() -> None:
    text = captured("6.1_fresh_device").replace(
        "     dst_min:   dst_max: \n     src_min:   src_max: \n",
        "     saddr: ::  min_saddr: fd00::1  max_saddr: fd00::2\n"
        "     daddr: fd00::9  min_daddr: ::  max_daddr: ::\n",
    )
    params = parse_device(text).params
    assert (params["saddr"], params["min_saddr"], params["daddr"]) == ("::", "fd00::1", "fd00::9")


@pytest.mark.parametrize("kernel", KERNELS)
def test_fresh_device_has_no_result_and_no_time(kernel: str) -> None:
    device = parse_device(captured(f"{kernel}_fresh_device"))
    assert (device.run_result, device.result, device.started_us) == (None, "Idle", 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_file(kernel: str) -> None:
    idle = parse_thread(captured(f"{kernel}_kpktgend_0_idle"))
    assert (idle.devices, idle.result) == ((), "NA")
    assert parse_thread(captured(f"{kernel}_kpktgend_0_withdev")).result.startswith("ERROR: can not add")
    both = parse_thread("Running: eth0@0 \nStopped: eth1 eth2@x \nResult: OK: add_device=eth1\n")
    assert (both.running, both.stopped) == (("eth0@0",), ("eth1", "eth2@x"))


@pytest.mark.parametrize("text", ["", "Packet Generator", "Params: count 1\nCurrent:\nResult: Idle"])
def test_unknown_file_is_refused_in_words(text: str) -> None:
    with pytest.raises(CapabilityMissingError, match="device file is not known"):
        parse_device(text)
    with pytest.raises(CapabilityMissingError, match="thread file is not known"):
        parse_thread(text)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_device, parse_thread):
        with contextlib.suppress(CapabilityMissingError):
            parse(text)
    parse_result(text)


@given(st.data())
def test_damaged_capture_is_parsed_or_refused(data: st.DataObject) -> None:
    text = captured("6.12_e1000e_burst8")
    cut = data.draw(st.integers(0, len(text)))
    rest = data.draw(st.integers(cut, len(text)))
    put = data.draw(st.text(max_size=5))
    with contextlib.suppress(CapabilityMissingError):
        parse_device(text[:cut] + put + text[rest:])


@pytest.mark.parametrize("kernel", KERNELS)
def test_fake_kernel_answers_as_the_real_one_did(kernel: str) -> None:
    """Every command that was captured: return value and the last line of the answer."""
    device = FakeDevice("dummy0", kernel, Interface(), flags={"SHARED"} if kernel == "6.12" else set())
    for part in captured(f"{kernel}_command_results").split("> ")[1:]:
        command, code, *told = part.splitlines()
        returned = 0
        try:
            device.command(command)
        except RefusedError as refused:
            returned = -refused.number
        # the capture kept the last line alone; an answer of several lines may end with an empty one
        last = f"Result: {device.result}".split("\n")[-1]
        assert (command, f"rc={returned}", last) == (command, code, told[0] if told else "")


@pytest.mark.parametrize("kernel", KERNELS)
def test_fake_kernels_fresh_device_is_the_real_ones(kernel: str) -> None:
    real = parse_device(captured(f"{kernel}_fresh_device"))
    fake = FakeDevice("dummy0", kernel, Interface(), flags={"SHARED"} if kernel == "6.12" else set())
    told = parse_device(fake.text())
    same = real.params.keys() - {"src_mac"}
    assert {name: told.params[name] for name in same} == {name: real.params[name] for name in same}
    assert (told.flags, told.result) == (real.flags, real.result)
