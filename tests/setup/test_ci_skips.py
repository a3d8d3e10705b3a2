"""With CI=true a behaviour that is left out is a failure; elsewhere it is a skip with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKERS = ("browser", "network", "registry", "user")
SKIPS = "import pytest\n\n@pytest.mark.{marker}\ndef test_it():\n    pytest.skip('nothing here')\n"
UNMARKED = "import pytest\n\ndef test_it():\n    pytest.skip('not on this kernel')\n"
MODULE = "import pytest\n\npytest.skip('nothing here', allow_module_level=True)\n"


def run(folder: Path, source: str, ci: str) -> tuple[int, str]:
    shutil.copy(ROOT / "tests/conftest.py", folder / "conftest.py")
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n" + "".join(f"    {marker}: a marker\n" for marker in MARKERS)
    )
    (folder / "test_it.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", folder],
        cwd=folder,
        env=dict(os.environ) | {"CI": ci},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("source", [MODULE, *(SKIPS.format(marker=marker) for marker in MARKERS)])
def test_skip_fails_in_ci_and_keeps_its_reason(tmp_path: Path, source: str) -> None:
    code, said = run(tmp_path, source, ci="true")
    assert code not in (0, 5), said
    assert "left out, which CI does not allow" in said


@pytest.mark.parametrize("marker", MARKERS)
def test_skip_elsewhere_is_a_skip_with_its_reason(tmp_path: Path, marker: str) -> None:
    code, said = run(tmp_path, SKIPS.format(marker=marker), ci="")
    assert code == 0, said
    assert "1 skipped" in said


def test_unmarked_skip_stays_a_skip_in_ci(tmp_path: Path) -> None:
    code, said = run(tmp_path, UNMARKED, ci="true")
    assert code == 0, said
    assert "not on this kernel" in said
