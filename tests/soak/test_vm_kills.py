"""Full repeat counts: 20 kills of guest or notebook, while it starts, while it runs, while settings turn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from labkit.guest.image import GuestImage
from tests.vm.conftest import guest_cache, guest_image  # noqa: F401 - fixtures
from tests.vm.vm_kills import VICTIMS, killed

pytestmark = [pytest.mark.soak, pytest.mark.vm]
KILLS = 20
MOMENTS = ("starting", "up", "sent")


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_at_a_random_moment_nothing_is_left(
    guest_image: GuestImage,  # noqa: F811 - the fixture
    guest_cache: Path,  # noqa: F811 - the fixture
    seed: int,
) -> None:
    draw = random.Random(seed)
    at = MOMENTS[seed % len(MOMENTS)]
    # from "starting" on it takes some seconds to come up
    killed(
        guest_cache,
        VICTIMS[seed // 3 % len(VICTIMS)],
        at,
        draw.uniform(0.0, 6.0 if at == "starting" else 2.0),
    )
