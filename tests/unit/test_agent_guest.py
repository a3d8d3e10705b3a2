"""What an agent asks of a machine before it takes its cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.agent.device import StateFolders
from labkit.agent.guest import GuestHost
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
