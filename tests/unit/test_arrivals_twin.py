"""What a receiving sink counts: native and its slow twin alike, on streams with every kind of disorder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit import _native
from labkit.engines.reference_arrivals import WINDOW, Arrivals
from labkit.engines.reference_stamp import payload_at
from labkit.traffic.table import FrameTable
from tests.stamped_frames import stamped

TAGS = [
    b"",
    b"\x81\x00\x00\x05",
    b"\x88\xa8\x00\x05\x81\x00\x00\x07",
    b"\x91\x00\x00\x05\x81\x00\x00\x07",
]
COUNTS = ("received", "foreign", "corrupted", "distinct", "duplicates", "reordered", "beyond_window")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the frames of a table are like."""

    size: int
    payload_bytes: int
    ipv6: bool
    tags: bytes
    checksum: bool

    def frame(self, number: int, index: int, **more: Any) -> bytes:
        """Frame `index` of the table with `number` in it."""
        wanted = {
            "payload_bytes": self.payload_bytes + index % 3,
            "fill": index,
            "ipv6": self.ipv6,
            "tags": self.tags,
            "checksum": self.checksum or self.ipv6,
            "port": index,
        }
        return stamped(number, **(wanted | more))

    def table(self) -> FrameTable:
        return FrameTable.of(self.frame(0, index) for index in range(self.size))


def both(table: FrameTable, stream: Sequence[bytes], **check: Any) -> dict[str, int]:
    """Counts of the native sink, which are the twin's."""
    native = _native.FrameTable(table.block, table.offsets, table.lengths)
    report = _native.count_arrivals(native, list(stream), addresses=True, **check)
    twin = Arrivals(table, **check)
    for frame in stream:
        twin.frame(frame)
    counted = {name: getattr(report, name) for name in COUNTS}
    assert counted == {name: getattr(twin, name) for name in COUNTS}
    return counted


kinds = st.builds(
    Kind,
    size=st.integers(1, 7),
    payload_bytes=st.integers(16, 40),
    ipv6=st.booleans(),
    tags=st.sampled_from(TAGS),
    checksum=st.booleans(),
)
places = st.one_of(
    st.integers(0, 12), st.integers(0, 200), st.integers(WINDOW - 3, WINDOW + 70), st.integers(0, 1 << 20)
)
harm = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.integers(0, 120), st.integers(1, 255)),
    st.just("short"),
    st.just("pad"),
)
first_numbers = st.sampled_from([0, 1, 2**31 - 2, 2**31, 2**32 - 5, 2**32 - 1])


def harmed(frame: bytes, how: object) -> bytes:
    """`frame` with a byte turned over, its end cut off, or padded as a device would."""
    if how == "short":
        return frame[:-1]
    if how == "pad":
        return frame.ljust(60, b"\0")
    if isinstance(how, tuple):
        at, bits = how[0] % len(frame), how[1]
        return frame[:at] + bytes([frame[at] ^ bits]) + frame[at + 1 :]
    return frame


@settings(max_examples=400, deadline=None)
@given(
    kind=kinds,
    stream=st.lists(st.tuples(places, harm), max_size=40),
    first=first_numbers,
    content=st.booleans(),
)
@example(
    kind=Kind(3, 16, False, b"", True),
    stream=[(0, None), (WINDOW + 5, None), (1, None)],
    first=0,
    content=True,
)
def test_native_and_twin_count_the_same_of_numbered_streams(
    kind: Kind, stream: list[tuple[int, object]], first: int, content: bool
) -> None:
    frames = [harmed(kind.frame(first + place, place % kind.size), how) for place, how in stream]
    both(kind.table(), frames, content=content, numbered=True, first_number=first)


@settings(max_examples=200, deadline=None)
@given(kind=kinds, stream=st.lists(st.tuples(st.integers(0, 20), harm), max_size=40), content=st.booleans())
def test_native_and_twin_count_the_same_of_frames_without_numbers(
    kind: Kind, stream: list[tuple[int, object]], content: bool
) -> None:
    table = kind.table()
    frames = [harmed(table.frame(place % kind.size), how) for place, how in stream]
    both(table, frames, content=content, numbered=False)


