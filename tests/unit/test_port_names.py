"""Which port of a `nic:` rig is meant, and what is no name of one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from labkit.agent.port import Port, names_of
from labkit.errors import LabError, WorkloadError


def test_bare_name_is_here_and_one_behind_a_slash_in_that_namespace() -> None:
    assert names_of("eth9") == (None, "eth9")
    assert names_of("peer/eth9") == ("peer", "eth9")
    assert names_of("..peer/eth9.7") == ("..peer", "eth9.7")


@pytest.mark.parametrize(
    "text",
    ["", "/", "/eth9", "peer/", "../eth9", "./eth9", "peer/..", "..", "a/b/eth9", "../../tmp/eth9", "/run/x",
     "peer//eth9", "peer\0/eth9", "peer/eth9\0"],
)  # fmt: skip
def test_what_could_lead_to_another_folder_is_no_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkloadError, match="neither INTERFACE nor NAMESPACE/INTERFACE") as told:
        Port(text, tmp_path)
    assert repr(text) in str(told.value)


@pytest.mark.parametrize("name", ["peer", "p" * 300])
def test_absent_namespace_is_told_with_its_path_and_what_lists_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkloadError, match="no such network namespace; `ip netns list`") as told:
        Port(f"{name}/eth9", tmp_path)
    assert told.value.errno == (errno.ENOENT if name == "peer" else errno.ENAMETOOLONG)
    assert str(tmp_path / name) in str(told.value)


def test_pipe_in_a_namespaces_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "peer")
    with pytest.raises(LabError) as told:  # which of both errors depends on who asks
        Port("peer/eth9", tmp_path)
    assert told.value.errno in {errno.EINVAL, errno.EPERM}
