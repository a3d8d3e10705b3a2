from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit import paths
from labkit.cli import lab_command, main
from labkit.errors import WorkloadError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "a.ipynb").write_text("a1")
    (folder / "b.ipynb").write_text("b1")
    return folder


def test_copies_follow_the_checkout_until_the_user_changes_them(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "lab"
    assert lab_command.copy_notebooks(source, folder) == []
    (folder / "a.ipynb").write_text("mine")
    assert lab_command.copy_notebooks(source, folder) == []
    (source / "a.ipynb").write_text("a2")
    (source / "b.ipynb").write_text("b2")
    assert lab_command.copy_notebooks(source, folder) == ["a.ipynb"]
    assert (folder / "a.ipynb").read_text() == "mine"
    assert (folder / "b.ipynb").read_text() == "b2"
    (folder / "a.ipynb").unlink()
    assert lab_command.copy_notebooks(source, folder) == []
    assert (folder / "a.ipynb").read_text() == "a2"


def test_a_file_that_labkit_never_copied_is_the_users(source: Path, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "a.ipynb").write_text("older than the ledger")
    assert lab_command.copy_notebooks(source, tmp_path / "lab") == ["a.ipynb"]
    assert (tmp_path / "lab" / "a.ipynb").read_text() == "older than the ledger"


def test_no_notebooks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="run labkit from a checkout"):
        lab_command.copy_notebooks(tmp_path, tmp_path / "lab")


def test_jupyterlab_reads_the_settings_that_keep_its_news_shut(tmp_path: Path) -> None:
    code = (
        "import json; from jupyterlab_server.settings_utils import _get_overrides; "
        "print(json.dumps(_get_overrides('/nowhere')[0]))"
    )
    search = {"JUPYTER_CONFIG_PATH": str(lab_command.write_settings(tmp_path)), "HOME": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | search,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(said.stdout) == lab_command.NO_NEWS


def test_lab_becomes_jupyterlab_on_the_copies(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(paths, "notebooks_dir", lambda: source)
    monkeypatch.setattr(os, "execve", lambda *given: started.append(given))
    with pytest.raises(SystemExit):
        main(["lab", "--out", str(tmp_path / "mine"), "--", "--no-browser", "--port", "9000"])
    ((program, words, environment),) = started
    assert program == sys.executable
    assert words[1:4] == ["-m", "jupyterlab", f"--ServerApp.root_dir={tmp_path / 'mine'}"]
    assert words[-3:] == ["--no-browser", "--port", "9000"]
    assert environment["JUPYTER_CONFIG_PATH"].split(":")[0] == str(tmp_path / "mine" / ".jupyter")