def counted(order: Sequence[int], first: int = 0) -> dict[str, int]:
    kind = Kind(5, 18, ipv6=False, tags=b"", checksum=True)
    frames = [kind.frame(first + place, place % 5) for place in order]
    return both(kind.table(), frames, content=True, numbered=True, first_number=first)


@pytest.mark.parametrize("first", [0, 2**32 - 3])
@pytest.mark.parametrize(
    ("order", "distinct", "duplicates", "reordered"),
    [
        ([0, 1, 2, 3, 4, 5], 6, 0, 0),
        ([0, 2, 1, 3, 4], 5, 0, 1),
        ([0, 3, 1, 2, 4], 5, 0, 2),
        ([0, 1, 1, 1, 2], 3, 2, 0),
        ([0, 2, 1, 1, 2], 3, 2, 1),
        ([5, 4, 3, 2, 1, 0], 6, 0, 5),
        ([0, 5], 2, 0, 0),
    ],
)
def test_disorder_is_told_apart(
    order: list[int], distinct: int, duplicates: int, reordered: int, first: int
) -> None:
    told = counted(order, first)
    assert (told["distinct"], told["duplicates"], told["reordered"]) == (distinct, duplicates, reordered)
    assert (told["received"], told["corrupted"], told["foreign"]) == (len(order), 0, 0)


def test_what_is_later_than_the_window_is_reordered_and_said_to_be_so() -> None:
    told = counted([0, WINDOW - 1, 0, WINDOW, 1, 0])
    # place 0 is just within the window the first time, and just beyond it the second
    assert (told["duplicates"], told["reordered"], told["beyond_window"], told["distinct"]) == (1, 2, 1, 5)


def test_stray_number_from_before_the_first_is_not_believed() -> None:
    kind = Kind(5, 18, ipv6=False, tags=b"", checksum=True)
    told = both(kind.table(), [kind.frame(2**32 - 1, 4)], content=True, numbered=True)
    assert (told["received"], told["corrupted"], told["distinct"]) == (1, 1, 0)


def test_every_turned_bit_of_a_frame_is_noticed() -> None:
    kind = Kind(2, 20, ipv6=False, tags=b"", checksum=True)
    whole = kind.frame(1, 1)
    for at in range(len(whole)):
        for bit in range(8):
            told = both(kind.table(), [harmed(whole, (at, 1 << bit))], content=True, numbered=True)
            assert told["distinct"] == 0
            assert (told["foreign"], told["corrupted"]) == ((1, 0) if at < 14 else (0, 1))


def test_checksums_that_were_wrong_in_the_table_are_not_held_against_frames() -> None:
    frames = [harmed(stamped(0, checksum=True), (40, 1))]
    told = both(FrameTable.of(frames), frames, content=True, numbered=True)
    assert (told["corrupted"], told["distinct"]) == (0, 1)


@pytest.mark.parametrize("tags", TAGS)
def test_numbers_are_found_behind_every_tag_that_frames_are_stamped_behind(tags: bytes) -> None:
    kind = Kind(3, 20, ipv6=False, tags=tags, checksum=True)
    stream = [kind.frame(number, number) for number in range(3)]
    told = both(kind.table(), stream, content=True, numbered=True)
    assert (told["distinct"], told["corrupted"]) == (3, 0)
    assert payload_at(stream[0], 0) == 42 + len(tags)


def test_frames_that_hold_no_number_cannot_be_numbered() -> None:
    frame = stamped(0)[:-4]
    native = _native.FrameTable(
        *(getattr(FrameTable.of([frame]), name) for name in ("block", "offsets", "lengths"))
    )
    with pytest.raises(ValueError, match="frame 0 has no room for pktgen's header"):
        _native.count_arrivals(native, [], addresses=True, content=True, numbered=True)


@pytest.mark.parametrize(
    ("numbers", "own"), [([0, 1, 2], True), ([0, 1, 1], False), ([1, 2, 3], False), ([0], True)]
)
def test_table_that_numbers_itself_is_known(numbers: list[int], own: bool) -> None:
    table = FrameTable.of(map(stamped, numbers))
    assert _native.numbers_itself(_native.FrameTable(table.block, table.offsets, table.lengths)) is own
