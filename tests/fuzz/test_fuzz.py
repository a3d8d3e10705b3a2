"""What comes from outside is refused with words or is whole: half a minute of tries, ten seconds a target."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz_agent import check_stream, streams
from tests.fuzz_inputs import Parts, captures, check_capture, check_table, tables


@settings(max_examples=6_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(captures())
def test_damaged_captures_are_refused_or_whole(data: bytes) -> None:
    check_capture(data)


@settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=100), st.sampled_from(["", "d4c3b2a102000400", "a1b23c4d00020004"]))
def test_any_bytes_are_refused_or_whole(data: bytes, start: str) -> None:
    check_capture(bytes.fromhex(start) + data)


@settings(max_examples=14_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_tables_that_point_outside_their_block_are_refused_by_both_languages(parts: Parts) -> None:
    check_table(parts)


@settings(max_examples=2_500, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_agent_answers_damaged_requests_in_words_or_ends(data: bytes) -> None:
    check_stream(data)
