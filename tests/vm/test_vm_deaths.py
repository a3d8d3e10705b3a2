"""Whoever of notebook, keeper and machine is killed: the others go, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.guest.image import GuestImage
from tests.vm.vm_kills import VICTIMS, Victim, killed

pytestmark = pytest.mark.vm


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_in_a_run_nothing_of_the_guest_is_left(
    guest_image: GuestImage, guest_cache: Path, victim: Victim
) -> None:
    killed(guest_cache, victim, at="sent", later_s=0.3)


def test_a_notebook_killed_while_the_guest_starts_leaves_nothing(
    guest_image: GuestImage, guest_cache: Path
) -> None:
    killed(guest_cache, "notebook", at="starting", later_s=1.0)
