"""Full repeat counts of `tests/fuzz`: ten minutes of random tries, some three and a half a target."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz_agent import check_stream, streams
from tests.fuzz_inputs import Parts, captures, check_capture, check_table, tables

pytestmark = pytest.mark.soak


@settings(max_examples=140_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(captures())
def test_damaged_captures_are_refused_or_whole_many_times(data: bytes) -> None:
    check_capture(data)


@settings(max_examples=280_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_tables_that_point_outside_are_refused_many_times(parts: Parts) -> None:
    check_table(parts)


@settings(max_examples=50_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams())
def test_agent_answers_damaged_requests_in_words_or_ends_many_times(data: bytes) -> None:
    check_stream(data)
