"""Full repeat counts of the event loop: against its slow twin, and against the closed law."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.test_sim_loop import assert_law_and_loop_agree
from tests.unit.test_sim_loop_twin import Fields, assert_same, everything

pytestmark = pytest.mark.soak


@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(everything())
def test_loop_counts_what_its_twin_counts_ten_thousand_times(drawn: Fields) -> None:
    assert_same(drawn)


@pytest.mark.parametrize("seed", range(3))
def test_law_and_loop_agree_over_a_thousand_settings(seed: int) -> None:
    assert_law_and_loop_agree(1_000, seed)
