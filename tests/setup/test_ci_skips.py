"""With CI=true a behaviour that is left out is a failure; elsewhere it is a skip with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKERS = ("browser", "network", "registry", "user", "vm")
MARKED = "@pytest.mark.{marker}\ndef test_{marker}():\n    pytest.skip('nothing here')\n\n"
UNMARKED = "def test_unmarked():\n    pytest.skip('not on this kernel')\n"
MODULE = "import pytest\n\npytest.skip('nothing here', allow_module_level=True)\n"


def run(folder: Path, ci: str) -> str:
    """What pytest says of one skipped test a marker, one without a marker, and one skipped module."""
    shutil.copy(ROOT / "tests/conftest.py", folder / "conftest.py")
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n" + "".join(f"    {marker}: a marker\n" for marker in MARKERS)
    )
    tests = "".join(MARKED.format(marker=marker) for marker in MARKERS)
    (folder / "test_each.py").write_text(f"import pytest\n\n{tests}{UNMARKED}")
    (folder / "test_module.py").write_text(MODULE)
    options = ["-q", "-rs", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, folder],
        cwd=folder,
        env=dict(os.environ) | {"CI": ci},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout


def test_in_ci_what_is_left_out_fails_and_keeps_its_reason(tmp_path: Path) -> None:
    said = run(tmp_path, ci="true")
    assert f"{len(MARKERS)} failed, 1 skipped, 1 error" in said
    assert said.count("left out, which CI does not allow: Skipped: nothing here") >= len(MARKERS) + 1
    assert "not on this kernel" in said


def test_elsewhere_it_is_skipped_with_its_reason(tmp_path: Path) -> None:
    assert f"{len(MARKERS) + 2} skipped" in run(tmp_path, ci="")
