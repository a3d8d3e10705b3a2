"""When live samples are due."""

from __future__ import annotations

import pytest

from labkit.agent.runner import next_due_ns


@pytest.mark.parametrize(
    ("late_ns", "due_ns"),
    [(0, 1125), (62, 1125), (63, 1126), (124, 1187), (1000, 2063)],
)
def test_a_sample_that_came_late_is_not_followed_at_once(late_ns: int, due_ns: int) -> None:
    assert next_due_ns(1000, 1000 + late_ns, 125) == due_ns
