"""The native module's own surface: tables, flags, stub."""

from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from labkit import _native

STUB = Path(__file__).resolve().parents[2] / "labkit" / "_native.pyi"


def table(block: bytes, offsets: list[int], lengths: list[int]) -> _native.FrameTable:
    return _native.FrameTable(block, array("Q", offsets).tobytes(), array("I", lengths).tobytes())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_table_takes_any_buffer(kind: type) -> None:
    made = _native.FrameTable(kind(bytes(120)), array("Q", [0, 60]), array("I", [60, 60]))
    assert (len(made), made.block_bytes) == (2, 120)


def test_table_keeps_frames_that_touch_or_overlap_the_end() -> None:
    assert len(table(bytes(10), [0, 5, 10, 2], [10, 5, 0, 8])) == 4


@pytest.mark.parametrize(
    ("offsets", "lengths", "words"),
    [
        ([], [], "no frame"),
        ([0, 1], [1], "2 offsets for 1 lengths"),
        ([0], [11], "ends behind"),
        ([11], [0], "ends behind"),
        ([2**64 - 1], [2], "ends behind"),
    ],
)
def test_table_refuses_frames_outside_the_block(offsets: list[int], lengths: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        table(bytes(10), offsets, lengths)


def test_table_refuses_half_an_offset() -> None:
    with pytest.raises(ValueError, match="whole values of 8 bytes"):
        _native.FrameTable(bytes(10), bytes(7), bytes(4))


def test_table_refuses_what_is_no_buffer() -> None:
    with pytest.raises(TypeError):
        _native.FrameTable("text", bytes(8), bytes(4))  # type: ignore[arg-type]


def test_stop_flag_stays_set() -> None:
    flag = _native.StopFlag()
    assert not flag.is_set()
    flag.set()
    assert flag.is_set()


def test_progress_shows_what_was_stored() -> None:
    progress = _native.Progress()
    assert (progress.sent, progress.refused) == (0, 0)
    progress.store(2**40, 3)
    assert (progress.sent, progress.refused) == (2**40, 3)


def test_progress_says_when_frames_of_a_paced_run_are_due() -> None:
    progress = _native.Progress()
    assert (progress.start_ns, progress.frame_ns) == (None, None)
    progress.pace(5_000, 2.5)
    assert (progress.start_ns, progress.frame_ns) == (5_000, 2.5)


def test_committed_stub_says_what_the_module_offers(tmp_path: Path) -> None:
    fresh = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "labkit._native", "-o", str(fresh)]
    subprocess.run(command, check=True, timeout=60)
    assert STUB.read_text() == fresh.read_text()
