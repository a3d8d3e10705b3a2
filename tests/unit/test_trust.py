"""Code that acts as root lies where only root can write."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from labkit.agent.install import sudoers_line
from labkit.agent.trust import loaded_code, open_to_others, refuse_open_code
from labkit.cli.app import main
from labkit.errors import CapabilityMissingError


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_folder_that_others_can_write_is_refused_at_any_depth(tmp_path: Path, mode: int) -> None:
    package = tmp_path / "opened/labkit/agent"
    package.mkdir(parents=True)
    (tmp_path / "opened").chmod(mode)
    assert tmp_path / "opened" in open_to_others(package)
    with pytest.raises(CapabilityMissingError, match="install-agent"):
        refuse_open_code([package])


def test_folder_of_ones_own_is_no_reason_to_refuse(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir(mode=0o755)
    assert not {package, tmp_path} & set(open_to_others(package))


def test_file_that_others_can_write_is_refused_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.touch(mode=0o644)
    assert module not in open_to_others(module)
    module.chmod(0o664)
    assert module in open_to_others(module)


def test_everything_that_runs_is_looked_at() -> None:
    code = loaded_code()
    assert {Path(pytest.__file__).resolve(), Path(stat.__file__).resolve()} <= set(code)


def test_preview_refuses_a_user_that_sudo_reads_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["install-agent", "--user", "ALL", "--dry-run"])
    assert ended.value.code == 2
    assert "there is no user 'ALL' here" in capsys.readouterr().err


def test_rule_names_one_user_and_every_word_of_the_command() -> None:
    assert sudoers_line("ann", Path("/opt/agent")) == (
        "ann ALL=(root) NOPASSWD: /opt/agent/bin/python -I -m labkit.agent"
    )
