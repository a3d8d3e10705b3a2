"""The lock is complete, hashed, free of addresses, and has a solution on Debian 12's own Python."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEBIAN_PYTHON = "/usr/bin/python3"


def entries() -> list[str]:
    """Each locked requirement as one line, hashes included."""
    return LOCK.read_text().replace("\\\n", " ").strip().splitlines()


def locked() -> dict[str, str]:
    """Version by package; a package may be locked once for each marker."""
    requirements = [Requirement(entry.partition(" --hash")[0]) for entry in entries()]
    return {canonicalize_name(item.name): str(item.specifier).removeprefix("==") for item in requirements}


def test_lock_holds_no_address() -> None:
    assert "://" not in LOCK.read_text()
    assert "index-url" not in LOCK.read_text()


def test_every_entry_is_pinned_and_hashed() -> None:
    for entry in entries():
        assert re.match(r"[a-z0-9.-]+==[^ ]+( ; .+?)? +--hash=sha256:[0-9a-f]{64}( |$)", entry), entry[:120]


def test_everything_that_pyproject_asks_for_is_locked_in_range() -> None:
    asked = PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]
    for requirement in [*asked, *PROJECT["build-system"]["requires"]]:
        wanted = Requirement(requirement)
        version = locked().get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted.name} is not in the lock: make lock"
        assert wanted.specifier.contains(version), f"{wanted} against {version}: make lock"


@pytest.mark.registry
@pytest.mark.timeout(300)
def test_lock_has_a_solution_on_debians_own_python(tmp_path: Path) -> None:
    target = tmp_path / "venv"
    subprocess.run([DEBIAN_PYTHON, "-I", "-m", "venv", "--without-pip", target], check=True, timeout=60)
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--dry-run", "--require-hashes", "--python", target / "bin/python"]
    done = subprocess.run(
        [*command, "-r", LOCK], capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Would install" in done.stderr


def test_conda_environment_takes_the_same_python_and_the_same_lock() -> None:
    text = (ROOT / "environment.yml").read_text()
    parts = yaml.safe_load(text)["dependencies"]
    names = [part for part in parts if isinstance(part, str)]
    assert f"python{PROJECT['project']['requires-python']}" in names
    assert {"cxx-compiler", "make", "git", "pip"} <= set(names)
    assert [part for part in parts if not isinstance(part, str)] == [{"pip": ["-r requirements.lock"]}]
    head = [line for line in text.splitlines() if line.startswith("#")]
    command = "pip install --no-deps --no-build-isolation -e ."
    assert any(line.removeprefix("#").strip() == command for line in head)


def test_conda_environment_and_make_install_labkit_alike() -> None:
    words = "--no-deps --no-build-isolation"
    assert words in (ROOT / "environment.yml").read_text()
    assert words in (ROOT / "Makefile").read_text()
