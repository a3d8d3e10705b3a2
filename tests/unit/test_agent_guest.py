"""What an agent asks of a machine before it takes its cards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labkit.agent.device import StateFolders
from labkit.agent.guest import GuestHost, receive_first
from labkit.errors import CapabilityMissingError
from labkit.guest.words import kernel_words


@pytest.mark.parametrize("cmdline", ["root=/dev/vda quiet", None])
def test_a_machine_that_labkit_did_not_start_keeps_its_interfaces(
    tmp_path: Path, cmdline: str | None
) -> None:
    if cmdline is not None:
        (tmp_path / "cmdline").write_text(cmdline)
    with pytest.raises(CapabilityMissingError, match="no machine that labkit started"):
        GuestHost(StateFolders.below(tmp_path), proc=tmp_path)


def test_what_the_init_is_told_is_what_the_agent_looks_for() -> None:
    from labkit.agent.guest import STARTED_BY

    assert any(word.startswith(STARTED_BY) for word in kernel_words([], {}, ["/bin/agent"]).split())


def test_deferred_receive_work_comes_before_every_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, name in {1: "init", 15: "ksoftirqd/0", 16: "kpktgend_0", 21: "ksoftirqd/1"}.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "77").mkdir()  # ended meanwhile: nothing in it
    given: dict[int, tuple[int, int]] = {}

    def take(pid: int, policy: int, param: os.sched_param) -> None:
        given[pid] = policy, param.sched_priority

    monkeypatch.setattr(os, "sched_setscheduler", take)
    receive_first(tmp_path)
    assert given == {15: (os.SCHED_FIFO, 1), 21: (os.SCHED_FIFO, 1)}
