"""Captures come in whole or not at all, with the reason; what goes out comes in again, byte for byte."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.utils import rdpcap

from labkit.errors import LabError, WorkloadError
from labkit.traffic import captures
from labkit.traffic.captures import pcap_flow, write_pcap
from labkit.traffic.flows import udp_flow
from labkit.traffic.mixes import imix_flow
from labkit.traffic.pcap import pcap_bytes, read_pcap
from labkit.traffic.show import craft_text
from labkit.traffic.table import FrameTable

INPUTS = Path(__file__).parent / "inputs"
FRAME = udp_flow(flows=1).table().frame(0)


def given(name: str) -> bytes:
    return bytes.fromhex((INPUTS / f"pcap_{name}.hex").read_text())


def capture(*frames: bytes, order: str = "<", magic: int = 0xA1B2C3D4, link: int = 1) -> bytes:
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    return head + b"".join(record(len(frame), len(frame), frame, order) for frame in frames)


def record(captured: int, original: int, frame: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}IIII", 1, 999_999_999, captured, original) + frame


def test_captures_of_the_cases_are_read_or_refused() -> None:
    assert [len(read_pcap(given("ok")).frame(index)) for index in range(2)] == [60, 60]
    assert len(read_pcap(given("nano"))) == 1
    with pytest.raises(WorkloadError, match=r"frame 0 was captured in part, 34 of 60 bytes.*tcpdump -s 0"):
        read_pcap(given("snap"))
    with pytest.raises(WorkloadError, match=r"not Ethernet: link type 276, Linux cooked v2 \(SLL2\)"):
        read_pcap(given("sll2"))
    with pytest.raises(WorkloadError, match="no packets"):
        read_pcap(given("empty"))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_both_byte_orders_and_both_resolutions_are_read(order: str, magic: int) -> None:
    table = read_pcap(capture(FRAME, FRAME[:14], order=order, magic=magic))
    assert [table.frame(index) for index in range(2)] == [FRAME, FRAME[:14]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"\n\r\r\n" + bytes(40), r"pcapng; make it classic: editcap -F pcap"),
        (b"\x1f\x8b\x08" + bytes(40), "compressed; .* gunzip"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "compressed; .* unzstd"),
        (bytes.fromhex("34cdb2a1") + bytes(40), "patched libpcap"),
        (b"no capture at all, but a text", "not a pcap file: it begins with 6e6f2063"),
        (b"\xd4\xc3\xb2", "not a pcap file"),
        (capture()[:23], "the file is cut: 23 of the 24 bytes of a pcap header"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 3, 0, 0, 65535, 1), r"version 2\.3; labkit reads 2\.4"),
        (capture(FRAME, link=113), r"link type 113, Linux cooked \(SLL\)"),
        (capture(FRAME, link=101), r"link type 101, raw IP"),
        (capture(FRAME, link=195), r"not Ethernet: link type 195; "),
        (capture(FRAME, link=0x2400_0001), "check sequence of 4 bytes"),
        (capture(FRAME)[:-1], "cut in frame 0: 59 of its 60 bytes"),
        (capture(FRAME) + bytes(15), "cut in frame 1: 15 of 16 bytes of its head"),
        (capture() + record(61, 60, FRAME), "frame 0 cannot be: 61 bytes captured of 60"),
        (capture() + record(2**32 - 1, 2**32 - 1, FRAME), "frame 0 cannot be: 4294967295 bytes captured"),
        (capture(FRAME) + record(0, 0, b""), "frame 1 of 0 bytes is shorter than an Ethernet header"),
        (capture(FRAME) + record(13, 13, bytes(13)), "frame 1 of 13 bytes is shorter"),
        (capture(FRAME) + record(0, 60, b""), "frame 1 was captured in part, 0 of 60"),
    ],
)
def test_what_is_no_whole_capture_of_ethernet_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        read_pcap(data)


@pytest.mark.parametrize("flow", [udp_flow(42, 3), udp_flow(vlan=(30, 7)), imix_flow(5)], ids=str)
def test_what_is_written_is_read_again(tmp_path: Path, flow: captures.Traffic) -> None:
    file = tmp_path / "out.pcap"
    write_pcap(flow, file)
    assert pcap_flow(file, pad_bytes=None).table() == flow.table()
    assert [bytes(packet) for packet in rdpcap(str(file))] == [
        flow.table().frame(index) for index in range(len(flow.table()))
    ]
    write_pcap(flow, tmp_path / "again.pcap")
    assert (tmp_path / "again.pcap").read_bytes() == file.read_bytes()


def test_short_frames_of_a_capture_are_padded_as_all_are(tmp_path: Path) -> None:
    file = tmp_path / "short.pcap"
    file.write_bytes(capture(FRAME[:42], FRAME + b"longer"))
    table = pcap_flow(file).table()
    assert [table.frame(index) for index in range(2)] == [FRAME[:42] + bytes(18), FRAME + b"longer"]
    told = pcap_flow(file).describe()
    assert (told["sizes"], told["frame_bytes"], told["mean_frame_bytes"]) == ({"60": 1, "66": 1}, 66, 63)
    assert json.loads(json.dumps(told)) == told
    assert told != pcap_flow(file, pad_bytes=None).describe()
    assert "capture short.pcap\n2 frames of 60 to 66 bytes, 63.0 on average (87 on the wire)\n" in craft_text(
        pcap_flow(file)
    )
    with pytest.raises(WorkloadError, match=r"short\.pcap: a capture has its own lengths"):
        pcap_flow(file).with_frame_bytes(64)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, r"in\.pcap: cannot be read.*ENOENT"),
        (lambda path: path.mkdir(), r"in\.pcap: cannot be read.*EISDIR"),
        (os.mkfifo, r"in\.pcap: is no regular file"),
        (lambda path: path.write_bytes(given("empty")), r"in\.pcap: no packets"),
        (
            lambda path: os.truncate(path.touch() or path, (1 << 28) + 1),
            r"268435457 bytes, more than.*editcap",
        ),
    ],
)
def test_file_that_cannot_be_read_is_named(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    make(tmp_path / "in.pcap")
    with pytest.raises(WorkloadError, match=said):
        pcap_flow(tmp_path / "in.pcap")


def test_names_that_no_file_can_have_and_places_that_take_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read"):
        pcap_flow("nul\0byte")
    with pytest.raises(LabError, match=r"cannot be written; give another place \[ENOENT"):
        write_pcap(udp_flow(), tmp_path / "nowhere" / "out.pcap")


def test_header_says_classic_ethernet_and_whole_frames() -> None:
    written = pcap_bytes(FrameTable.of([FRAME]))
    assert written[:24].hex() == "d4c3b2a1020004000000000000000000" + "00000400" + "01000000"
    assert written[24:40].hex() == bytes(8).hex() + "3c0000003c000000"
