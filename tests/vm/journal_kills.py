"""Agents of a real driver that are killed in the middle of a change, run by a guest's Python as root.

Each child turns settings of eth0 and kills itself at one step of its journal; its parent looks at what is
left and opens the device again. The last child is left to what the agent of `labkit restore` does. Prints it
all as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from labkit.agent.device import DeviceHost, StateFolders
from labkit.agent.leftovers import restore_all
from labkit.factors import Scalar
from labkit.linux.links import Links
from labkit.nic.journal import FileJournal

STATE = Path("/run/state")
CHANGES: dict[str, Scalar] = {"tx_ring": 300, "rx_usecs": 500}
LOOKED_AT = ("tx_ring", "rx_usecs")
KILLS = (("before", "accept", 1), ("behind", "accept", 1), ("before", "accept", 2), ("in force", "", 0))
LINK_WITHIN_S = 30


def main() -> None:
    """Kill at each step, look, open again; then once more with the command."""
    links = Links()
    for name in ("eth0", "eth1"):
        links.set_up(name, up=True)
    deadline = time.monotonic() + LINK_WITHIN_S
    while not links.facts("eth0").carrier and time.monotonic() < deadline:
        pass
    told = []
    for kill in KILLS:
        killed(kill)
        left = values()
        again = opened()
        again.close()
        told.append({"kill": kill, "left": left, "notes": again.recovered, "back": values()})
    killed(KILLS[-1])
    left = values()
    told_by_command = [each.text for each in restore_all(StateFolders.below(STATE))]
    command = {"left": left, "said": told_by_command, "back": values()}
    journals = sorted(path.name for path in StateFolders.below(STATE).journal.iterdir())
    sys.stdout.write(json.dumps({"kills": told, "command": command, "journals": journals}))


def opened(*, look_only: bool = False) -> DeviceHost:
    """The agent's side of a `nic:` rig on eth0."""
    return DeviceHost(
        "eth0",
        port=None,
        i_know=None,
        look_only=look_only,
        ssh_connection=None,
        folders=StateFolders.below(STATE),
    )


def values() -> dict[str, Any]:
    """What is in force, by somebody who turns nothing."""
    host = opened(look_only=True)
    settings = host.look("wire").settings
    host.close()
    return {name: settings[name] for name in LOOKED_AT}


def killed(kill: tuple[str, str, int]) -> None:
    """A child that turns CHANGES, and is dead at that step of its journal."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return
    when, step, number = kill
    host = opened()
    if step:
        setattr(FileJournal, step, dying(getattr(FileJournal, step), number, when))
    host.apply(CHANGES)
    die()


def dying(step: Callable[..., None], number: int, when: str) -> Callable[..., None]:
    """`step` of the journal, at whose call of that number the process dies."""
    calls = 0

    def call(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == number and when == "before":
            die()
        step(*args)
        if calls == number:
            die()

    return call


def die() -> NoReturn:
    """End as the power does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


if __name__ == "__main__":
    main()
