"""How long a run may be, on every rig."""

from __future__ import annotations

from labkit.engines.base import MAX_COUNT, MAX_NS
from labkit.errors import WorkloadError
from labkit.units import ns_to_seconds


def check_length(duration_s: float, count: int | None) -> None:
    """Refuse what is no length of time or no number of frames.

    Raises
    ------
    WorkloadError
        Not a number, not above 0, not finite, or beyond what a run can be.
    """
    number = isinstance(duration_s, int | float) and not isinstance(duration_s, bool)
    if not number or not 0 < duration_s <= ns_to_seconds(MAX_NS):
        raise WorkloadError(
            f"duration_s {duration_s!r}: give a time above 0 and at most {ns_to_seconds(MAX_NS):g} seconds"
        )
    whole = isinstance(count, int) and not isinstance(count, bool)
    if count is not None and not (whole and 0 <= count <= MAX_COUNT):
        raise WorkloadError(f"count {count!r}: give a number of frames")
