"""Simulated machines read from ``data/profiles``: one TOML file a NIC, one entry in it a kernel."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from labkit.drivers.facts import TransmitFacts
from labkit.drivers.ixgbe import IXGBE_2014
from labkit.errors import WorkloadError
from labkit.simnic.profile import Constants, Profile

DRIVERS: Final[Mapping[str, TransmitFacts]] = {IXGBE_2014.name: IXGBE_2014}


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Profiles in `folder` by name: a file's first kernel is ``ixgbe``, each other one ``ixgbe@kernel``."""
    found: dict[str, Profile] = {}
    for path in sorted(folder.glob("*.toml")):
        content = tomllib.loads(path.read_text())
        for position, kernel in enumerate(content["kernels"]):
            name = path.stem if position == 0 else f"{path.stem}@{kernel}"
            found[name] = _profile(name, content, content["kernels"][kernel])
    return found


def load_profile(folder: Path, name: str) -> Profile:
    """Profile `name` of `folder`.

    Raises
    ------
    WorkloadError
        No such profile; the message lists those that exist.
    """
    found = load_profiles(folder)
    if name not in found:
        known = ", ".join(f"sim:{each}" for each in found)
        raise WorkloadError(f"rig 'sim:{name}': no such profile in {folder}; known: {known}")
    return found[name]


def _profile(name: str, content: Mapping[str, Any], kernel: Mapping[str, Any]) -> Profile:
    return Profile(
        name=name,
        title=f"{content['title']}, {kernel['title']}",
        kernel=kernel["title"],
        cpu=content["cpu"],
        nic=content["nic"],
        what_if=content.get("what_if", False),
        driver=DRIVERS[content["driver"]],
        constants=msgspec.convert({**content["constants"], **kernel["constants"]}, Constants),
    )
