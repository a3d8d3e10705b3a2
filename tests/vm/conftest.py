"""What tests of guests share: their kernel and initramfs, made once a session, by way of apt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.errors import CapabilityMissingError
from labkit.guest.image import GuestImage, image
from labkit.rigs.vm import VmRig


@pytest.fixture(scope="session")
def guest_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, or the one that LABKIT_TEST_CACHE names, which is kept."""
    chosen = os.environ.get("LABKIT_TEST_CACHE")
    return Path(chosen) if chosen else tmp_path_factory.mktemp("guest")


@pytest.fixture(scope="session")
def guest_image(guest_cache: Path) -> GuestImage:
    """Kernel and initramfs in that folder."""
    try:
        return image(guest_cache, tell=print)
    except CapabilityMissingError as missing:  # in CI this is a failure, by the marker of those who ask
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def e1000e(guest_image: GuestImage, guest_cache: Path) -> Iterator[VmRig]:
    """A guest with two e1000e, one for a module's tests."""
    with VmRig("e1000e", cache=guest_cache) as rig:
        yield rig


@pytest.fixture(scope="module")
def virtio_net(guest_image: GuestImage, guest_cache: Path) -> Iterator[VmRig]:
    """A guest with two cards of virtio's."""
    with VmRig("virtio_net", cache=guest_cache) as rig:
        yield rig


@pytest.fixture(scope="module")
def vmxnet3(guest_image: GuestImage, guest_cache: Path) -> Iterator[VmRig]:
    """A guest with two vmxnet3."""
    with VmRig("vmxnet3", cache=guest_cache) as rig:
        yield rig
