"""On a real driver too: what a killed agent left is put back by the next one, or by `labkit restore`."""

from __future__ import annotations

import json
import sys

import pytest

from labkit.guest.image import GuestImage
from tests.vm import journal_kills
from tests.vm.boot import boot

pytestmark = pytest.mark.vm

BEFORE = {"tx_ring": 256, "rx_usecs": 3}


def test_settings_of_a_killed_agent_are_put_back(guest_image: GuestImage) -> None:
    said = boot(guest_image, [sys.executable, "-I", journal_kills.__file__])
    assert said.port, said.console
    told = json.loads(said.port)
    left = [each["left"] for each in told["kills"]]
    assert left == [
        {"tx_ring": 304, "rx_usecs": 3},
        {"tx_ring": 304, "rx_usecs": 3},
        {"tx_ring": 304, "rx_usecs": 500},
        {"tx_ring": 304, "rx_usecs": 500},
    ]
    for each in told["kills"]:
        assert each["back"] == BEFORE
        assert any("tx_ring" in note and "256" in note for note in each["notes"])
        assert any("rx_usecs" in note for note in each["notes"]) or each["left"]["rx_usecs"] == 3
    command = told["command"]
    assert command["left"] == {"tx_ring": 304, "rx_usecs": 500}
    assert len(command["said"]) == 2
    assert all(text.startswith("eth0") for text in command["said"])
    assert command["back"] == BEFORE
    assert told["journals"] == []
