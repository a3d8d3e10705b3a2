"""What tests of guests share: their kernel and initramfs, made once a session, by way of apt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labkit.errors import CapabilityMissingError
from labkit.guest.image import GuestImage, image


@pytest.fixture(scope="session")
def guest_image(tmp_path_factory: pytest.TempPathFactory) -> GuestImage:
    """Made in a folder of this session, or in the one that LABKIT_TEST_CACHE names, which is kept."""
    chosen = os.environ.get("LABKIT_TEST_CACHE")
    cache = Path(chosen) if chosen else tmp_path_factory.mktemp("guest")
    try:
        return image(cache, tell=print)
    except CapabilityMissingError as missing:  # in CI this is a failure, by the marker of those who ask
        pytest.skip(str(missing))
